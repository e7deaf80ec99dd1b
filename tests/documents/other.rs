//! Lines of other programs, which are looked up: the files that they name, and the options of scripts of the tree.

use std::fs;

use crate::command::{is_placeholder, without_comment};
use crate::root;

/// Programs whose lines are not run, each with the reason.
const PROGRAMS: [(&str, &str); 20] = [
    (".ci/", "it runs this test"),
    ("cargo bench", "it takes minutes"),
    ("cargo build", "it builds the program that is under test"),
    ("cargo clippy", "it takes minutes"),
    ("cargo fetch", "it needs a network"),
    ("cargo install", "it builds the program again"),
    ("cargo package", "it builds the program again"),
    ("cargo run --release --example", "it reads the sources of all crates"),
    ("cargo rustc", "it builds the program again"),
    ("cargo test", "it runs this test"),
    ("docker", "it needs docker"),
    ("git", "the copy is no repository"),
    ("packaging/", "it needs a network, and builds for minutes"),
    ("perf", "it needs perf"),
    ("pip install", "it needs a network"),
    ("pipx install", "it needs a network"),
    ("python python/", "it needs PyTorch or a browser"),
    ("tar", "the archive is not built"),
    ("tests/newcomer", "it runs this test"),
    ("uvx", "it needs a network"),
];

/// Folders that a clone has.
const FOLDERS: [&str; 10] = [
    ".ci",
    "benches",
    "crates",
    "docs",
    "examples",
    "experiments",
    "packaging",
    "python",
    "src",
    "tests",
];

/// Whether a text is a line of one of these programs, perhaps behind variables.
pub fn is_other(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().skip_while(|word| is_variable(word)).collect();
    let command = words.join(" ");
    let begins = |program: &str| {
        let rest = command.strip_prefix(program);
        rest.is_some_and(|rest| program.ends_with('/') || rest.is_empty() || rest.starts_with(' '))
    };
    let programs = PROGRAMS.iter().map(|(program, _)| program);
    let mut programs = programs.filter(|program| words.len() > 1 || program.contains('/'));
    programs.any(|program| begins(program))
}

/// A setting in front of a program, as `RANK=4`.
pub fn is_variable(word: &str) -> bool {
    word.contains('=') && word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// What a line names and the tree has not.
pub fn fault(text: &str) -> Option<String> {
    let text = without_comment(text).replace("\\\n", " ");
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(['\'', '"']))
        .collect();
    let missing = |path: String| (!root().join(&path).exists()).then(|| format!("there is no `{path}`"));
    let of_cargo = words.windows(2).find_map(|pair| match *pair {
        ["--test", name] => missing(format!("tests/{name}")),
        ["--bench", name] => missing(format!("benches/{name}.rs")),
        ["--example", name] => missing(format!("examples/{name}.rs")),
        _ => None,
    });
    let is_file = |word: &&&str| {
        let folder = word.split_once('/').map(|(folder, _)| folder);
        folder.is_some_and(|folder| FOLDERS.contains(&folder)) && !word.contains(['*', '$']) && !is_placeholder(word)
    };
    let files = || words.iter().filter(is_file);
    let file = files().find_map(|word| missing((*word).to_owned()));
    let of_script = || {
        let script = fs::read_to_string(root().join(files().next()?)).ok()?;
        let end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        let options = words.iter().filter(|word| word.starts_with("--"));
        let mut options = options.map(|word| word.split(end).next().unwrap_or(word));
        let unknown = options.find(|option| !script.contains(option))?;
        Some(format!("it has no option `{unknown}`"))
    };
    of_cargo.or(file).or_else(of_script)
}
