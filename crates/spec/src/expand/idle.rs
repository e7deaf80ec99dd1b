//! Defaults that some cells of a sweep do not heed. They are no mistake if another cell heeds them.

use base::text::counted;
use cell::Invalid;
use indexmap::IndexMap;
use yaml::diagnostic::Diagnostic;
use yaml::place::Place;
use yaml::tree::{Map, Node};

use super::super::key_path::{lies_in, nearest_node};

/// The keys that were left out of cells because they have no effect there.
pub(super) struct IdleDefaults {
    left_out: IndexMap<String, Idle>,
    defaults: Vec<DefaultValue>,
}

/// A value of the defaults.
struct DefaultValue {
    key: String,
    place: Place,
    /// True if a cell has it.
    is_kept: bool,
}

struct Idle {
    /// The first cell's mistake, if no cell heeds the key.
    diagnostic: Diagnostic,
    with: Vec<&'static str>,
    /// The mistake is in the defaults alone, and so not one of some cells.
    is_of_all: bool,
    cells: usize,
}

impl IdleDefaults {
    pub(super) fn new(defaults: &Node) -> Self {
        Self {
            left_out: IndexMap::new(),
            defaults: values(defaults),
        }
    }

    /// Notes the defaults that a cell keeps.
    pub(super) fn keep(&mut self, tree: &Node) {
        for default in self.defaults.iter_mut().filter(|default| !default.is_kept) {
            default.is_kept = nearest_node(tree, &default.key).is_some_and(|node| node.place == default.place);
        }
    }

    /// Counts a cell that leaves `key` out. False if no cell has done so yet.
    pub(super) fn count(&mut self, key: &str) -> bool {
        let idle = self.left_out.get_mut(key);
        idle.map(|idle| idle.cells += 1).is_some()
    }

    /// Adds the key of `invalid`, with the first cell that leaves it out.
    pub(super) fn add(&mut self, invalid: &Invalid, diagnostic: Diagnostic, is_of_all: bool) {
        let idle = Idle {
            diagnostic,
            with: invalid.with.clone(),
            is_of_all,
            cells: 1,
        };
        self.left_out.insert(invalid.key.to_string(), idle);
    }

    /// Takes out the mistakes of the keys that no cell heeds. `is_excused` is asked with the key and those that it
    /// contradicts. What follows from another is left out.
    pub(super) fn unheeded(&mut self, is_excused: impl Fn(&str, &[&'static str]) -> bool) -> Vec<Diagnostic> {
        let is_part = |default: &DefaultValue, key: &str| lies_in(&default.key, key) || lies_in(key, &default.key);
        let is_kept = |key: &str| {
            self.defaults
                .iter()
                .any(|default| default.is_kept && is_part(default, key))
        };
        let is_unheeded = |key: &str, idle: &Idle| !is_kept(key) && !is_excused(key, &idle.with);
        let unheeded = self.left_out.extract_if(.., |key, idle| is_unheeded(key, idle));
        let unheeded: IndexMap<String, Idle> = unheeded.collect();
        let follows = |idle: &&Idle| {
            let is_unheeded = |key: &&str| unheeded.keys().any(|other| lies_in(other, key));
            idle.with.iter().any(is_unheeded)
        };
        let first = unheeded.values().filter(|idle| !follows(idle));
        let shown = |idle: &Idle| if idle.is_of_all { 1 } else { idle.cells };
        first
            .map(|idle| of_cells(idle.diagnostic.clone(), shown(idle)))
            .collect()
    }

    /// A remark on the keys that are left out of some of so many cells, each in so many repeats.
    pub(super) fn note(&self, cells: usize, repeats: usize) -> Option<String> {
        let of_some = self.left_out.iter().filter(|(_, idle)| idle.cells * repeats < cells);
        let one = |(key, idle): (&String, &Idle)| format!("`{key}` of {} of {cells} cells", idle.cells * repeats);
        let left_out: Vec<String> = of_some.map(one).collect();
        (!left_out.is_empty()).then(|| format!("left out where they have no effect: {}", left_out.join(", ")))
    }
}

/// The values in a map, those of maps in it one by one.
fn values(map: &Node) -> Vec<DefaultValue> {
    let mut found = Vec::new();
    for (name, entry) in map.as_map().into_iter().flat_map(Map::iter) {
        let within = values(&entry.value);
        if within.is_empty() {
            found.push(DefaultValue {
                key: name.to_string(),
                place: entry.value.place,
                is_kept: false,
            });
        }
        found.extend(within.into_iter().map(|default| DefaultValue {
            key: format!("{name}.{}", default.key),
            ..default
        }));
    }
    found
}

/// The mistake of the first of so many cells.
pub(super) fn of_cells(diagnostic: Diagnostic, cells: usize) -> Diagnostic {
    match cells {
        1 => diagnostic,
        cells => diagnostic.help(format!("the same holds for {}", counted(cells - 1, "more cell"))),
    }
}
