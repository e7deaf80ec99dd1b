//! The check of a combination. A default without effect in it is left out, if another cell heeds it.

use cell::{Invalid, InvalidCell};
use yaml::tree::Node;

use super::super::key_path::nearest_node;
use super::idle::{IdleDefaults, of_cells};
use super::{DECIDING, Expander, Made, Origin};

impl Expander<'_> {
    /// The cell without the defaults that it does not heed. `None` if it has invalid values, which are noted.
    pub(super) fn checked(&mut self, mut made: Made) -> Option<Made> {
        let mut idle = Vec::new();
        while let Err(InvalidCell(found)) = made.cell.validate_keys(&made.keys) {
            let is_idle = |invalid: &Invalid| self.is_idle_default(invalid, &made);
            let (left_out, wrong): (Vec<_>, Vec<_>) = found.into_iter().partition(is_idle);
            for invalid in &wrong {
                self.note_invalid(invalid, &made.tree, made.origin);
            }
            if !wrong.is_empty() {
                // Whether it heeds the others is not known.
                self.idle.keep(&made.tree);
            }
            for invalid in left_out {
                if !self.idle.count(&invalid.key) {
                    let diagnostic = self.invalid(&invalid, &made.tree, made.origin);
                    self.idle
                        .add(&invalid, diagnostic, self.is_of_all(&invalid, made.origin));
                }
                idle.push(invalid.key.into_string());
            }
            if !wrong.is_empty() {
                return None;
            }
            let (without, in_config) = self.typed(made.origin, &idle)?;
            if !in_config.is_empty() {
                return self.refuse(in_config, made.origin);
            }
            made = without;
        }
        self.idle.keep(&made.tree);
        Some(made)
    }

    /// True if a key without effect has its value from the defaults, and no other mistake follows.
    fn is_idle_default(&self, invalid: &Invalid, made: &Made) -> bool {
        let of_default = nearest_node(self.defaults, &invalid.key).map(|node| node.place);
        let is_default =
            of_default.is_some() && of_default == nearest_node(&made.tree, &invalid.key).map(|node| node.place);
        invalid.is_idle && is_default && !self.follows(invalid)
    }

    /// Adds the defaults that no cell heeds to the mistakes. Returns a remark on the others.
    pub(super) fn report_idle(&mut self) -> Option<String> {
        // An override may leave a default of the file without effect, which is no mistake of either.
        let is_in_file = |key: &str| nearest_node(self.defaults, key).map(|node| node.place.is_in_file());
        let is_excused = |key: &str, with: &[&'static str]| {
            is_in_file(key) == Some(true) && with.iter().any(|key| is_in_file(key) == Some(false))
        };
        let mut idle = std::mem::replace(&mut self.idle, IdleDefaults::new(self.defaults));
        let unheeded = idle.unheeded(is_excused);
        let note = idle.note(self.cells.len(), self.repeats);
        for diagnostic in unheeded {
            self.mistakes.add(diagnostic);
        }
        note
    }

    /// Notes an invalid value, unless it follows from another mistake.
    pub(super) fn note_invalid(&mut self, invalid: &Invalid, tree: &Node, origin: Origin) {
        if self.follows(invalid) {
            return;
        }
        let place = nearest_node(tree, &invalid.key).map(|node| node.place);
        let key = (invalid.key.to_string(), place);
        let is_of_all = self.is_of_all(invalid, origin);
        match self.invalid.get_mut(&key) {
            Some(_) if is_of_all => {}
            Some((_, cells)) => *cells += 1,
            None => {
                let diagnostic = self.invalid(invalid, tree, origin);
                self.invalid.insert(key, (diagnostic, 1));
            }
        }
    }

    /// True if another mistake leaves the value open, or one that it contradicts.
    pub(super) fn follows(&self, invalid: &Invalid) -> bool {
        let keys = [&*invalid.key].into_iter().chain(DECIDING);
        self.mistakes.leaves_open(keys.chain(invalid.with.iter().copied()))
    }

    /// Adds the invalid values to the mistakes: each once, however many cells have it.
    pub(super) fn report_invalid(&mut self) {
        for (_, (diagnostic, cells)) in std::mem::take(&mut self.invalid) {
            self.mistakes.add(of_cells(diagnostic, cells));
        }
    }
}
