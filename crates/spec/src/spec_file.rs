//! The spec that `expctl run --model MODEL` stands for, as a file to keep.

use std::iter;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::text::to_flow_yaml;
use cell::keys::{self, keys};
use cell::path_keys;
use serde_json::Value as Json;
use yaml::Budget;
use yaml::diagnostic::Mistakes;
use yaml::place::{SourceKind, Sources};
use yaml::tree::{Node, Scalar, Value};

use super::error::SpecError;
use super::layers;
use super::load::{parse, parse_of};
use super::names::{Names, safe_name};
use super::overrides::Overrides;
use super::study_file::relative;

/// Longer comments are left out.
const LONGEST_COMMENT: usize = 90;

/// A spec's text and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecFile {
    /// The path, relative to the current directory.
    pub path: PathBuf,
    /// The text: the keys that were given, each with a comment.
    pub text: String,
}

impl SpecFile {
    /// The spec of a model and data by name, with the keys of their recipe, and of `key=value` settings. The same ones in
    /// another order give the same text. Without `output` the file is `NAME.yaml`, after the study.
    ///
    /// # Errors
    /// Everything that is wrong with the names or the settings; the user's mistakes, so exit code 2.
    pub fn of_names(named: &Names, settings: Vec<String>, output: Option<&Path>) -> Result<Self, SpecError> {
        named.check_stack()?;
        let model = named.model.as_str();
        let folder = output.and_then(Path::parent).unwrap_or(Path::new(""));
        let stem = output
            .and_then(Path::file_stem)
            .map(|stem| stem.to_string_lossy().into_owned());
        let name = safe_name(&stem.unwrap_or_else(|| last_part(model).to_owned()));
        let mut names = format!(
            "name: {}\ndefaults:\n  model: {}\n",
            plain_or_quoted(&name),
            plain_or_quoted(model)
        );
        let data = named.data.as_deref().unwrap_or("synthetic").to_owned();
        let overrides = Overrides::new([], settings).with_data(Some(data));
        for (key, value) in named.recipe_keys(&overrides) {
            names += &format!("  {key}: {}\n", to_flow_yaml(&value));
        }
        // Mistakes are shown where they were made: on the command line.
        let study = parse_of(SourceKind::Generated, Path::new("--model"), &names, &overrides)?;
        let path = output.map_or_else(|| format!("{}.yaml", study.name).into(), Path::to_path_buf);
        let mut tree = tree(&names, &overrides)?;
        relocate(&mut tree, folder);
        let text = format!(
            "# Written by `expctl run --model`. `expctl run {}` runs it, too; `expctl schema` has the other keys.\n{}",
            path.display(),
            sections(&tree)
        );
        Ok(Self { path, text })
    }

    /// True if a text is this spec, however it is written.
    pub fn is_same(&self, text: &str) -> bool {
        let read = |text: &str| {
            let study = parse(&self.path, text, &Overrides::default()).ok()?;
            study.to_yaml(Path::new(".")).ok()
        };
        text == self.text || read(text).is_some_and(|study| Some(study) == read(&self.text))
    }
}

/// Writes the paths of the current directory as they are written in `folder`.
fn relocate(tree: &mut Node, folder: &Path) {
    for key in path_keys() {
        let path: Vec<&str> = iter::once("defaults").chain(key.split('.')).collect();
        let is_preset = |node: &&Node| key == "model" && node.text().is_some_and(|name| !name.contains('/'));
        if let Some(node) = tree.get(&path).filter(|node| !is_preset(node)) {
            let mut node = relocated(node, folder);
            // A name without a slash is that of a preset.
            if let (true, Value::Scalar(scalar)) = (key == "model", &mut node.value)
                && !scalar.text.contains('/')
            {
                scalar.text = format!("./{}", scalar.text).into();
            }
            let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
            tree.set(&path, node.place, node);
        }
    }
}

fn relocated(node: &Node, folder: &Path) -> Node {
    let value = match &node.value {
        Value::Scalar(scalar) if !scalar.is_null() => Value::Scalar(Scalar {
            text: seen_from(folder, &scalar.text).into(),
            plain: false,
        }),
        Value::List(list) => Value::List(Rc::new(list.iter().map(|item| relocated(item, folder)).collect())),
        other => other.clone(),
    };
    Node {
        value,
        place: node.place,
    }
}

/// The names with the settings over them.
fn tree(names: &str, overrides: &Overrides) -> Result<Node, SpecError> {
    let (mut sources, mut mistakes) = (Sources::default(), Mistakes::default());
    let source = sources.add_of(SourceKind::Generated, "--model", names);
    let tree = yaml::parse(names, source, 0, Budget::SPEC);
    let layers = layers::read(overrides, &mut sources, &mut mistakes);
    let sources = Arc::new(sources);
    let mut tree = tree.map_err(|mistake| SpecError::new(mistake, &sources))?;
    layers::lay_over(&mut tree, &layers);
    match SpecError::all(mistakes, &sources) {
        Some(error) => Err(error),
        None => Ok(tree),
    }
}

