//! A server of the hub's addresses and headers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use expctl::hub::{Patience, Settings};
use expctl::text::hex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A commit's hash that no content decides.
pub fn commit(number: u8) -> String {
    format!("{number:02x}").repeat(20)
}

/// A repository.
#[derive(Clone, Default)]
pub struct Repository {
    /// Files by commit and name.
    pub commits: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// Commits by branch.
    pub branches: BTreeMap<String, String>,
    /// The token that may read it; anybody may without one.
    pub token: Option<&'static str>,
    /// True if the conditions were not accepted.
    pub gated: bool,
    /// Seconds that the next answers ask to wait for.
    pub busy: Vec<u64>,
    /// A length that the list of files gives for this file.
    pub claimed_size: Option<(&'static str, u64)>,
    /// The commit that the answers for files name instead of their own.
    pub claimed_commit: Option<String>,
    /// The server that all requests are sent on to.
    pub moved_to: Option<String>,
}

impl Repository {
    /// A repository whose `main` is at a commit with these files.
    pub fn new<C: Into<Vec<u8>>>(commit: String, files: impl IntoIterator<Item = (&'static str, C)>) -> Self {
        let files = files
            .into_iter()
            .map(|(name, content)| (name.to_owned(), content.into()));
        Self {
            branches: BTreeMap::from([("main".to_owned(), commit.clone())]),
            commits: BTreeMap::from([(commit, files.collect())]),
            ..Self::default()
        }
    }

    /// Adds a commit and moves `main` to it.
    pub fn push(&mut self, commit: String, files: BTreeMap<String, Vec<u8>>) {
        self.branches.insert("main".into(), commit.clone());
        self.commits.insert(commit, files);
    }

    fn resolve(&self, revision: &str) -> Option<&String> {
        let commit = self.branches.get(revision);
        commit.or_else(|| self.commits.keys().find(|commit| *commit == revision))
    }
}

/// How the server fails.
pub struct Faults {
    random: StdRng,
    /// The part of answers that fail.
    share: f64,
    /// The most failures in a row for one address.
    in_a_row: usize,
    failed: HashMap<String, usize>,
    /// The faults of the next answers, before the random ones.
    next: VecDeque<&'static str>,
    /// The failures so far, by their name.
    pub counts: BTreeMap<&'static str, usize>,
}

impl Faults {
    pub fn none() -> Self {
        Self::new(0, 0.0, 0)
    }

    pub fn new(seed: u64, share: f64, in_a_row: usize) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            share,
            in_a_row,
            failed: HashMap::new(),
            next: VecDeque::new(),
            counts: BTreeMap::new(),
        }
    }

    /// These, and none from then on.
    pub fn these(faults: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            next: faults.into_iter().collect(),
            ..Self::none()
        }
    }

    /// The fault of the next answer for an address, and a random number for it.
    fn next(&mut self, path: &str) -> (Option<&'static str>, u64) {
        const ALL: [&str; 13] = [
            "closed",
            "cut",
            "reset",
            "429",
            "500",
            "503",
            "short",
            "long",
            "other",
            "redirect",
            "whole",
            "elsewhere",
            "page",
        ];
        let number = self.random.random();
        if let Some(fault) = self.next.pop_front() {
            return (Some(fault), number);
        }
        let failed = self.failed.entry(path.to_owned()).or_default();
        if *failed >= self.in_a_row || !self.random.random_bool(self.share) {
            *failed = 0;
            return (None, number);
        }
        *failed += 1;
        let fault = ALL[self.random.random_range(0..ALL.len())];
        *self.counts.entry(fault).or_default() += 1;
        (Some(fault), number)
    }
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub token: Option<String>,
    pub start: Option<u64>,
}

struct State {
    repositories: BTreeMap<String, Repository>,
    faults: Faults,
    seen: Vec<Seen>,
    content: HashMap<String, Vec<u8>>,
    port: u16,
}

