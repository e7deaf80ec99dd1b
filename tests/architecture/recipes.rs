//! The recipes of CONTRIBUTING.md: each step's paths are there, and its files hold the names that it mentions.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{hold, root};

/// The code spans of each step, with the line that it begins on.
fn steps(text: &str) -> Vec<(usize, Vec<String>)> {
    let (before, rest) = text.split_once("\n## How to add things\n").expect("the recipes");
    let (recipes, _) = rest.split_once("\n## ").expect("a section behind the recipes");
    let first = before.matches('\n').count() + 3;
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (at, line) in recipes.lines().enumerate() {
        let is_numbered = line.starts_with(|c: char| c.is_ascii_digit());
        match steps.last_mut() {
            _ if is_numbered => steps.push((first + at, line.to_owned())),
            Some((_, step)) if line.starts_with("   ") => *step += &format!(" {}", line.trim_start()),
            _ => {}
        }
    }
    let spans = |step: String| step.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    steps.into_iter().map(|(line, step)| (line, spans(step))).collect()
}

fn is_path(span: &str) -> bool {
    let is_file = |end: &&str| span.ends_with(*end);
    !span.contains(' ') && (span.contains('/') || [".rs", ".md", ".toml"].iter().any(is_file))
}

fn is_name(span: &str) -> bool {
    let letters = span.strip_suffix('!').unwrap_or(span);
    let is_placeholder = span == "NAME" || span.starts_with("NAME_");
    !letters.is_empty() && !is_placeholder && letters.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Where a path leads: from the root, or from the folder of the path before it. The folder alone, if it has a placeholder.
fn find(path: &str, before: Option<&PathBuf>) -> Option<PathBuf> {
    let known = match path.find("NAME") {
        Some(at) => &path[..path[..at].rfind('/')? + 1],
        None => path,
    };
    let beside = before.map(|before| match before.is_dir() {
        true => before.join(known),
        false => before.with_file_name(known),
    });
    [Some(root().join(known)), beside]
        .into_iter()
        .flatten()
        .find(|path| path.exists())
}

/// The text of a file, or of all files in a folder.
fn text_of(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).unwrap_or_default();
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|entry| text_of(&entry)).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = word.trim_end_matches('!');
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn recipes_name_what_is_there() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let mut breaches = Vec::new();
    for (line, spans) in steps(&text) {
        let mut files: Vec<PathBuf> = Vec::new();
        for span in spans.iter().filter(|span| is_path(span)) {
            match find(span, files.last()) {
                Some(file) => files.push(file),
                None => breaches.push(format!("CONTRIBUTING.md:{line}: there is no `{span}`")),
            }
        }
        let held: String = files.iter().map(|file| text_of(file)).collect();
        let names = spans.iter().filter(|span| !files.is_empty() && is_name(span));
        let missing = names.filter(|name| !has_word(&held, name));
        breaches.extend(missing.map(|name| format!("CONTRIBUTING.md:{line}: no file of this step has `{name}`")));
    }
    hold(
        "the recipes of CONTRIBUTING.md name files and items that are there",
        breaches,
    );
}

#[test]
fn the_map_names_what_is_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let paths = text.lines().enumerate().flat_map(|(at, line)| {
        let spans = line.split('`').skip(1).step_by(2).filter(|span| is_path(span));
        spans.map(move |span| (at + 1, span.trim_end_matches('/')))
    });
    let is_there = |path: &str| {
        let in_crate = path
            .split_once('/')
            .map(|(name, rest)| format!("crates/{name}/src/{rest}"));
        let paths = [Some(path.to_owned()), in_crate, Some(format!("src/{path}"))];
        paths.into_iter().flatten().any(|path| root().join(path).exists())
    };
    // A crate itself is named as `nn/`; results are made by a run.
    let is_known = |path: &str| root().join("crates").join(path).exists() || path.starts_with("results");
    let breaches = paths.filter(|(_, path)| !is_there(path) && !is_known(path));
    hold(
        "the paths of ARCHITECTURE.md are there",
        breaches.map(|(line, path)| format!("ARCHITECTURE.md:{line}: there is no `{path}`")),
    );
}
