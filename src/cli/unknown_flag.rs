//! Options that are keys: `--seq-len 4096` is meant as `--set max_seq_length=4096`.

use cell::keys;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use spec::near;

/// Options of other programs, with ours.
const OPTIONS: [(&str, &str); 9] = [
    ("qlora", "`--recipe qlora`, which is the default"),
    ("lora", "`--recipe lora`"),
    ("seq_len", "`--set max_seq_length=VALUE`"),
    ("sequence_length", "`--set max_seq_length=VALUE`"),
    ("context_length", "`--set max_seq_length=VALUE`"),
    ("bs", "`--set batch_size=VALUE`"),
    ("bits", "`--set dtype=int4` or `int8`"),
    ("vram", "`--gpu SIZE`"),
    ("model_name", "`--model MODEL`"),
];

/// What to write for an option that no command has; `None` for another mistake, or if nothing is near.
pub(super) fn help(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    // A near option is clap's to name.
    if error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let name = argument.trim_start_matches('-');
    let name = name.split('=').next().unwrap_or(name).replace('-', "_");
    if let Some((_, ours)) = OPTIONS.iter().find(|(other, _)| *other == name) {
        return Some(format!("write {ours}"));
    }
    key(&name).map(|key| format!("`{key}` is a key: write `--set {key}=VALUE`"))
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
