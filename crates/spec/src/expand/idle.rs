//! Defaults that some cells of a sweep do not heed. They are no mistake if another cell heeds them.

use base::text::counted;
use cell::Invalid;
use indexmap::IndexMap;
use yaml::diagnostic::Diagnostic;

use super::super::key_path::lies_in;

/// The keys that were left out of cells because they have no effect there.
#[derive(Default)]
pub(super) struct IdleDefaults(IndexMap<String, Idle>);

struct Idle {
    /// The first cell's mistake, if no cell heeds the key.
    diagnostic: Diagnostic,
    with: Vec<&'static str>,
    /// The mistake is in the defaults alone, and so not one of some cells.
    is_of_all: bool,
    cells: usize,
}

impl IdleDefaults {
    /// Counts a cell that leaves `key` out. False if no cell has done so yet.
    pub(super) fn count(&mut self, key: &str) -> bool {
        let idle = self.0.get_mut(key);
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
        self.0.insert(invalid.key.to_string(), idle);
    }

    /// Takes out the mistakes of the keys that no cell heeds. `having` counts the cells that have a default; `is_excused` is
    /// asked with the key and those that it contradicts. What follows from another is left out.
    pub(super) fn unheeded(
        &mut self,
        having: impl Fn(&str) -> usize,
        is_excused: impl Fn(&str, &[&'static str]) -> bool,
    ) -> Vec<Diagnostic> {
        let is_unheeded = |key: &str, idle: &Idle| idle.cells == having(key) && !is_excused(key, &idle.with);
        let unheeded = self.0.extract_if(.., |key, idle| is_unheeded(key, idle));
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

    /// A remark on the keys that are left out of some of so many cells.
    pub(super) fn note(&self, cells: usize) -> Option<String> {
        let one = |(key, idle): (&String, &Idle)| format!("`{key}` of {} of {cells} cells", idle.cells);
        let left_out: Vec<String> = self.0.iter().map(one).collect();
        (!left_out.is_empty()).then(|| format!("left out where they have no effect: {}", left_out.join(", ")))
    }
}

/// The mistake of the first of so many cells.
pub(super) fn of_cells(diagnostic: Diagnostic, cells: usize) -> Diagnostic {
    match cells {
        1 => diagnostic,
        cells => diagnostic.help(format!("the same holds for {}", counted(cells - 1, "more cell"))),
    }
}