/// The server; it ends with the test's process.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Server {
    /// A server of these repositories: `owner/name` and `datasets/owner/name`.
    pub fn start(repositories: impl IntoIterator<Item = (&'static str, Repository)>, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let repositories = repositories
            .into_iter()
            .map(|(name, repository)| (name.to_owned(), repository));
        let state = Arc::new(Mutex::new(State {
            repositories: repositories.collect(),
            faults,
            seen: Vec::new(),
            content: HashMap::new(),
            port,
        }));
        let server = Self {
            state: state.clone(),
            port,
        };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        server
    }

    /// The settings of a client that waits so.
    pub fn settings(&self, cache: &Path, patience: Patience) -> Settings {
        Settings {
            endpoint: self.endpoint(),
            cache: cache.to_path_buf(),
            token: None,
            offline: false,
            patience,
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn change(&self, name: &str, change: impl FnOnce(&mut Repository)) {
        change(
            self.state
                .lock()
                .unwrap()
                .repositories
                .get_mut(name)
                .expect("a repository"),
        );
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().unwrap().faults = faults;
    }

    /// The requests since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    pub fn fault_counts(&self) -> BTreeMap<&'static str, usize> {
        self.state.lock().unwrap().faults.counts.clone()
    }
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// Answers one request; `None` if the connection is to be closed.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let mut headers = HashMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let start = headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let token = headers
        .get("authorization")
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::to_owned);
    let (answer, fault, number) = {
        let mut state = state.lock().unwrap();
        state.seen.push(Seen {
            path: path.clone(),
            token: token.clone(),
            start,
        });
        let (fault, number) = state.faults.next(&path);
        (answer(&mut state, &path, token.as_deref()), fault, number)
    };
    send(stream, &path, answer, start, fault, number)
}

fn answer(state: &mut State, path: &str, token: Option<&str>) -> Answer {
    if let Some(hash) = path.strip_prefix("content/") {
        return match state.content.get(hash) {
            Some(content) => Answer::new(200).body(content.clone()),
            None => Answer::new(404),
        };
    }
    let (name, revision, file) = match parts(path) {
        Some(parts) => parts,
        None => return Answer::new(404),
    };
    let missing = |code: &str| Answer::new(404).header("X-Error-Code", code);
    if let Some(seconds) = state
        .repositories
        .get_mut(&name)
        .and_then(|repository| repository.busy.pop())
    {
        return Answer::new(429).header("Retry-After", seconds.to_string());
    }
    let Some(repository) = state.repositories.get(&name) else {
        return match token {
            // The hub does not say what is missing to those that it does not know.
            None => Answer::new(401).header("X-Error-Code", "RepoNotFound"),
            Some(_) => missing("RepoNotFound"),
        };
    };
    if let Some(other) = &repository.moved_to {
        return Answer::new(307).header("Location", format!("{other}/{path}"));
    }
    if repository.token.is_some() && repository.token != token {
        return match (token, repository.gated) {
            (None, true) => Answer::new(401).header("X-Error-Code", "GatedRepo"),
            (Some(_), true) => Answer::new(403).header("X-Error-Code", "GatedRepo"),
            (Some("bad"), _) => {
                Answer::new(401).header("X-Error-Message", "Invalid credentials in Authorization header")
            }
            _ => Answer::new(401).header("X-Error-Code", "RepoNotFound"),
        };
    }
    let Some(commit) = repository.resolve(&revision) else {
        return missing("RevisionNotFound");
    };
    let files = &repository.commits[commit];
    let Some(file) = file else {
        return Answer::new(200).body(listing(commit, files, repository.claimed_size).to_string());
    };
    let Some(content) = files.get(&file) else {
        return missing("EntryNotFound");
    };
    let commit = repository.claimed_commit.as_ref().unwrap_or(commit);
    let answer = Answer::new(200).header("X-Repo-Commit", commit);
    if !is_large(&file) {
        return answer
            .header("ETag", format!("\"{}\"", git_hash(content)))
            .body(content.clone());
    }
    let hash = sha256(content);
    state.content.insert(hash.clone(), content.clone());
    // Large files are on another host.
    Answer::new(302)
        .header("X-Repo-Commit", commit)
        .header("X-Linked-Etag", format!("\"{hash}\""))
        .header("Location", format!("http://localhost:{}/content/{hash}", state.port))
}

