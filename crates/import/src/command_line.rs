//! Command lines of trainings, as people have them in scripts: `accelerate launch --num_processes 2 train.py --bf16`.

use std::rc::Rc;

use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::place::Place;
use yaml::tree::{Map, Node, Value};

use crate::values::scalar;

/// The map of a launcher's options in the tree.
const LAUNCHER: &str = "launcher";

/// Options of launchers that have no value.
const FLAGS: [&str; 18] = [
    "multi_gpu",
    "cpu",
    "tpu",
    "use_fsdp",
    "use_deepspeed",
    "use_megatron_lm",
    "use_xpu",
    "debug",
    "quiet",
    "no_python",
    "same_network",
    "no_local_rank",
    "standalone",
    "run_path",
    "force_multi",
    "bind_cores_to_rank",
    "enable_elastic_training",
    "autotuning",
];

/// A command that trains.
#[derive(Debug)]
pub(crate) struct Command {
    /// Its program, such as `trl sft` or `accelerate launch`.
    pub name: String,
    /// The file with the configuration, if it names one.
    pub config: Option<Word>,
    launcher: Vec<Word>,
    arguments: Vec<Word>,
}

/// A word of a shell.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub text: String,
    start: usize,
    end: usize,
}

/// The first command of a text that trains. `None` for YAML and JSON.
pub(crate) fn in_text(text: &str) -> Option<Command> {
    if text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    commands(text).into_iter().find_map(command)
}

/// The settings of a text: `key=value`, `--key value`. Hydra's own `--multirun` is none.
pub(crate) fn settings(text: &str, source: u32) -> Result<Vec<(String, Node)>, Diagnostic> {
    let mut words: Vec<Word> = commands(text).into_iter().flatten().collect();
    words.retain(|word| !["-m", "--multirun"].contains(&&*word.text));
    options(&words, source)
}

