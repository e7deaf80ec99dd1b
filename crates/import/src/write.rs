//! The spec of a translation, as a text with a remark beside each key.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::axes::Swept;
use crate::translation::{Left, Setting, Translation};

/// Columns of a comment.
const WIDTH: usize = 110;

/// What the text says besides the keys.
#[derive(Debug, Clone)]
pub struct Written<'a> {
    /// The study's name.
    pub name: &'a str,
    /// The command that wrote it.
    pub command: &'a str,
}

/// The spec's text.
pub fn write(translation: &Translation, swept: Option<&Swept>, written: &Written<'_>) -> String {
    let mut out = String::new();
    let tool = translation.recognised.tool;
    let told = translation.recognised.sentence();
    comment(
        &mut out,
        "# ",
        "# ",
        &format!(
            "Written by `{}`, from {told}. Read as {} {}.",
            written.command, tool.name, tool.release
        ),
    );
    if !translation.lost.is_empty() {
        comment(&mut out, "# ", "# ", "Lost, though it changes memory:");
        for left in &translation.lost {
            comment(
                &mut out,
                "#   ",
                "#     ",
                &format!("{}: {} - {}", left.key, left.value, left.why),
            );
        }
    }
    for remark in &translation.remarks {
        comment(&mut out, "# ", "# ", &format!("Note: {remark}."));
    }
    let _ = writeln!(out, "name: {}", text(written.name));
    out += "defaults:\n";
    let is_swept = |setting: &&Setting| !swept.is_some_and(|swept| swept.keys().any(|key| key == setting.key));
    section(&mut out, translation.settings.iter().filter(is_swept));
    if let Some(swept) = swept {
        sweep(&mut out, swept);
    }
    if !translation.idle.is_empty() {
        comment(&mut out, "# ", "# ", "Left out; no memory changes by it:");
        for (why, keys) in by_reason(&translation.idle) {
            comment(&mut out, "#   ", "#     ", &format!("{}: {why}", keys.join(", ")));
        }
    }
    if !translation.empty.is_empty() {
        comment(
            &mut out,
            "# ",
            "# ",
            &format!("Without a value: {}", translation.empty.join(", ")),
        );
    }
    out
}

/// Keys that were left out, by the reason.
fn by_reason(left: &[Left]) -> IndexMap<&str, Vec<&str>> {
    let mut reasons: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for left in left {
        reasons.entry(&left.why).or_default().push(&left.key);
    }
    reasons
}

/// The keys of `defaults`; those of one map stand together.
fn section<'s>(out: &mut String, settings: impl Iterator<Item = &'s Setting>) {
    let mut maps: IndexMap<&str, Vec<(&str, &Setting)>> = IndexMap::new();
    for setting in settings {
        let (top, below) = setting.key.split_once('.').unwrap_or((&setting.key, ""));
        maps.entry(top).or_default().push((below, setting));
    }
    for (top, settings) in maps {
        match settings.as_slice() {
            [("", setting)] => line(out, "  ", top, setting),
            _ => {
                let _ = writeln!(out, "  {top}:");
                for (below, setting) in settings {
                    line(out, "    ", below, setting);
                }
            }
        }
    }
}

fn line(out: &mut String, indent: &str, key: &str, setting: &Setting) {
    let start = format!("{indent}{key}: {}", value(&setting.value));
    let from = setting.from.join(", ");
    match start.len() + from.len() + 4 > WIDTH + 10 {
        true => {
            let prefix = format!("{indent}# ");
            comment(out, &prefix, &prefix, &from);
            let _ = writeln!(out, "{start}");
        }
        false => drop(writeln!(out, "{start}  # {from}")),
    }
}

fn sweep(out: &mut String, swept: &Swept) {
    out.push_str("sweep:\n");
    for (name, axes) in [("grid", &swept.grid), ("zip", &swept.zip)] {
        if !axes.is_empty() {
            let _ = writeln!(out, "  {name}:");
            for (key, values) in axes {
                let _ = writeln!(out, "    {key}: {}", value(&Json::Array(values.clone())));
            }
        }
    }
    if !swept.include.is_empty() {
        out.push_str("  include:\n");
        for row in &swept.include {
            let keys = row
                .iter()
                .map(|(key, of_key)| format!("{}: {}", text(key), value(of_key)));
            let _ = writeln!(out, "    - {{{}}}", keys.collect::<Vec<_>>().join(", "));
        }
    }
}

/// A value in one line of YAML.
pub(crate) fn value(value: &Json) -> String {
    match value {
        Json::String(of_text) => text(of_text),
        Json::Array(items) => format!("[{}]", items.iter().map(self::value).collect::<Vec<_>>().join(", ")),
        Json::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, of_key)| format!("{}: {}", text(key), self::value(of_key)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A text, in quotes where YAML would read it as something else.
fn text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let words = ["true", "false", "null", "yes", "no", "on", "off", "~"];
    let reads_as_text = text.starts_with(|c: char| c.is_ascii_alphabetic() || "./_".contains(c))
        && text.parse::<f64>().is_err()
        && !words.contains(&&*text.to_lowercase());
    match reads_as_text && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => Json::String(text.to_owned()).to_string(),
    }
}

/// Comment lines of at most [`WIDTH`] columns, which begin with `first` and go on with `next`.
fn comment(out: &mut String, first: &str, next: &str, text: &str) {
    let text = text.replace(['\n', '\r'], " ");
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + word.chars().count() + 1 > WIDTH {
            let _ = writeln!(out, "{line}");
            line = next.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_reads_as_what_it_is() {
        for (json, yaml) in [
            (json!("all-linear"), "all-linear"),
            (json!("no"), "\"no\""),
            (json!("1e5"), "\"1e5\""),
            (json!(".*layers\\.[01]"), "\".*layers\\\\.[01]\""),
            (json!(["a", "b c", 3]), "[a, \"b c\", 3]"),
            (json!({"every": 2}), "{every: 2}"),
        ] {
            assert_eq!(value(&json), yaml);
        }
    }
}
