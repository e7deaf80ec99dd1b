//! Random faults of the server, of the disk and of other processes: no file is lost or wrong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use expctl::hub::{self, Hub, HubError, HubName, Patience, Settings, Snapshot, Wanted};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use serde_json::json;

use crate::server::{Faults, Repository, Server, commit, sha256};

/// Quick and stubborn.
fn settings(server: &Server, cache: &Path) -> Settings {
    let patience = Patience {
        attempts: 40,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_secs(2),
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(5),
        lock: Duration::from_secs(5),
        quiet: Duration::from_millis(20),
    };
    server.settings(cache, patience)
}

/// A model in two shards, with files of awkward lengths.
fn model(random: &mut StdRng) -> Repository {
    let mut bytes = |length: usize| {
        let mut bytes = vec![0; length];
        random.fill_bytes(&mut bytes);
        bytes
    };
    let index = json!({ "weight_map": { "a": "weights/one.safetensors", "b": "two.safetensors" } });
    let long = bytes(300_001);
    Repository::new(
        commit(7),
        [
            ("config.json", b"{}".to_vec()),
            ("tokenizer.json", bytes(70_000)),
            ("model.safetensors.index.json", index.to_string().into_bytes()),
            ("weights/one.safetensors", long),
            ("two.safetensors", bytes(1 << 17)),
            ("README.md", bytes(5_000)),
        ],
    )
}

fn name() -> HubName {
    HubName::of_model("owner/name").unwrap().unwrap()
}

fn fetch(settings: &Settings) -> Result<Snapshot, HubError> {
    let hub = Hub::new(settings);
    let mut repository = hub.open(&name())?;
    let all = Wanted {
        tokenizer: true,
        weights: true,
    };
    hub::fetch_model(&mut repository, all, &mut ())?;
    Ok(repository.into_snapshot(true))
}

/// Every file of a commit in the cache is the server's.
fn check_files(cache: &Path, files: &BTreeMap<String, Vec<u8>>) -> usize {
    let root = cache.join("models--owner--name/snapshots").join(commit(7));
    let found = files
        .iter()
        .filter_map(|(file, content)| Some((file, content, fs::read(root.join(file)).ok()?)));
    found
        .map(|(file, content, found)| assert!(found == *content, "{file} is wrong"))
        .count()
}

#[test]
fn two_hundred_runs_of_random_faults() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let repository = model(&mut random);
        let files = repository.commits[&commit(7)].clone();
        let cache = tempfile::tempdir().unwrap();
        let server = Server::start([("owner/name", repository)], Faults::new(seed, 0.5, 3));
        let settings = settings(&server, cache.path());
        let blobs = cache.path().join("models--owner--name/blobs");
        let hash = sha256(&files["weights/one.safetensors"]);
        if seed % 4 == 1 {
            // An earlier process left a part: a right one, a wrong one, or one that is too long.
            fs::create_dir_all(&blobs).unwrap();
            let part = match seed % 3 {
                0 => files["weights/one.safetensors"][..random.random_range(0..300_001)].to_vec(),
                1 => vec![7; random.random_range(0..300_001)],
                _ => vec![7; 300_002],
            };
            let name = if seed % 2 == 0 { "" } else { ".0a1b2c3d" };
            fs::write(blobs.join(format!("{hash}{name}.incomplete")), part).unwrap();
        }
        let snapshot = match seed % 5 {
            // Two at once.
            2 => thread::scope(|scope| {
                let other = scope.spawn(|| fetch(&settings));
                let mine = fetch(&settings);
                other
                    .join()
                    .unwrap()
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                mine
            }),
            // Another holds the lock for a while.
            3 => {
                let locks = cache.path().join(".locks/models--owner--name");
                fs::create_dir_all(&locks).unwrap();
                let lock = File::create(locks.join(format!("{hash}.lock"))).unwrap();
                lock.lock().unwrap();
                thread::scope(|scope| {
                    scope.spawn(move || {
                        thread::sleep(Duration::from_millis(30));
                        drop(lock);
                    });
                    fetch(&settings)
                })
            }
            _ => fetch(&settings),
        };
        let snapshot = snapshot.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(check_files(cache.path(), &files), 5, "seed {seed}");
        assert_eq!(snapshot.revision.commit, commit(7));
        assert_eq!(snapshot.revision.files["weights/one.safetensors"], hash);
        assert!(
            !snapshot.revision.files.contains_key("README.md"),
            "only what is needed"
        );
        let names = fs::read_dir(&blobs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let parts: Vec<_> = names.filter(|name| name.contains('.')).collect();
        assert!(parts.is_empty(), "seed {seed}: {parts:?} are left");
        for (fault, count) in server.fault_counts() {
            *counts.entry(fault).or_default() += count;
        }
        // The same again asks for the commit alone.
        server.set_faults(Faults::none());
        server.seen();
        fetch(&settings).unwrap();
        assert_eq!(server.seen().len(), 1, "seed {seed}");
    }
    assert_eq!(counts.len(), 13, "{counts:?}");
    assert!(counts.values().all(|count| *count > 50), "{counts:?}");
}

