//! The shipped studies: the files of `experiments/`, which are in the binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base::text::{did_you_mean, nearest};
use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::tree::{Node, Value};

use super::error::SpecError;

/// A file of `experiments/`: its path in there, with `/` between folders, and its text.
pub type ShippedFile = (&'static str, &'static str);

static FILES: OnceLock<Vec<ShippedFile>> = OnceLock::new();

/// Names the shipped files, once. The program holds them and not this library, so that an edit of a study does not
/// build the library again.
pub fn ship(mut files: Vec<ShippedFile>) {
    files.sort_unstable();
    FILES.get_or_init(|| files);
}

/// The shipped files, by path; none in a program that ships none.
fn shipped() -> &'static [ShippedFile] {
    #[cfg(test)]
    ship(tests::files());
    FILES.get().map_or(&[], Vec::as_slice)
}

/// A study that comes with expctl.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The study's name.
    pub name: &'static str,
    /// The spec's path in `experiments/`.
    path: &'static str,
    text: &'static str,
}

/// A file to write.
#[derive(Debug)]
pub struct ExampleFile {
    /// Its path, relative to the folder of the spec.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

impl Example {
    /// All examples, by path.
    pub fn all() -> impl Iterator<Item = Self> {
        shipped().iter().filter_map(|&(path, text)| {
            let name = text.lines().find_map(|line| line.strip_prefix("name: "))?;
            path.ends_with(".yaml").then_some(Self { name, path, text })
        })
    }

    /// The example of this name.
    ///
    /// # Errors
    /// There is none; the nearest one is named.
    pub fn named(name: &str) -> Result<Self, SpecError> {
        Self::all().find(|example| example.name == name).ok_or_else(|| {
            let near = nearest(name, Self::all().map(|example| example.name)).map(did_you_mean);
            let help = near.unwrap_or_else(|| "`expctl init --list` lists them".into());
            let unknown = Diagnostic::new(format!("`{name}` is not an example"));
            SpecError::new(unknown.help(help), &Arc::default())
        })
    }

    /// The first sentence of the description.
    pub fn summary(&self) -> String {
        let description = self.scalar(&["description"]).unwrap_or_default();
        without_marks(first_sentence(&description))
    }

    /// True if all cells are of PyTorch's stack, which is planned and not run.
    pub fn is_planned(&self) -> bool {
        self.scalar(&["defaults", "stack"])
            .is_some_and(|stack| stack == "torch")
    }

    /// True if it trains on texts that are made in a clone of the repository.
    pub fn needs_texts(&self) -> bool {
        self.text.contains("--example crate_texts")
    }

    /// The spec under the name `file`, and the files that it needs beside it.
    pub fn files(&self, file: &str) -> Vec<ExampleFile> {
        let mut files = vec![ExampleFile {
            path: file.into(),
            text: self.outside(file),
        }];
        let mut taken = BTreeSet::from([self.path]);
        let mut due = vec![*self];
        while let Some(example) = due.pop() {
            for (path, relative, text) in example.beside() {
                if !taken.insert(path) {
                    continue;
                }
                let other = Self::all().find(|other| other.path == path);
                files.push(ExampleFile {
                    path: relative.into(),
                    text: other.map_or_else(|| text.to_owned(), |other| other.outside(relative)),
                });
                due.extend(other);
            }
        }
        files
    }

    /// The shipped files that the spec names, or whose folder it names: path in `experiments/`, path from the spec, and
    /// text.
    fn beside(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let folder = self.path.strip_suffix(file_name(self.path)).unwrap_or_default();
        let named: BTreeSet<&str> = self.text.lines().flat_map(paths).collect();
        shipped().iter().filter_map(move |&(path, text)| {
            let relative = path.strip_prefix(folder)?;
            let mut folders = Path::new(relative).ancestors().filter_map(Path::to_str);
            folders
                .any(|path| named.contains(path))
                .then_some((path, relative, text))
        })
    }

    /// The text for a folder outside of the repository, where the file is called `file` and lies at the root.
    fn outside(&self, file: &str) -> String {
        let root = "../".repeat(self.path.matches('/').count() + 1);
        let mut text = self
            .text
            .replace("cargo run --release -- ", "expctl ")
            .replace(&root, "./");
        for other in Self::all() {
            let written = if other.path == self.path {
                file.to_owned()
            } else {
                format!("{}.yaml", other.name)
            };
            text = text.replace(&format!("experiments/{}", other.path), &written);
        }
        text.lines().filter_map(unpublished).map(|line| line + "\n").collect()
    }

