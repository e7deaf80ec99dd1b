//! Cells by a value of an axis, or by the name of their method.

use std::fmt;

use base::text::format::ABSENT;
use base::text::{quoted, suggestion};
use indexmap::IndexSet;

use crate::axes::last_part;
use crate::group::Group;
use crate::methods::{Method, is_of_methods};

/// The configurations that a word names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pick {
    /// Those with a value of an axis.
    Value { axis: String, value: String },
    /// Those of a method, such as `QLoRA`.
    Method(String),
}

impl Pick {
    /// True if a group is named.
    pub(super) fn has(&self, group: &Group) -> bool {
        match self {
            Self::Value { axis, value } => group.axes.get(axis) == Some(value),
            Self::Method(method) => Method::name_of(group) == *method,
        }
    }

    /// True if the word is a value of this axis.
    pub(super) fn is_value_of(&self, axis: &str) -> bool {
        matches!(self, Self::Value { axis: own, .. } if own == axis)
    }

    /// True if the word says something of the axis: its value, or a method that the axis is a part of.
    pub(super) fn says(&self, axis: &str) -> bool {
        self.is_value_of(axis) || matches!(self, Self::Method(_)) && is_of_methods(axis)
    }
}

/// The value, with its axis unless it is a word of its own; or the method.
impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { axis, value } if is_telling(value) => f.write_str(value),
            Self::Value { axis, value } => write!(f, "{} {value}", last_part(axis)),
            Self::Method(method) => f.write_str(method),
        }
    }
}

/// True for names such as `dora`, which need no axis: no number, list, truth value or absence.
fn is_telling(value: &str) -> bool {
    value.starts_with(char::is_alphabetic) && !["true", "false", "none", "unset"].contains(&value)
}

/// The configurations that `word` names: `dora`, `rank=8`, or `QLoRA`.
///
/// # Errors
/// None has this value, or values of several axes are written so.
pub(super) fn pick(groups: &[Group], axes: &[String], word: &str) -> Result<Pick, String> {
    let of_axis = |axis| {
        groups
            .iter()
            .filter_map(move |group| Some((axis, group.axes.get(axis)?)))
    };
    let values: IndexSet<(&String, &String)> = axes.iter().flat_map(of_axis).collect();
    // A key that a method does not heed is no value to choose.
    let values: Vec<_> = values.into_iter().filter(|(_, value)| *value != ABSENT).collect();
    let found: Vec<_> = values
        .iter()
        .filter(|(axis, value)| is_named(axis, value, word))
        .collect();
    match found[..] {
        [&(axis, value)] => Ok(Pick::Value {
            axis: axis.clone(),
            value: value.clone(),
        }),
        [] => {
            let methods: IndexSet<String> = groups.iter().map(Method::name_of).collect();
            let of_word = methods.iter().find(|method| method.eq_ignore_ascii_case(word));
            let method = of_word.map(|method| Pick::Method(method.clone()));
            method.ok_or_else(|| not_found(axes, &values, &methods, word))
        }
        ref several => {
            let choices: Vec<String> = several
                .iter()
                .map(|(axis, value)| quoted(&format!("{axis}={value}")))
                .collect();
            Err(format!(
                "{} is a value of several axes; write {}",
                quoted(word),
                choices.join(" or ")
            ))
        }
    }
}

/// True if `word` is `value` or `axis=value`, the axis with or without its section, and a number however it is written.
fn is_named(axis: &str, value: &str, word: &str) -> bool {
    let is_value = |word: &str| {
        let number = |text: &str| text.parse::<f64>().ok();
        word == value || number(word).is_some_and(|word| number(value) == Some(word))
    };
    let of_axis = [axis, last_part(axis)]
        .into_iter()
        .filter_map(|axis| word.strip_prefix(axis)?.strip_prefix('='));
    is_value(word) || of_axis.into_iter().any(is_value)
}

/// The message about a word that names nothing, with what could be meant.
fn not_found(axes: &[String], values: &[(&String, &String)], methods: &IndexSet<String>, word: &str) -> String {
    let with_axis = |(axis, value): &(&String, &String)| [(*value).clone(), format!("{axis}={value}")];
    let words = values.iter().flat_map(with_axis);
    let words: Vec<String> = words.chain(methods.iter().cloned()).collect();
    let of_axis = |axis: &String| {
        let of_axis = values.iter().filter(|(other, _)| *other == axis);
        let of_axis: Vec<&str> = of_axis.map(|(_, value)| value.as_str()).collect();
        format!("{axis} {}", of_axis.join(", "))
    };
    let there_are = match axes {
        [] => "all cells are of one configuration".into(),
        _ => format!("there are {}", axes.iter().map(of_axis).collect::<Vec<_>>().join("; ")),
    };
    let meant = suggestion(word, words.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |meant| format!("; {meant}"));
    format!("no cell has the value {}: {there_are}{meant}", quoted(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_value_however_it_is_written() {
        assert!(is_named("dtype", "int4", "int4") && is_named("dtype", "int4", "dtype=int4"));
        assert!(
            is_named("learning_rate", "2e-4", "0.0002") && is_named("learning_rate", "2e-4", "learning_rate=2e-04")
        );
        assert!(is_named("lora.use_rslora", "true", "use_rslora=true"));
        assert!(!is_named("rank", "16", "alpha=16") && !is_named("rank", "16", "1"));
    }

    #[test]
    fn a_value_that_says_little_is_shown_with_its_axis() {
        let shown = |axis: &str, value: &str| {
            let (axis, value) = (axis.to_owned(), value.to_owned());
            Pick::Value { axis, value }.to_string()
        };
        assert_eq!(shown("adapter", "dora"), "dora");
        assert_eq!(shown("rank", "16"), "rank 16");
        assert_eq!(shown("data.offset", "-1.5"), "offset -1.5");
        assert_eq!(shown("lora.use_rslora", "true"), "use_rslora true");
        assert_eq!(shown("target_modules", "[q_proj]"), "target_modules [q_proj]");
    }
}