/// A server that never recovers: an error, no wrong file, and the next attempt goes on.
#[test]
fn a_server_that_fails_for_good() {
    let mut failed = 0;
    for seed in 0..30 {
        let mut random = StdRng::seed_from_u64(seed);
        let repository = model(&mut random);
        let files = repository.commits[&commit(7)].clone();
        let cache = tempfile::tempdir().unwrap();
        let server = Server::start([("owner/name", repository)], Faults::new(seed, 0.9, usize::MAX));
        let mut settings = settings(&server, cache.path());
        settings.patience.attempts = 3;
        failed += usize::from(fetch(&settings).is_err());
        check_files(cache.path(), &files);
        server.set_faults(Faults::none());
        fetch(&settings).unwrap();
        assert_eq!(check_files(cache.path(), &files), 5, "seed {seed}");
    }
    assert!(failed > 15, "{failed}");
}

#[test]
fn a_server_is_waited_for_as_long_as_it_asks() {
    let server = Server::start([("owner/name", model(&mut StdRng::seed_from_u64(0)))], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(&server, cache.path());
    server.change("owner/name", |repository| repository.busy = vec![1]);
    let start = Instant::now();
    fetch(&settings).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    server.change("owner/name", |repository| repository.busy = vec![3600]);
    fs::remove_dir_all(cache.path().join("models--owner--name")).unwrap();
    let error = fetch(&settings).unwrap_err().to_string();
    assert!(
        error.contains("is busy (it answers 429) and asks to wait 1 h 00 min"),
        "{error}"
    );
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let repository = model(&mut StdRng::seed_from_u64(0));
    let content = repository.commits[&commit(7)]["weights/one.safetensors"].clone();
    let server = Server::start([("owner/name", repository)], Faults::none());
    // The names of Python's versions.
    for name in ["incomplete", "0a1b2c3d.incomplete"] {
        let cache = tempfile::tempdir().unwrap();
        let blobs = cache.path().join("models--owner--name/blobs");
        fs::create_dir_all(&blobs).unwrap();
        let hash = sha256(&content);
        fs::write(blobs.join(format!("{hash}.{name}")), &content[..200_000]).unwrap();
        fs::write(blobs.join(format!("{hash}.other.incomplete")), &content[..9]).unwrap();
        fetch(&settings(&server, cache.path())).unwrap();
        assert!(server.seen().iter().any(|seen| seen.start == Some(200_000)), "{name}");
        let left = fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(left.filter(|path| path.extension().is_some()).count(), 0, "{name}");
    }
}

/// As on file systems where everybody gets the lock.
#[test]
fn a_part_that_grows_is_waited_for_without_a_lock() {
    let repository = model(&mut StdRng::seed_from_u64(0));
    let content = repository.commits[&commit(7)]["two.safetensors"].clone();
    let server = Server::start([("owner/name", repository)], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let blobs = cache.path().join("models--owner--name/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let part = blobs.join(format!("{}.0a1b2c3d.incomplete", sha256(&content)));
    let mut settings = settings(&server, cache.path());
    settings.patience.quiet = Duration::from_secs(1);
    fs::write(&part, &content[..1000]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&part).unwrap();
            for piece in content[1000..].chunks(10_000) {
                thread::sleep(Duration::from_millis(100));
                file.write_all(piece).unwrap();
            }
            fs::rename(&part, blobs.join(sha256(&content))).unwrap();
        });
        fetch(&settings).unwrap();
    });
    let seen = server.seen();
    let again = seen.iter().filter(|seen| seen.path.contains("two.safetensors"));
    assert_eq!(again.count(), 0, "the other's file is used");
}

/// Holds a lock until its standard input closes: run by the test below in a process of its own.
#[test]
#[ignore = "the other process of the test below"]
fn other_process() {
    let lock = File::create(std::env::var("HELD_LOCK").unwrap()).unwrap();
    lock.lock().unwrap();
    fs::write(std::env::var("HELD_LOCK").unwrap() + ".held", "").unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn another_process_that_downloads_is_waited_for() {
    let repository = model(&mut StdRng::seed_from_u64(0));
    let content = repository.commits[&commit(7)]["two.safetensors"].clone();
    let server = Server::start([("owner/name", repository)], Faults::none());
    let cache = tempfile::tempdir().unwrap();
    let locks = cache.path().join(".locks/models--owner--name");
    fs::create_dir_all(&locks).unwrap();
    let lock = locks.join(format!("{}.lock", sha256(&content)));
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::other_process", "--ignored"])
        .env("HELD_LOCK", &lock)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let held = lock.with_extension("lock.held");
    while !held.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let mut settings = settings(&server, cache.path());
    settings.patience.lock = Duration::from_millis(200);
    let error = fetch(&settings).unwrap_err().to_string();
    assert!(
        error.contains("another process has held") && error.contains("without progress"),
        "{error}"
    );
    settings.patience.lock = Duration::from_secs(20);
    let blob = cache.path().join("models--owner--name/blobs").join(sha256(&content));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            // It finishes the file, and ends.
            fs::write(&blob, &content).unwrap();
            drop(holder.stdin.take());
            holder.wait().unwrap();
        });
        server.seen();
        fetch(&settings).unwrap();
        let again = server
            .seen()
            .iter()
            .filter(|seen| seen.path.contains("two.safetensors"))
            .count();
        assert_eq!(again, 0, "the other's file is used");
    });
}
