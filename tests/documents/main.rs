//! The commands of README.md and the pages: each is run in a copy of the tree, and what a page shows of its output is
//! compared. Lines of other programs are looked up. `DOCUMENTS=docs/fit.md cargo test --release --test documents` runs those of one page.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod command;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod markdown;
mod other;
mod printed;
mod tree;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use markdown::Document;
use tree::Tree;

/// Where commands are read: files, and folders with their `.md` files.
const PLACES: [&str; 5] = [
    "README.md",
    "docs",
    "crates/report/templates/README.md",
    "benches/README.md",
    "CONTRIBUTING.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of all documents, relative to the root.
fn names() -> Vec<String> {
    let pages = |place: &str| -> Vec<String> {
        if root().join(place).is_file() {
            return vec![place.to_owned()];
        }
        let entries = fs::read_dir(root().join(place))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut pages: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        pages.retain(|name| name.ends_with(".md"));
        pages.sort();
        pages.iter().map(|name| format!("{place}/{name}")).collect()
    };
    PLACES.into_iter().flat_map(pages).collect()
}

/// The documents asked for, in an order that keeps the longest from being the last.
fn documents() -> Vec<Document> {
    let only = std::env::var("DOCUMENTS").ok();
    let is_asked = |name: &String| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let read = |name: String| Document::read(&name, &fs::read_to_string(root().join(&name)).unwrap());
    names().into_iter().filter(is_asked).map(read).collect()
}

#[test]
fn every_command_does_what_its_document_says() {
    let documents = documents();
    let commands: usize = documents.iter().map(|document| document.commands.len()).sum();
    assert!(commands > 0, "no command was found");
    let queue = Mutex::new(documents.into_iter());
    let faults = Mutex::new(Vec::new());
    let work = || {
        while let Some(document) = { queue.lock().unwrap().next() } {
            let found = document.faults_in(&Tree::copy());
            faults.lock().unwrap().extend(found);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(work);
        }
    });
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    assert!(
        faults.is_empty(),
        "{} of {commands} commands:\n\n{}",
        faults.len(),
        faults.join("\n\n")
    );
}
