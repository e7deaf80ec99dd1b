//! What the hub refuses, and what is asked of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use expctl::hub::{self, Hub, HubName, Patience, Settings, Wanted};

use crate::server::{Faults, Repository, Server, commit};

fn settings(server: &Server, cache: &Path) -> Settings {
    let patience = Patience {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..Patience::default()
    };
    server.settings(cache, patience)
}

fn fetch(name: &str, settings: &Settings) -> Result<String, String> {
    let name = HubName::of_model(name).unwrap().unwrap();
    let hub = Hub::new(settings);
    let fetched = hub.open(&name).and_then(|mut repository| {
        let weights = Wanted {
            tokenizer: false,
            weights: true,
        };
        hub::fetch_model(&mut repository, weights, &mut ())?;
        Ok(repository.commit().to_owned())
    });
    fetched.map_err(|error| error.to_string())
}

fn small() -> Repository {
    Repository::new(commit(1), [("config.json", "{}"), ("model.safetensors", "weights")])
}

#[test]
fn each_refusal_says_what_helps() {
    let gated = Repository {
        token: Some("mine"),
        gated: true,
        ..small()
    };
    let private = Repository {
        token: Some("mine"),
        ..small()
    };
    let pickled = Repository::new(commit(1), [("config.json", "{}"), ("pytorch_model.bin", "weights")]);
    let large = Repository {
        claimed_size: Some(("model.safetensors", 1 << 60)),
        ..small()
    };
    let server = Server::start(
        [
            ("o/small", small()),
            ("o/gated", gated),
            ("o/private", private),
            ("o/pickled", pickled),
            ("o/large", large),
            ("o/bare", Repository::new(commit(1), [("README.md", "")])),
        ],
        Faults::none(),
    );
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(&server, cache.path());
    for (name, expected) in [
        (
            "o/none",
            "has no model `o/none`, or it is private; a private one needs your token in HF_TOKEN",
        ),
        ("o/gated", "`o/gated` is gated; accept its conditions on"),
        ("o/gated", "and give your token in HF_TOKEN"),
        (
            "o/private",
            "or it is private; a private one needs your token in HF_TOKEN",
        ),
        ("o/small@v9", "`o/small` has no revision `v9`"),
        (
            "o/pickled",
            "has no safetensors files, only pickled ones (pytorch_model.bin)",
        ),
        ("o/bare", "`o/bare` has no file config.json"),
        ("o/large", "needs 1,073,741,824 GiB, and its disk has"),
    ] {
        let error = fetch(name, &settings).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let with_token = |token: &str| Settings {
        token: Some(token.into()),
        ..settings.clone()
    };
    assert_eq!(fetch("o/gated", &with_token("mine")), Ok(commit(1)));
    for (name, token, expected) in [
        ("o/gated", "other", "give the token of that account in HF_TOKEN"),
        ("o/private", "bad", "does not accept the token"),
        ("o/none", "mine", "and the token in use may not see it"),
    ] {
        let error = fetch(name, &with_token(token)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_token_stays_with_the_endpoint() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = Settings {
        token: Some("secret".into()),
        ..settings(&server, cache.path())
    };
    fetch("o/small", &settings).unwrap();
    let seen = server.seen();
    let tokens = |to_content: bool| {
        let seen = seen
            .iter()
            .filter(move |seen| seen.path.starts_with("content/") == to_content);
        seen.map(|seen| seen.token.as_deref()).collect::<Vec<_>>()
    };
    assert_eq!(tokens(true), [None]);
    assert!(tokens(false).iter().all(|token| *token == Some("secret")), "{seen:?}");
}

#[test]
fn the_cache_serves_without_a_network() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let online = settings(&server, cache.path());
    let offline = Settings {
        offline: true,
        ..online.clone()
    };
    let error = fetch("o/small", &offline).unwrap_err();
    assert!(
        error.contains("hf://o/small is not in the cache") && error.contains("HF_HUB_OFFLINE"),
        "{error}"
    );
    fetch("o/small", &online).unwrap();
    server.seen();
    assert_eq!(fetch("o/small", &offline), Ok(commit(1)));
    let pinned = format!("o/small@{}", commit(1));
    assert_eq!(fetch(&pinned, &offline), Ok(commit(1)));
    assert_eq!(fetch(&pinned, &online), Ok(commit(1)), "a commit needs no question");
    assert!(server.seen().is_empty());
    let gone = Settings {
        // A port that nothing listens on.
        endpoint: "http://127.0.0.1:9".into(),
        ..online
    };
    assert_eq!(fetch("o/small", &gone), Ok(commit(1)));
    let error = fetch("o/other", &gone).unwrap_err();
    assert!(error.contains("http://127.0.0.1:9 cannot be used"), "{error}");
}

#[test]
fn a_branch_that_moves_is_followed_and_shares_its_files() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(&server, cache.path());
    fetch("o/small", &settings).unwrap();
    server.change("o/small", |repository| {
        let mut files: BTreeMap<_, _> = repository.commits[&commit(1)].clone();
        files.insert("config.json".into(), b"{ }".to_vec());
        repository.push(commit(2), files);
    });
    server.seen();
    assert_eq!(fetch("o/small", &settings), Ok(commit(2)));
    let paths: Vec<_> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths.len(), 2, "the list and the changed file: {paths:?}");
    let folder = cache.path().join("models--o--small");
    assert_eq!(std::fs::read_to_string(folder.join("refs/main")).unwrap(), commit(2));
    let read = |number| std::fs::read_to_string(folder.join("snapshots").join(commit(number)).join("config.json"));
    assert_eq!((read(1).unwrap(), read(2).unwrap()), ("{}".into(), "{ }".into()));
}
