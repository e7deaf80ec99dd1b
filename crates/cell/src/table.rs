//! The facts of all keys.

use std::sync::LazyLock;

use serde_json::Value;

use super::Cell;
use super::facts::Facts;

impl Facts {
    /// The facts of the key `path`, such as `torch.use_cache`, after those of the keys around it.
    pub fn of(path: &str) -> Vec<&'static Self> {
        let mut found = Vec::new();
        collect(Cell::FACTS, path, &mut found);
        found
    }

    /// Every key that has facts, with its path.
    pub fn all() -> Vec<(String, &'static Self)> {
        let mut found = Vec::new();
        flatten(Cell::FACTS, "", &mut found);
        found
    }
}

/// What follows the key `name` in the path of a key below it; empty for the key itself.
fn rest_below<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
    }
}

fn collect(facts: &'static [(&'static str, Facts)], path: &str, found: &mut Vec<&'static Facts>) {
    for (name, facts) in facts {
        if let Some(rest) = rest_below(path, name) {
            found.push(facts);
            collect(facts.nested, rest, found);
        } else if *name == "*" && !path.is_empty() {
            found.push(facts);
        }
    }
}

fn flatten(facts: &'static [(&'static str, Facts)], prefix: &str, found: &mut Vec<(String, &'static Facts)>) {
    for (name, facts) in facts {
        let path = format!("{prefix}{name}");
        found.push((path.clone(), facts));
        flatten(facts.nested, &format!("{path}."), found);
    }
}

/// Names that other programs have for a key, each with the last part of our name.
pub fn aliases() -> Vec<(&'static str, String)> {
    let mut aliases = Vec::new();
    for (path, facts) in Facts::all() {
        let name = path.rsplit('.').next().unwrap_or(&path);
        aliases.extend(facts.aliases.iter().map(|alias| (*alias, name.to_owned())));
    }
    aliases
}

impl Cell {
    /// A cell in which every optional key has a value and every choice has its short form. It shows the columns' types.
    pub fn example() -> &'static Self {
        static EXAMPLE: LazyLock<Cell> = LazyLock::new(|| {
            let examples = Facts::all().into_iter();
            let examples = examples.filter_map(|(path, facts)| Some((path, facts.example?)));
            examples.fold(Cell::default(), |cell, (path, example)| {
                // The test holds that every example is a value of its key.
                let value: Value = serde_saphyr::from_str(example).unwrap_or_default();
                cell.with(&path, &value).unwrap_or(cell)
            })
        });
        &EXAMPLE
    }
}

#[cfg(test)]
mod tests {
    use options::Stack;

    use super::*;
    use crate::keys::{is_known, keys};

    #[test]
    fn the_facts_are_of_keys_and_every_key_has_some() {
        let facts = Facts::all();
        for (path, _) in &facts {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            assert!(is_known(&path), "{path:?}");
        }
        for key in keys() {
            let is_of = |(path, _): &(String, _)| *path == key.path || key.path == format!("{path}.*");
            assert!(facts.iter().any(is_of), "`{}` has no facts beside its field", key.path);
        }
    }

    #[test]
    fn an_example_is_a_value_of_its_key() {
        for (path, facts) in Facts::all() {
            let Some(example) = facts.example else { continue };
            let value: Value = serde_saphyr::from_str(example).unwrap();
            let cell = Cell::default().with(&path, &value);
            let with = cell.unwrap_or_else(|| panic!("`{path}: {example}`"));
            assert_ne!(with, Cell::default(), "{path}");
        }
        for (name, value) in Cell::example().to_map() {
            let open = value.is_null() || value.as_object().is_some_and(|map| map.values().any(Value::is_null));
            assert!(!open, "`{name}` may be left out and has no example");
        }
    }

    #[test]
    fn acts_are_of_valid_cells() {
        for (path, facts) in Facts::all() {
            for act in facts.acts {
                let stacks = [Stack::Candle, Stack::Torch].into_iter();
                for stack in stacks.filter(|stack| act.moves_of(*stack).is_some()) {
                    for mut keys in act.keys(&path).unwrap() {
                        keys.entry("stack").or_insert(stack.name().into());
                        let cell: Result<Cell, _> = serde_json::from_value(Value::Object(keys));
                        let cell = cell.unwrap_or_else(|error| panic!("{path}: {act:?}: {error}"));
                        assert_eq!(cell.validate(), Ok(()), "{path}: {act:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_key_acts_or_says_why_not() {
        for (path, facts) in Facts::all() {
            if path.ends_with('*') || path.starts_with("allocator.env.") || facts.untried.is_some() {
                continue;
            }
            for stack in crate::stacks(&path) {
                let acts = facts.acts.iter().any(|act| act.moves_of(*stack).is_some());
                let is_no_plan = *stack == Stack::Torch && facts.of_training;
                assert!(acts != is_no_plan, "`{path}` on {}: what does it move?", stack.name());
            }
        }
    }
}