/// The repository, the revision and the file of an address.
fn parts(path: &str) -> Option<(String, String, Option<String>)> {
    let decoded = path.replace("%2F", "/").replace("%20", " ");
    if let Some(rest) = decoded.strip_prefix("api/") {
        let (name, revision) = rest.strip_suffix("?blobs=true")?.split_once("/revision/")?;
        let name = name.strip_prefix("models/").unwrap_or(name);
        return Some((name.into(), revision.into(), None));
    }
    let (name, rest) = decoded.split_once("/resolve/")?;
    let (revision, file) = rest.split_once('/')?;
    Some((name.into(), revision.into(), Some(file.into())))
}

fn is_large(file: &str) -> bool {
    file.ends_with(".safetensors") || file.ends_with(".parquet")
}

fn listing(commit: &str, files: &BTreeMap<String, Vec<u8>>, claimed: Option<(&str, u64)>) -> Value {
    let siblings = files.iter().map(|(name, content)| {
        let size = claimed
            .filter(|(file, _)| file == name)
            .map_or(content.len() as u64, |(_, size)| size);
        let mut sibling = json!({ "rfilename": name, "size": size, "blobId": git_hash(content) });
        if is_large(name) {
            sibling["lfs"] = json!({ "sha256": sha256(content), "size": size, "pointerSize": 134 });
        }
        sibling
    });
    json!({ "id": "x", "sha": commit, "private": false, "siblings": siblings.collect::<Vec<_>>() })
}

pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub fn git_hash(content: &[u8]) -> String {
    let hash = Sha1::new()
        .chain_update(format!("blob {}\0", content.len()))
        .chain_update(content);
    hex(&hash.finalize())
}

/// Sends an answer with a fault; `None` if the connection is closed.
fn send(
    mut stream: &TcpStream,
    path: &str,
    answer: Answer,
    start: Option<u64>,
    fault: Option<&str>,
    number: u64,
) -> Option<()> {
    let Answer {
        mut status,
        mut headers,
        mut body,
    } = answer;
    let length = body.len() as u64;
    let start = start.filter(|_| status == 200 && path.starts_with("content/") || path.contains("/resolve/"));
    let mut start = start.filter(|_| fault != Some("whole"));
    if fault == Some("elsewhere") {
        start = start.map(|start| start / 2);
    }
    match start {
        Some(start) if status == 200 && start >= length => {
            (status, body) = (416, Vec::new());
            headers.push(("Content-Range".into(), format!("bytes */{length}")));
        }
        Some(start) if status == 200 => {
            status = 206;
            body.drain(..start as usize);
            headers.push(("Content-Range".into(), format!("bytes {start}-{}/{length}", length - 1)));
        }
        _ => {}
    }
    let some = (number % (body.len() as u64 + 1)) as usize;
    let (mut claimed, mut close) = (body.len(), number.is_multiple_of(3));
    match fault {
        Some("closed") => return close_now(stream),
        Some("429") => {
            (status, body, claimed) = (429, Vec::new(), 0);
            headers = vec![("Retry-After".into(), "0".into())];
        }
        Some(code @ ("500" | "503")) => {
            (status, body, headers) = (code.parse().unwrap_or(500), b"oops".to_vec(), Vec::new());
            claimed = body.len();
        }
        // The length of what is sent, not of the file.
        Some("short") => {
            body.truncate(some);
            claimed = body.len();
        }
        Some("long") => {
            body.extend(vec![b'x'; 1 + some % 1000]);
            claimed = body.len();
        }
        // Nothing but TLS could tell that a list of files was changed on the way.
        Some("other") if !body.is_empty() && !path.starts_with("api/") => {
            let at = some % body.len();
            body[at] ^= 1;
        }
        Some("redirect") => {
            (status, body, claimed) = (307, Vec::new(), 0);
            headers = vec![("Location".into(), format!("/{path}"))];
        }
        // A proxy's page in place of the answer.
        Some("page") => {
            (status, body, headers) = (200, b"<html>please log in</html>".to_vec(), Vec::new());
            claimed = body.len();
        }
        Some("cut" | "reset") => {
            body.truncate(some);
            close = true;
        }
        _ => {}
    }
    let mut head = format!("HTTP/1.1 {status} x\r\nContent-Length: {claimed}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += if close { "Connection: close\r\n\r\n" } else { "\r\n" };
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()?;
    stream.flush().ok()?;
    if close { close_now(stream) } else { Some(()) }
}

fn close_now(stream: &TcpStream) -> Option<()> {
    let _ = stream.shutdown(Shutdown::Both);
    None
}