/// The sections: name, cell's keys, then the others.
fn sections(tree: &Node) -> String {
    let mut text = String::new();
    let sections = tree.as_map().into_iter().flatten();
    let mut sections: Vec<_> = sections.map(|(key, entry)| (&**key, &entry.value)).collect();
    sections.sort_by_key(|&(key, _)| (key != "name", key != "defaults", key));
    for (key, value) in sections {
        match value.as_map().filter(|_| key == "defaults") {
            None => text += &format!("{key}: {}\n", flow_yaml(value)),
            Some(defaults) => {
                text += "defaults:\n";
                let place = |key: &str| keys::top_level().position(|known| known == key);
                let mut defaults: Vec<_> = defaults.iter().collect();
                defaults.sort_by_key(|(key, _)| (**key != "model".into(), **key != "data".into(), place(key)));
                for (key, entry) in defaults {
                    text += &format!("  {key}: {}{}\n", flow_yaml(&entry.value), comment(key));
                }
            }
        }
    }
    text
}

/// The first sentence about a key, if it is short.
fn comment(key: &str) -> String {
    let doc = keys()
        .iter()
        .find(|known| known.path == key)
        .map_or("", |key| key.doc.as_str());
    let sentence = doc.split(". ").next().unwrap_or_default().trim_end_matches('.');
    match sentence.chars().count() {
        1..=LONGEST_COMMENT => format!("  # {sentence}"),
        _ => String::new(),
    }
}

/// A value in one line.
fn flow_yaml(node: &Node) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match &node.value {
        // A plain text that flow style would cut is not a number.
        Value::Scalar(scalar) if scalar.plain && !scalar.text.contains([',', '[', ']', '{', '}']) => {
            match scalar.is_null() {
                true => "null".into(),
                false => scalar.text.to_string(),
            }
        }
        Value::Scalar(scalar) => plain_or_quoted(&scalar.text),
        Value::List(list) => format!("[{}]", joined(list.iter().map(flow_yaml).collect())),
        Value::Map(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, entry)| format!("{}: {}", plain_or_quoted(key), flow_yaml(&entry.value)));
            format!("{{{}}}", joined(entries.collect()))
        }
        Value::Hole => String::new(),
    }
}

