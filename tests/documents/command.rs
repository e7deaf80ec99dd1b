//! A command of a document, and how it is tried.

use std::collections::BTreeSet;

use crate::common::project::Output;
use crate::other;
use crate::printed;
use crate::tree::Tree;

/// Commands that a span names and that need no argument. Other commands without arguments are only named.
const ALONE: [&str; 3] = ["init", "list", "schema"];

/// Commands that are looked up and not run, with the reason.
const NOT_RUN: [(&str, &str); 3] = [
    ("expctl accuracy", "it plans for minutes; `.ci/run` compares its page"),
    ("expctl verdicts", "it plans for a while; `.ci/run` checks its page"),
    ("benches/cuda.yaml", "it needs a GPU"),
];

/// Trainings that are short, or become it. All others are tried with `--dry-run`.
const SHORT_RUNS: [(&str, &str); 5] = [
    ("run experiments/quickstart.yaml", ""),
    ("run my_method.yaml", ""),
    ("run --model tiny ", "--set max_steps=3"),
    ("run experiments/base.yaml", "--set max_steps=1"),
    (
        "run experiments/checkpointing.yaml",
        "--set model=tiny --set max_steps=2",
    ),
];

/// A command of a document, with what the document says of it.
pub struct Command {
    pub text: String,
    pub line: usize,
    pub exits: i32,
    pub is_span: bool,
    pub output: Option<String>,
}

impl Command {
    /// Whether its options are looked up in the help, because it has names for a user's things, or is only named itself.
    pub fn is_looked_up(&self) -> bool {
        let words = self.words();
        let is_named = self.is_span && words.len() == 1 && !ALONE.contains(&words[0].as_str());
        let is_not_run = other::is_other(&self.text) || NOT_RUN.iter().any(|(part, _)| self.text.contains(part));
        is_named || is_not_run || words.iter().any(|word| is_placeholder(word))
    }

    /// What is wrong with it in this copy of the tree.
    pub fn fault(&self, tree: &Tree) -> Option<String> {
        if other::is_other(&self.text) {
            return other::fault(&self.text);
        }
        if !self.is_looked_up() {
            return self.wrong_outcome(&tree.run(&self.shell()));
        }
        let not_compared = || {
            self.output
                .as_ref()
                .map(|_| "it is not run, so its output cannot be compared".to_owned())
        };
        let fault = self.unknown_options(tree).or_else(|| self.missing_file(tree));
        fault.or_else(not_compared)
    }

    fn wrong_outcome(&self, output: &Output) -> Option<String> {
        if output.code != self.exits {
            return Some(format!(
                "the document says exit code {}: {}",
                self.exits,
                printed::excerpt(output)
            ));
        }
        let shown = self.output.as_ref()?;
        printed::difference(shown, output)
    }

    fn unknown_options(&self, tree: &Tree) -> Option<String> {
        let words = self.words();
        let command = words
            .first()
            .filter(|word| !word.starts_with('-') && !is_placeholder(word));
        let help = tree.run(&format!("expctl {} --help", command.map_or("", String::as_str)));
        if help.code != 0 {
            return Some(format!("it is no command: {}", printed::excerpt(&help)));
        }
        let known = options(help.stdout.split_whitespace());
        let named = options(words.iter().map(String::as_str));
        let unknown: Vec<String> = named.difference(&known).map(|option| format!("`{option}`")).collect();
        match unknown.is_empty() {
            true => None,
            false => Some(format!("it has no option {}", unknown.join(", "))),
        }
    }

    /// A spec that it names and that does not ship.
    fn missing_file(&self, tree: &Tree) -> Option<String> {
        let words = self.words();
        let is_shipped = |word: &&String| word.starts_with("experiments/") || word.starts_with("benches/");
        let is_missing = |word: &&String| is_shipped(word) && !is_placeholder(word) && !tree.has(word);
        words
            .iter()
            .find(is_missing)
            .map(|word| format!("there is no `{word}`"))
    }

    /// The words behind `expctl`, without quotes and without a comment. Another program has none.
    fn words(&self) -> Vec<String> {
        if !is_command(&self.text) {
            return Vec::new();
        }
        let text = self.with_program();
        let text = without_comment(&text).replace("\\\n", " ");
        let words = text.split_whitespace().skip_while(|word| *word != "expctl").skip(1);
        let words = words.take_while(|word| !matches!(*word, ">" | ">>" | "|" | "&&"));
        words.map(|word| word.replace(['\'', '"'], "")).collect()
    }

    fn with_program(&self) -> String {
        self.text.replace("cargo run --release --", "expctl")
    }

    /// The command as it is run, with a training cut short.
    fn shell(&self) -> String {
        let text = self.with_program();
        let is_run = self.words().first().is_some_and(|word| word == "run");
        if !is_run || text.contains("--dry-run") {
            return text;
        }
        match SHORT_RUNS.iter().find(|(short, _)| text.contains(short)) {
            Some((_, more)) => text.replacen("expctl run", &format!("expctl run {more}"), 1),
            // It has no verdict to check.
            None => text
                .replacen("expctl run", "expctl run --dry-run", 1)
                .replace(" --check", ""),
        }
    }
}

/// Whether a text is a command of expctl, perhaps behind variables.
pub fn is_command(text: &str) -> bool {
    let words: Vec<&str> = without_comment(text)
        .split_whitespace()
        .skip_while(|word| other::is_variable(word))
        .collect();
    matches!(*words, ["expctl", _, ..] | ["cargo", "run", "--release", "--", _, ..])
}

/// A text before the comment at its end.
pub fn without_comment(text: &str) -> &str {
    text.split_once(" # ").map_or(text, |(command, _)| command)
}

/// Whether a word stands for something of the user's: `SPEC`, `owner/name`, `KEY=VALUE`, `SPEC...`, `[--option]`.
pub fn is_placeholder(word: &str) -> bool {
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
    let parts = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$');
    ["...", "…", "owner/name"].iter().any(|part| word.contains(part)) || word.split(parts).any(is_name)
}

fn options<'a>(words: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let name = |word: &'a str| {
        let word = word.trim_start_matches(['[', '(']);
        let end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        word.starts_with("--")
            .then(|| word.split(end).next().unwrap_or(word).to_owned())
    };
    words.filter_map(name).collect()
}
