//! What is known of a key, whatever a cell has there. The facts of a key stand beside its field, in `cell_keys!`.

use options::Stack;
use serde_json::Value;

use super::Cell;
use super::acts::Act;

/// For [`Facts::stacks`]: our trainer alone heeds the key.
pub(super) const CANDLE: &[Stack] = &[Stack::Candle];
/// PyTorch's stack alone heeds it.
pub(super) const TORCH: &[Stack] = &[Stack::Torch];

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The stacks that heed it and what is below it. A key of the other must have its default.
    pub stacks: &'static [Stack],
    /// Whether a cell heeds it, and what is below it, for all that its stack, method and optimizer say.
    pub heeded: fn(&Cell) -> bool,
    /// True if it decides which others a cell heeds.
    pub decides: bool,
    /// True if it says something of our process and nothing of what is trained.
    pub of_process: bool,
    /// True if it is one of adapters that every method has.
    pub of_adapters: bool,
    /// Its names in other programs.
    pub aliases: &'static [&'static str],
    /// A value of a key that may be left out, or whose value has several forms: the one that shows its column's type.
    pub example: Option<&'static str>,
    /// Why it is no technique to save memory: it saves none worth a search, or its change is another experiment.
    pub no_technique: Option<&'static str>,
    /// True if it is a fact of training, so that no plan of PyTorch's stack moves by it.
    pub of_training: bool,
    /// Why no test tries it.
    pub untried: Option<&'static str>,
    /// Changes that show what it does, in each stack that heeds it.
    pub acts: &'static [Act],
    /// The keys of its map, with dotted names for those of maps in it; `*` stands for any name.
    pub nested: &'static [(&'static str, Self)],
}

impl Facts {
    /// A key of which nothing is known: both stacks heed it, always.
    pub const NONE: Self = Self {
        stacks: &[Stack::Candle, Stack::Torch],
        heeded: |_| true,
        decides: false,
        of_process: false,
        of_adapters: false,
        aliases: &[],
        example: None,
        no_technique: None,
        of_training: false,
        untried: None,
        acts: &[],
        nested: &[],
    };

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

/// The keys that decide which others a cell heeds.
pub fn deciding() -> impl Iterator<Item = &'static str> {
    let deciding = Cell::FACTS.iter().filter(|(_, facts)| facts.decides);
    deciding.map(|(key, _)| *key)
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
    pub fn example() -> Self {
        let examples = Facts::all()
            .into_iter()
            .filter_map(|(path, facts)| Some((path, facts.example?)));
        examples.fold(Self::default(), |cell, (path, example)| {
            // The test holds that every example is a value of its key.
            let value: Value = serde_saphyr::from_str(example).unwrap_or_default();
            cell.with(&path, &value).unwrap_or(cell)
        })
    }
}

#[cfg(test)]
mod tests {
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

    /// A row of results has the deciding keys, and heeds what its cell does.
    #[test]
    fn no_other_key_decides_what_a_cell_heeds() {
        let changed = Facts::all().into_iter().flat_map(|(path, facts)| {
            let cells = facts.acts.iter().map(move |act| (path.clone(), act.cells(&path)));
            cells.map(|(path, cells)| (path, cells.unwrap_or_else(|error| panic!("{error}"))))
        });
        for (path, [_, cell]) in changed {
            let deciding = deciding().fold(Cell::default(), |decided, key| {
                decided.with(key, &cell.value(key)).unwrap()
            });
            for key in keys() {
                let (decided, heeds) = (deciding.heeds(&key.path), cell.heeds(&key.path));
                assert_eq!(decided, heeds, "`{}`, in a cell of `{path}`", key.path);
            }
        }
    }

    #[test]
    fn every_key_acts_or_says_why_not() {
        for (path, facts) in Facts::all() {
            if path.ends_with('*') || path.starts_with("allocator.env.") || facts.untried.is_some() {
                continue;
            }
            for stack in super::super::stacks(&path) {
                let acts = facts.acts.iter().any(|act| act.moves_of(*stack).is_some());
                let is_no_plan = *stack == Stack::Torch && facts.of_training;
                assert!(acts != is_no_plan, "`{path}` on {}: what does it move?", stack.name());
            }
        }
    }
}