/// A text as YAML reads it: without quotes if it is a word or a path, which is no number and no truth value.
fn plain_or_quoted(text: &str) -> String {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./*@".contains(c);
    let is_word = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let rest = text.strip_prefix("hf://").unwrap_or(text);
    let begins = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        || rest.starts_with("./")
        || rest.starts_with("../");
    match begins && rest.chars().all(is_path) && !is_word.contains(&rest.to_lowercase().as_str()) {
        true => text.into(),
        // A JSON string is a YAML string.
        false => Json::from(text).to_string(),
    }
}

/// A path of the current directory as it is written in `folder`; other names stay.
fn seen_from(folder: &Path, text: &str) -> String {
    // A pattern's folder exists, if its files do.
    let certain = text.split(['*', '?', '[']).next().unwrap_or_default();
    let known = match certain == text {
        true => Path::new(text),
        false => Path::new(certain)
            .parent()
            .filter(|folder| *folder != Path::new(""))
            .unwrap_or(Path::new(".")),
    };
    let here = [Path::new(""), Path::new(".")].contains(&folder);
    match (std::path::absolute(folder), std::path::absolute(text)) {
        (Ok(from), Ok(to)) if !here && Path::new(text).is_relative() && known.exists() => {
            relative(&from, &to).display().to_string()
        }
        _ => text.into(),
    }
}

/// The last part of a path or of a name.
fn last_part(model: &str) -> &str {
    model.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use cell::Stack;

    use super::*;
    use crate::Recipe;

    fn names(model: &str, data: Option<&str>) -> Names {
        Names {
            model: model.into(),
            data: data.map(str::to_owned),
            gpu: None,
            stack: Stack::Candle,
            recipe: Recipe::frugal(),
            roots: ".".into(),
        }
    }

    fn of(model: &str, data: Option<&str>, settings: &[&str]) -> Result<SpecFile, String> {
        let settings = settings.iter().copied().map(str::to_owned).collect();
        SpecFile::of_names(&names(model, data), settings, None).map_err(|error| error.to_string())
    }

    fn read(file: &SpecFile) -> super::super::Study {
        parse(&file.path, &file.text, &Overrides::default()).unwrap_or_else(|error| panic!("{error}\n{}", file.text))
    }

    #[test]
    fn what_was_given_and_the_recipe_are_written() {
        let file = of(
            "tiny",
            Some("sample"),
            &["rank=8", "report.template=plan", "dtype=float32", "rank=4"],
        )
        .unwrap();
        assert_eq!(file.path, Path::new("tiny.yaml"));
        let text = [
            "# Written by `expctl run --model`. `expctl run tiny.yaml` runs it, too; `expctl schema` has the other keys.",
            "name: tiny",
            "defaults:",
            "  model: tiny",
            "  data: sample",
            "  dtype: float32  # Number format of the base weights",
            "  rank: 4  # Rank of the adapters; 0 trains the model's weights",
            "  gradient_accumulation_steps: 16  # Micro-batches whose gradients are summed before an optimizer step",
            "  gradient_checkpointing: full",
            "  max_seq_length: 512  # Samples are cut to this many tokens",
            "  padding: longest  # Pad each micro-batch to max_seq_length, or to its longest sample",
            "report: {template: plan}",
        ];
        assert_eq!(file.text.lines().collect::<Vec<_>>(), text);
        assert_eq!(
            of(
                "tiny",
                Some("sample"),
                &["dtype=float32", "rank=4", "report.template=plan"]
            )
            .unwrap(),
            file
        );
    }

    #[test]
    fn a_written_spec_is_the_same_cell() {
        let settings = [
            "env={A: 'x, y', B: \"true\", C: null}",
            "target_modules=[q_proj, 'v_proj']",
            "allocator.backend=system",
            "allocator.env.MALLOC_ARENA_MAX=1",
            "gradient_checkpointing={every: 2}",
            "learning_rate=1e-3",
            "description=Words, more words",
        ];
        let file = of("tiny", Some("my texts/a, b.jsonl"), &settings).unwrap();
        let names = "name: tiny\ndefaults: {model: tiny, data: {path: 'my texts/a, b.jsonl'}, max_seq_length: 512, \
                     gradient_accumulation_steps: 16, padding: longest}\n";
        let settings = settings.map(str::to_owned).to_vec();
        let given = parse(Path::new("x.yaml"), names, &Overrides::new([], settings)).unwrap();
        let written = read(&file);
        assert_eq!(written.cells[0].cell, given.cells[0].cell, "{}", file.text);
        assert_eq!(written.description, given.description);
    }

    #[test]
    fn names_of_every_kind_are_read_back() {
        for data in [
            "sample",
            "synthetic",
            "hf://owner/name",
            "texts/*.jsonl",
            "true.md",
            "3.txt",
            "a b.txt",
            "-x.txt",
            "é.txt",
        ] {
            let file = of("./models/A b", Some(data), &[]).unwrap();
            let cell = &read(&file).cells[0].cell;
            let path = |data: &Json| data.get("path").cloned().unwrap_or_else(|| data.clone());
            assert_eq!(cell.model, "./models/A b");
            if !["sample", "synthetic"].contains(&data) {
                assert_eq!(path(&cell.value("data")), Json::from(data), "{}", file.text);
            }
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let settings = [
            "data.eval_path=[src/lib.rs, 'src/*/mod.rs', nowhere.txt]",
            "data.chat_template=Cargo.toml",
            "data.column=src",
        ];
        let settings = settings.map(str::to_owned).to_vec();
        let output = Some(Path::new("specs/own.yaml"));
        let file = SpecFile::of_names(&names("tiny", Some("src")), settings, output).unwrap();
        let data = "data: {path: ../src, eval_path: [../src/lib.rs, ../src/*/mod.rs, nowhere.txt], chat_template: \
                    ../Cargo.toml, column: src}";
        for part in ["model: tiny\n", data] {
            let part = part.trim_end_matches('}');
            assert!(part.split(", ").all(|part| file.text.contains(part)), "{}", file.text);
        }
    }

    #[test]
    fn a_spec_is_the_same_however_it_is_written() {
        let file = of("tiny", Some("sample"), &["rank=8"]).unwrap();
        assert!(file.is_same(&file.text));
        let recipe = "dtype: int4, gradient_accumulation_steps: 16, batch_size: 1, gradient_checkpointing: full, \
                      max_seq_length: 512, padding: longest";
        let other = format!("# mine\nname: tiny\ndefaults: {{rank: 8, data: sample, model: tiny, {recipe}}}\n");
        assert!(file.is_same(&other), "{}", file.text);
        assert!(!file.is_same("name: tiny\ndefaults: {rank: 8, data: sample, model: tiny}\n"));
        assert!(!file.is_same("name: tiny\ndefaults: {rank: 4, data: sample, model: tiny}\n"));
        assert!(!file.is_same("name: tiny\nrepeats: 2\ndefaults: {rank: 8, data: sample, model: tiny}\n"));
        assert!(!file.is_same("name: ["));
    }

    #[test]
    fn mistakes_are_those_of_the_command_line() {
        let message = of("tiny", None, &["rnk=8"]).unwrap_err();
        assert!(
            message.contains("--set") && message.contains("did you mean `rank`?"),
            "{message}"
        );
        let message = of("tiny", Some("texts.xyz"), &[]).unwrap_err();
        assert!(message.contains("--> --data texts.xyz"), "{message}");
    }
}
