//! What is imported: a file's text, or a command line, as a tree of the tool's keys.

use std::io;
use std::path::{Path, PathBuf};

use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::place::{Place, SourceKind, Sources};
use yaml::tree::Node;

use crate::interpolate::interpolated;
use crate::{command_line, files};

/// What is imported.
#[derive(Debug, Clone)]
pub struct Document {
    /// The keys of the tool, with their places.
    pub tree: Node,
    /// The file, if it is one.
    pub file: Option<PathBuf>,
    /// The folder that paths in it begin at.
    pub folder: PathBuf,
    /// The text, for its comments.
    pub text: String,
    /// The command that was read, if it was one: `trl sft`.
    pub command: Option<String>,
}

impl Document {
    /// Reads a file: YAML, JSON, or a command line.
    ///
    /// # Errors
    /// It cannot be read, or the text is none of these.
    pub fn open(path: &Path, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let text = read(path).map_err(|error| Diagnostic::new(format!("cannot read {}: {error}", path.display())))?;
        Self::read(path, &text, sources)
    }

    /// The same, with the text at hand.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn read(path: &Path, text: &str, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let source = sources.add(path.display().to_string(), text);
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if let Some(command) = command_line::in_text(text) {
            return Self::of_command(&command, text, source, folder, sources);
        }
        let tree = yaml::parse(text, source, 0, Budget::SPEC)?;
        Ok(Self {
            file: Some(path.to_path_buf()),
            ..Self::new(tree, folder, text, None)?
        })
    }

    /// Reads a command line, word by word.
    ///
    /// # Errors
    /// It is no command of a training.
    pub fn of_words(words: &[String], folder: &Path, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let text = command_line::joined(words);
        let source = sources.add_of(SourceKind::Argument, "--", text.clone());
        let Some(command) = command_line::in_text(&text) else {
            let place = Place {
                source,
                start: 0,
                end: text.len() as u32,
            };
            return Err(Diagnostic::new("not a command that trains").at(place).help(
                "commands are such as `trl sft --model_name_or_path ...` and `accelerate launch train.py --...`",
            ));
        };
        Self::of_command(&command, &text, source, folder.to_path_buf(), sources)
    }

    /// A command's options, over the keys of the file that it names.
    fn of_command(
        command: &command_line::Command,
        text: &str,
        source: u32,
        folder: PathBuf,
        sources: &mut Sources,
    ) -> Result<Self, Diagnostic> {
        let tree = command.tree(source)?;
        let Some(config) = &command.config else {
            return Self::new(tree, folder, text, Some(command.name.clone()));
        };
        let found = files::find(&config.text, &folder);
        let read = found.as_ref().map(|path| (path, read(path)));
        let (path, of_file) = match read {
            Some((path, Ok(text))) => (path, text),
            _ => {
                let message = format!("the command names `{}`, which is not there", config.text);
                return Err(Diagnostic::new(message).at(config.place(source)));
            }
        };
        let source = sources.add(path.display().to_string(), of_file.clone());
        let mut whole = yaml::parse(&of_file, source, 0, Budget::SPEC)?;
        overlay(&mut whole, &tree, &mut Vec::new());
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(Self {
            command: Some(command.name.clone()),
            file: Some(path.clone()),
            ..Self::new(whole, folder, &of_file, None)?
        })
    }

    fn new(tree: Node, folder: PathBuf, text: &str, command: Option<String>) -> Result<Self, Diagnostic> {
        if tree.as_map().is_none() {
            let message = match tree.is_null() {
                true => "the file is empty".to_owned(),
                false => format!("a configuration is a map of keys, not {}", tree.kind()),
            };
            return Err(Diagnostic::new(message).at(tree.place));
        }
        Ok(Self {
            tree: interpolated(tree)?,
            file: None,
            folder,
            text: text.to_owned(),
            command,
        })
    }

    /// The settings of some words: `key=value`, and options such as `--key value`.
    ///
    /// # Errors
    /// A word is neither.
    pub fn settings(words: &[String], sources: &mut Sources) -> Result<Vec<(String, Node)>, Diagnostic> {
        let text = command_line::joined(words);
        let source = sources.add_of(SourceKind::Argument, "--", text.clone());
        command_line::settings(&text, source)
    }

    /// Sets a key, in place of what the file has.
    pub fn set(&mut self, key: &str, value: Node) {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        self.tree.set(&path, value.place, value);
    }
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(base::foreign::read_small(path)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8"))
}

/// Lays the values of `over` over a tree.
fn overlay(tree: &mut Node, over: &Node, path: &mut Vec<String>) {
    match over.as_map() {
        Some(map) if !map.is_empty() || path.is_empty() => {
            for (key, entry) in map.iter() {
                path.push(key.to_string());
                overlay(tree, &entry.value, path);
                path.pop();
            }
        }
        _ => tree.set(path, over.place, over.clone()),
    }
}

/// The processes that a command in a comment of the file starts, with its line: `tune run --nproc_per_node 2 ...`.
pub(crate) fn launched_processes(text: &str) -> Option<(usize, usize)> {
    const OPTIONS: [&str; 4] = ["--nproc_per_node", "--nproc-per-node", "--num_processes", "--num_gpus"];
    let comments = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with('#'));
    comments.into_iter().find_map(|(index, line)| {
        let (_, rest) = OPTIONS.iter().find_map(|option| line.split_once(option))?;
        let number: String = rest
            .trim_start_matches(['=', ' '])
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        Some((index + 1, number.parse().ok()?))
    })
}