/// Words as a text.
pub(crate) fn joined(words: &[String]) -> String {
    let quote = |word: &String| match word.is_empty() || word.contains([' ', '\'', '"', '\\', '#', '\n']) {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word.clone(),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn command(words: Vec<Word>) -> Option<Command> {
    let is_assignment = |word: &Word| word.text.split_once('=').is_some_and(|(name, _)| is_name(name));
    let mut words = words.into_iter().skip_while(is_assignment).collect::<Vec<_>>();
    let first = words.first()?.text.clone();
    let first = first.rsplit('/').next().unwrap_or(&first).to_owned();
    let second = words.get(1).map(|word| word.text.clone()).unwrap_or_default();
    match first.as_str() {
        "trl" | "llamafactory-cli" | "lmf" | "axolotl" => {
            let arguments = words.split_off(2.min(words.len()));
            Some(Command::new(format!("{first} {second}"), Vec::new(), arguments))
        }
        "tune" if second == "run" => launched("tune run".into(), words.split_off(2)),
        "accelerate" if second == "launch" => launched("accelerate launch".into(), words.split_off(2)),
        "torchrun" | "deepspeed" | "python" | "python3" => launched(first, words.split_off(1)),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A launcher's options, its script or module, and the arguments of that.
fn launched(name: String, words: Vec<Word>) -> Option<Command> {
    let mut launcher = Vec::new();
    let mut rest = words.into_iter().peekable();
    let mut program = None;
    while let Some(word) = rest.next() {
        let option = word.text.trim_start_matches('-').replace('-', "_");
        match word.text.as_str() {
            "-m" | "--module" => {}
            text if !text.starts_with('-') => {
                program = Some(word);
                break;
            }
            text => {
                let takes = !text.contains('=') && !FLAGS.contains(&option.as_str());
                launcher.push(word);
                if takes {
                    launcher.extend(rest.next_if(|next| !next.text.starts_with("--")));
                }
            }
        }
    }
    let mut program = program?.text;
    // `python -m torch.distributed.run` and `python -m accelerate.commands.launch` launch in turn.
    if [
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
    ]
    .contains(&&*program)
    {
        return launched(name, rest.collect());
    }
    let is_cli = ["llamafactory-cli", "axolotl"].contains(&&*program);
    if is_cli && let Some(next) = rest.next_if(|next| next.text == "train") {
        program = format!("{program} {}", next.text);
    }
    let name = match program.as_str() {
        _ if name == "tune run" => format!("{name} {program}"),
        "axolotl.cli.train" => "axolotl train".into(),
        "llamafactory-cli train" | "axolotl train" => program,
        text if text.ends_with("src/train.py") => "llamafactory-cli train".into(),
        text if text.ends_with(".py") || text.starts_with("trl.scripts.") => name,
        _ => return None,
    };
    Some(Command::new(name, launcher, rest.collect()))
}

impl Command {
    fn new(name: String, launcher: Vec<Word>, mut arguments: Vec<Word>) -> Self {
        let is_file = |word: &Word| [".yaml", ".yml", ".json"].iter().any(|end| word.text.ends_with(end));
        let mut config = None;
        if arguments.first().is_some_and(is_file) {
            config = Some(arguments.remove(0));
        }
        if let Some(at) = arguments.iter().position(|word| word.text == "--config")
            && arguments.get(at + 1).is_some_and(is_file)
        {
            config = Some(arguments.remove(at + 1));
            arguments.remove(at);
        }
        Self {
            name,
            config,
            launcher,
            arguments,
        }
    }

    /// The options as a tree of the tool's keys; those of the launcher stand below `launcher`.
    ///
    /// # Errors
    /// A word is neither an option nor the value of one.
    pub(crate) fn tree(&self, source: u32) -> Result<Node, Diagnostic> {
        let whole = Place {
            source,
            start: 0,
            end: 0,
        };
        let mut tree = Node::empty_map(whole);
        let launcher = options(&self.launcher, source)?;
        for (key, value) in launcher {
            let path: Vec<String> = [LAUNCHER.to_owned(), key].to_vec();
            tree.set(&path, value.place, value);
        }
        for (key, value) in options(&self.arguments, source)? {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            tree.set(&path, value.place, value);
        }
        Ok(tree)
    }
}

/// The options with their values, which are true where there is none.
fn options(words: &[Word], source: u32) -> Result<Vec<(String, Node)>, Diagnostic> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let place = word.place(source);
        let named = word.text.strip_prefix("--").or_else(|| word.text.strip_prefix('-'));
        let text = named.unwrap_or(&word.text).trim_start_matches('+');
        if let Some((key, value)) = text.split_once('=') {
            let offset = word.end - value.len();
            found.push((key_of(key), value_of(value, source, offset, place)));
            continue;
        }
        let Some(key) = named.map(key_of) else {
            return Err(Diagnostic::new(format!("`{}` is not an option", word.text))
                .at(place)
                .help("options are such as `--learning_rate 2e-4` and `learning_rate=2e-4`"));
        };
        let mut values = Vec::new();
        while let Some(value) = words.next_if(|next| !is_option(&next.text)) {
            values.push(value_of(&value.text, source, value.start, value.place(source)));
        }
        let value = match values.len() {
            0 => scalar("true", place),
            1 => values.remove(0),
            _ => Node {
                value: Value::List(Rc::new(values)),
                place,
            },
        };
        match key.strip_prefix("no_") {
            Some(positive) if value.text() == Some("true") => found.push((positive.to_owned(), scalar("false", place))),
            _ => found.push((key, value)),
        }
    }
    Ok(found)
}

/// `--lr` is an option, `-1` a number.
fn is_option(text: &str) -> bool {
    text.starts_with('-') && text.parse::<f64>().is_err() || text.split_once('=').is_some_and(|(key, _)| is_path(key))
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(is_name) && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn key_of(text: &str) -> String {
    text.replace('-', "_")
}

fn value_of(text: &str, source: u32, offset: usize, place: Place) -> Node {
    let is_flow = text.starts_with(['[', '{']);
    let parsed = is_flow
        .then(|| yaml::parse(text, source, offset as u32, Budget::SPEC).ok())
        .flatten();
    match parsed {
        Some(node) if node.as_map().is_none_or(|map: &Map| !map.is_empty()) => node,
        _ => scalar(text, place),
    }
}

impl Word {
    pub(crate) fn place(&self, source: u32) -> Place {
        Place {
            source,
            start: self.start as u32,
            end: self.end as u32,
        }
    }
}

/// The commands of a script: a line each, unless it ends in a backslash.
fn commands(text: &str) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let here = at + letter.len_utf8();
        let push = |letter: Option<char>, word: &mut Option<Word>| {
            let word = word.get_or_insert_with(|| Word {
                text: String::new(),
                start: at,
                end: at,
            });
            word.text.extend(letter);
            word.end = here;
        };
        match (quote, letter) {
            (Some(open), letter) if open == letter => {
                quote = None;
                push(None, &mut word);
            }
            (Some('\''), letter) => push(Some(letter), &mut word),
            (_, '\\') => match letters.next() {
                Some((_, '\n')) | None => {}
                Some((_, '\r')) => drop(letters.next_if(|(_, next)| *next == '\n')),
                Some((_, next)) => push(Some(next), &mut word),
            },
            (Some(_), letter) => push(Some(letter), &mut word),
            (None, '\'' | '"') => {
                quote = Some(letter);
                push(None, &mut word);
            }
            (None, '#') if word.is_none() => while letters.next_if(|(_, next)| *next != '\n').is_some() {},
            (None, '\n' | ';' | '&' | '|') => {
                finish(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, letter) if letter.is_whitespace() => finish(&mut word, &mut commands),
            (None, letter) => push(Some(letter), &mut word),
        }
    }
    finish(&mut word, &mut commands);
    commands.retain(|command| !command.is_empty());
    commands
}

fn finish(word: &mut Option<Word>, commands: &mut [Vec<Word>]) {
    if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
        command.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String)> {
        let command = in_text(text)?;
        Some((command.name.clone(), command.tree(0).unwrap().to_flow_yaml()))
    }

    #[test]
    fn options_of_a_launcher_stand_apart() {
        let text = "#!/bin/sh\nexport X=1\nCUDA_VISIBLE_DEVICES=0,1 accelerate launch --multi_gpu --num_processes=2 \\\n  \
                    train.py --lr 2e-4 --bf16 --no_packing --target q_proj v_proj --n -1 --kwargs '{\"a\": 1}'\n";
        let (name, tree) = read(text).unwrap();
        assert_eq!(name, "accelerate launch");
        assert_eq!(
            tree,
            "{launcher: {multi_gpu: true, num_processes: 2}, lr: 2e-4, bf16: true, packing: false, target: [q_proj, v_proj], \
             n: -1, kwargs: {a: 1}}"
        );
    }

    #[test]
    fn programs_that_train_are_known() {
        for (text, expected) in [
            ("trl sft --a 1", Some("trl sft")),
            ("llamafactory-cli train x.yaml a=1", Some("llamafactory-cli train")),
            ("axolotl train x.yml --a=1", Some("axolotl train")),
            ("accelerate launch -m axolotl.cli.train x.yml", Some("axolotl train")),
            (
                "torchrun --nproc_per_node 2 src/train.py --a 1",
                Some("llamafactory-cli train"),
            ),
            (
                "tune run --nproc_per_node 2 lora_finetune_distributed --config x.yaml a=1",
                Some("tune run lora_finetune_distributed"),
            ),
            (
                "python -m torch.distributed.run --nproc-per-node 2 t.py --a 1",
                Some("python"),
            ),
            ("base_model: x\ndatasets: []\n", None),
            ("{\"a\": 1}", None),
        ] {
            assert_eq!(in_text(text).map(|command| command.name).as_deref(), expected, "{text}");
        }
        let command = in_text("llamafactory-cli train x.yaml a=1").unwrap();
        assert_eq!(command.config.unwrap().text, "x.yaml");
    }

    #[test]
    fn a_stray_word_is_a_mistake() {
        let error = in_text("trl sft what --a 1").unwrap().tree(0).unwrap_err();
        assert_eq!(error.message, "`what` is not an option");
    }
}