    fn scalar(&self, keys: &[&str]) -> Option<String> {
        let tree = yaml::parse(self.text, 0, 0, Budget::SPEC).ok()?;
        match tree.get(keys) {
            Some(Node {
                value: Value::Scalar(scalar),
                ..
            }) => Some(scalar.text.to_string()),
            _ => None,
        }
    }
}

/// The error of a spec that is not there: it names the example that was meant, if there is one.
pub(crate) fn not_there(path: &Path, error: SpecError) -> SpecError {
    let shown = path.display().to_string();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_meant = |example: &Example| example.name == stem || shown == format!("experiments/{}", example.path);
    let mistake = if path.with_extension("yaml").is_file() {
        let help = did_you_mean(&path.with_extension("yaml").display().to_string());
        Diagnostic::new(format!("`{shown}` is not a file")).help(help)
    } else if let Some(Example { name, .. }) = Example::all().find(is_meant) {
        let subject = if name == shown {
            "it".into()
        } else {
            format!("`{name}`")
        };
        Diagnostic::new(format!(
            "`{shown}` is not a file; {subject} is an example: `expctl init --example {name}` writes it"
        ))
    } else if let Some(near) = nearest(&stem, Example::all().map(|example| example.name)) {
        let help = format!("did you mean the example `{near}`? `expctl init --example {near}` writes it");
        Diagnostic::new(error.message()).help(help)
    } else {
        return error;
    };
    SpecError::new(mistake, &Arc::default())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The words of a line that look like a path below the file, without a leading `./`. Comments are left out.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('#').next().unwrap_or_default();
    let words = code.split(|c: char| c.is_whitespace() || "[]{},\"'".contains(c));
    let paths = words.filter(|word| word.contains(['.', '/']));
    paths.map(|path| path.strip_prefix("./").unwrap_or(path))
}

/// The line without the key `publish`, which is for the reports of the repository; `None` if nothing else is in it.
fn unpublished(line: &str) -> Option<String> {
    const KEY: &str = "publish: ";
    if line.trim_start().starts_with(KEY) {
        return None;
    }
    let Some((before, rest)) = line.split_once(&format!(", {KEY}")) else {
        return Some(line.to_owned());
    };
    let end = rest.find([',', ' ', '}']).unwrap_or(rest.len());
    Some(format!("{before}{}", &rest[end..]))
}

/// The text without the marks of figures that a source published.
fn without_marks(text: &str) -> String {
    let mut parts = text.split("[published: ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(&part.replacen(']', "", 1));
    }
    plain
}

/// The text up to its first full stop or question mark before a space.
fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(['.', '?']).map(|(at, _)| at + 1);
    let end = ends.find(|&end| text[end..].starts_with(char::is_whitespace));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, parse};

    /// The files on disk.
    pub(super) fn files() -> Vec<ShippedFile> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let paths = ["*", "*/*"].map(|pattern| glob::glob(&format!("{folder}/{pattern}")).unwrap());
        let paths = paths
            .into_iter()
            .flatten()
            .map(Result::unwrap)
            .filter(|path| path.is_file());
        let file = |path: PathBuf| {
            let text: &'static str = std::fs::read_to_string(&path).unwrap().leak();
            let path: &'static str = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned().leak();
            (path, text)
        };
        paths.map(file).collect()
    }

    #[test]
    fn every_spec_is_an_example_of_its_own_name() {
        let specs = shipped().iter().filter(|(path, _)| path.ends_with(".yaml")).count();
        assert_eq!(Example::all().count(), specs);
        let names: BTreeSet<&str> = Example::all().map(|example| example.name).collect();
        assert_eq!(names.len(), specs, "two studies have one name");
        assert_eq!(Example::named("growth_rank").unwrap().path, "growth/rank.yaml");
        let summary = Example::named("rank_sweep").unwrap().summary();
        assert_eq!(summary, "What does the LoRA rank cost in memory and time?");
        for example in Example::all() {
            let summary = example.summary();
            assert!(!summary.contains("[published") && !summary.contains("{{"), "{summary}");
        }
    }

    #[test]
    fn a_spec_comes_with_what_it_names() {
        let paths = |name: &str| -> Vec<PathBuf> {
            let example = Example::named(name).unwrap();
            example.files("my.yaml").into_iter().map(|file| file.path).collect()
        };
        let expected = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(paths("rank_sweep"), expected(&["my.yaml"]));
        assert_eq!(paths("h100"), expected(&["my.yaml", "h100.csv"]));
        assert_eq!(
            paths("base"),
            expected(&["my.yaml", "base/config.json", "base/tokenizer.json"])
        );
    }

    #[test]
    fn paths_of_the_repository_are_those_of_the_folder() {
        let text = Example::named("base").unwrap().outside("mine.yaml");
        assert!(text.contains("#   expctl run mine.yaml\n"), "{text}");
        assert!(text.contains("  model: ./scratch/base "), "{text}");
        assert!(text.contains("  model: ./base "), "{text}");
        let text = Example::named("growth_rank").unwrap().outside("growth_rank.yaml");
        assert!(text.contains("#   expctl run growth_rank.yaml\n"), "{text}");
        let study = parse(Path::new("growth_rank.yaml"), &text, &Overrides::default()).unwrap();
        assert_eq!(study.report.output, Some("results/growth_rank.md".into()));
    }

    #[test]
    fn the_committed_report_is_left_out() {
        for (line, expected) in [
            ("  publish: reports/x.md", None),
            ("  output: results/x.md", Some("  output: results/x.md")),
            (
                "report: { output: results/x.md, publish: reports/x.md }",
                Some("report: { output: results/x.md }"),
            ),
            (
                "report: {output: results/x.md, publish: reports/x.md, baseline: {}}",
                Some("report: {output: results/x.md, baseline: {}}"),
            ),
        ] {
            assert_eq!(unpublished(line).as_deref(), expected, "{line}");
        }
    }
}
