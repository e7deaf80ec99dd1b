//! What the hub refuses, and what is asked of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
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
fn the_token_stays_with_the_endpoints_port() {
    let other = Server::start([("o/small", small())], Faults::none());
    let moved = Repository {
        moved_to: Some(other.endpoint()),
        ..small()
    };
    let server = Server::start([("o/small", moved)], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = Settings {
        token: Some("secret".into()),
        ..settings(&server, cache.path())
    };
    fetch("o/small", &settings).unwrap();
    assert!(server.seen().iter().all(|seen| seen.token.as_deref() == Some("secret")));
    let seen = other.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.token.is_none()),
        "{seen:?}"
    );
}

#[test]
fn the_error_tells_what_the_server_answered_last() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let mut settings = settings(&server, cache.path());
    settings.patience.attempts = 3;
    for (faults, expected) in [
        (["500", "500", "503"], "is busy (it answers 503); try again later"),
        (["500", "closed", "closed"], "is busy (it answers 500, and then "),
        (["closed", "503", "500"], "is busy (it answers 500); try again later"),
        (["closed", "closed", "closed"], "cannot be used: "),
    ] {
        server.set_faults(Faults::these(faults));
        let error = fetch("o/small", &settings).unwrap_err();
        assert!(error.contains(expected), "{faults:?}: {error}");
    }
}

#[test]
fn an_answer_of_another_commit_is_refused() {
    let wrong = Repository {
        claimed_commit: Some(commit(2)),
        ..small()
    };
    let server = Server::start([("o/small", wrong)], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let error = fetch("o/small", &settings(&server, cache.path())).unwrap_err();
    let expected = format!("it answers commit {} for {}", commit(2), commit(1));
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_cache_that_cannot_be_written_serves_what_it_has() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(&server, cache.path());
    fetch("o/small", &settings).unwrap();
    let folder = cache.path().join("models--o--small");
    for part in ["refs", "trees"] {
        fs::remove_dir_all(folder.join(part)).unwrap();
        // No file can be made in a file, whoever asks.
        fs::write(folder.join(part), "").unwrap();
    }
    assert_eq!(fetch("o/small", &settings), Ok(commit(1)));
}

#[test]
fn a_commit_in_pythons_cache_needs_no_network() {
    let cache = tempfile::tempdir().unwrap();
    let snapshot = cache.path().join("models--o--sharded/snapshots").join(commit(1));
    fs::create_dir_all(&snapshot).unwrap();
    let index = r#"{"weight_map": {"a": "model-00001-of-00001.safetensors"}}"#;
    for (file, content) in [
        ("config.json", "{}"),
        ("model.safetensors.index.json", index),
        ("model-00001-of-00001.safetensors", "weights"),
    ] {
        fs::write(snapshot.join(file), content).unwrap();
    }
    let server = Server::start([("o/small", small())], Faults::none());
    let gone = Settings {
        // A port that nothing listens on.
        endpoint: "http://127.0.0.1:9".into(),
        ..settings(&server, cache.path())
    };
    assert_eq!(fetch(&format!("o/sharded@{}", commit(1)), &gone), Ok(commit(1)));
    fs::remove_file(snapshot.join("model-00001-of-00001.safetensors")).unwrap();
    let error = fetch(&format!("o/sharded@{}", commit(1)), &gone).unwrap_err();
    assert!(
        error.contains("and the cache has no model-00001-of-00001.safetensors of"),
        "{error}"
    );
}

#[test]
fn a_repository_of_several_names_is_asked_for_once() {
    let set = Repository::new(commit(1), [("a.jsonl", "{}"), ("b.jsonl", "{}")]);
    let server = Server::start([("datasets/o/set", set)], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let hub = Hub::new(&settings(&server, cache.path()));
    for name in [
        "hf://datasets/o/set/a.jsonl",
        "hf://datasets/o/set@main/b.jsonl",
        "hf://o/set",
    ] {
        hub.open(&HubName::of_data(name).unwrap().unwrap()).unwrap();
    }
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_link_is_replaced_without_a_gap() {
    let server = Server::start([("o/small", small())], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(&server, cache.path());
    fetch("o/small", &settings).unwrap();
    let folder = cache.path().join("models--o--small");
    let link = folder.join("snapshots").join(commit(1)).join("config.json");
    fs::write(folder.join("blobs/damaged"), "of another length").unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let gaps = scope.spawn(|| {
            let mut gaps = 0;
            while !is_done.load(Ordering::Relaxed) {
                gaps += usize::from(fs::symlink_metadata(&link).is_err());
            }
            gaps
        });
        for _ in 0..300 {
            symlink("../../blobs/damaged", link.with_extension("new")).unwrap();
            fs::rename(link.with_extension("new"), &link).unwrap();
            fetch("o/small", &settings).unwrap();
            assert_eq!(fs::read_to_string(&link).unwrap(), "{}");
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(gaps.join().unwrap(), 0);
    });
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
