//! Options that are keys: `--seq-len 4096` is meant as `--set max_seq_length=4096`.

use base::text::either;
use cell::keys;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use spec::{near, ours};

/// Options of other programs that are options here, not keys. `VALUE` is what they were given.
const OPTIONS: [(&str, &str); 21] = [
    ("qlora", "`--recipe qlora`, which is the default"),
    ("lora", "`--recipe lora`"),
    ("axolotl", "`--recipe axolotl`"),
    ("llama_factory", "`--recipe llama-factory`"),
    ("trl", "`--recipe trl-sft`"),
    ("card", "`--gpu VALUE`"),
    ("gpu_type", "`--gpu VALUE`"),
    ("gpu_name", "`--gpu VALUE`"),
    ("model_name", "`--model VALUE`"),
    ("model_name_or_path", "`--model VALUE`"),
    ("pretrained_model_name_or_path", "`--model VALUE`"),
    ("model_id", "`--model VALUE`"),
    ("model_path", "`--model VALUE`"),
    ("base_model", "`--model VALUE`"),
    ("dataset", "`--data VALUE`"),
    ("dataset_name", "`--data VALUE`"),
    ("data_path", "`--data VALUE`"),
    ("train_file", "`--data VALUE`"),
    ("train_data", "`--data VALUE`"),
    ("safety_margin", "`--headroom VALUE`"),
    ("json", "`--format json`"),
];

/// What to write for an option that no command has; `None` for another mistake, or if nothing is near.
pub(super) fn help(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let arguments: Vec<String> = std::env::args().collect();
    let (name, value) = with_value(argument, &arguments);
    let is_named = arguments.iter().any(|argument| argument.starts_with("--model"));
    if let Some(help) = of_other_programs(&name, value.as_deref(), is_named) {
        return Some(help);
    }
    // A near option is clap's to name.
    if error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let known: Vec<&str> = keys::named().collect();
    let near = near(&name, &known)?;
    let value = value.as_deref().unwrap_or("VALUE");
    Some(format!("did you mean {}?", either(&[format!("--set {near}={value}")])))
}

fn of_other_programs(name: &str, value: Option<&str>, is_named: bool) -> Option<String> {
    let option = OPTIONS.iter().find(|(other, _)| *other == name);
    match option {
        // `--gpus a100` is not a number of them.
        None if name == "gpus" && value.is_some_and(|value| value.parse::<usize>().is_err()) => {
            Some(format!("write `--gpu {}`", value.unwrap_or_default()))
        }
        None => ours(name, value, is_named),
        Some((_, ours)) => Some(format!("write {}", ours.replace("VALUE", value.unwrap_or("VALUE")))),
    }
}

/// The name of an option with underscores, and its value: behind `=`, or the next argument.
fn with_value(argument: &str, arguments: &[String]) -> (String, Option<String>) {
    let name = |text: &str| text.trim_start_matches('-').replace('-', "_").to_lowercase();
    // clap leaves a value behind `=` out of its message.
    let at = arguments
        .iter()
        .position(|given| given == argument || given.split_once('=').is_some_and(|(given, _)| given == argument));
    let given = at.map_or(argument, |at| &arguments[at]);
    if let Some((option, value)) = given.split_once('=') {
        return (name(option), Some(value.to_owned()));
    }
    let is_value = |text: &&String| !text.starts_with('-') || text.parse::<f64>().is_ok();
    let next = at.and_then(|at| arguments.get(at + 1)).filter(is_value);
    (name(given), next.cloned())
}

/// The key that is meant by a word: by its name in other programs, or by its spelling.
pub(super) fn key(word: &str) -> Option<String> {
    let aliases = cell::aliases();
    let alias = aliases.into_iter().find(|(alias, _)| *alias == word);
    let known: Vec<&str> = keys::named().collect();
    alias
        .map(|(_, key)| key)
        .or_else(|| near(word, &known).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_behind_its_option() {
        let arguments = ["expctl", "plan", "--seq-len=64", "--lr", "-1e-4", "--qlora", "--x", "y"].map(str::to_owned);
        for (argument, name, value) in [
            ("--seq-len", "seq_len", Some("64")),
            ("--lr", "lr", Some("-1e-4")),
            ("--qlora", "qlora", None),
            ("--x", "x", Some("y")),
        ] {
            assert_eq!(
                with_value(argument, &arguments),
                (name.into(), value.map(str::to_owned))
            );
        }
    }
}
