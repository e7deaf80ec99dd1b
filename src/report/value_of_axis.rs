//! Cells by a value of an axis, or by the name of their method.

use std::fmt;

use indexmap::IndexSet;

use super::group::Group;
use super::methods::Method;
use crate::text::{quoted, suggestion};

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

    /// True if the word says the value of an axis, so that other configurations differ in it.
    pub(super) fn decides(&self, axis: &str) -> bool {
        match self {
            Self::Value { axis: own, .. } => own == axis,
            Self::Method(_) => ["adapter", "dtype", "optim"].contains(&axis),
        }
    }
}

/// The value, or the method.
impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { axis, value } => {
                let is_number = value.starts_with(|c: char| c.is_ascii_digit());
                match is_number {
                    true => write!(f, "{axis} {value}"),
                    false => f.write_str(value),
                }
            }
            Self::Method(method) => f.write_str(method),
        }
    }
}

/// The configurations that `word` names: `dora`, `rank=8`, or `QLoRA`.
///
/// # Errors
/// None has this value, or values of several axes are written so.
pub(super) fn pick(groups: &[Group], axes: &[String], word: &str) -> Result<Pick, String> {
    let mut values = IndexSet::new();
    for axis in axes {
        let of_axis = groups.iter().filter_map(|group| Some((axis, group.axes.get(axis)?)));
        values.extend(of_axis);
    }
    let named = |&&(axis, value): &&(&String, &String)| value == word || format!("{axis}={value}") == word;
    let found: Vec<_> = values.iter().filter(named).collect();
    let methods: IndexSet<String> = groups.iter().map(Method::name_of).collect();
    match &found[..] {
        [(axis, value)] => Ok(Pick::Value {
            axis: (*axis).clone(),
            value: (*value).clone(),
        }),
        [] => {
            if let Some(method) = methods.iter().find(|method| method.eq_ignore_ascii_case(word)) {
                return Ok(Pick::Method(method.clone()));
            }
            let words = values
                .iter()
                .flat_map(|(axis, value)| [(*value).clone(), format!("{axis}={value}")]);
            let words: Vec<String> = words.chain(methods.iter().cloned()).collect();
            let meant = suggestion(word, words.iter().map(String::as_str));
            let there_are: Vec<String> = axes
                .iter()
                .map(|axis| {
                    let of_axis = values.iter().filter(|(other, _)| *other == axis);
                    let of_axis: Vec<&str> = of_axis.map(|(_, value)| value.as_str()).collect();
                    format!("{axis} {}", of_axis.join(", "))
                })
                .collect();
            let there_are = match axes {
                [] => "all cells are of one configuration".into(),
                _ => format!("there are {}", there_are.join("; ")),
            };
            let meant = meant.map_or_else(String::new, |meant| format!("; {meant}"));
            Err(format!("no cell has the value {}: {there_are}{meant}", quoted(word)))
        }
        several => {
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
