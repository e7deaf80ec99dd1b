//! The words about a combination: what made it, and what is wrong with it.

use base::text::quoted;
use cell::Invalid;
use yaml::diagnostic::{Diagnostic, Label};
use yaml::tree::Node;

use super::super::key_path::{lies_in, nearest_node, nearest_path};
use super::super::sweep::Assignment;
use super::{DECIDING, Expander, Origin};

impl Expander<'_> {
    pub(super) fn duplicate(&self, first: Origin, second: Origin) -> Diagnostic {
        let name = |origin| match origin {
            Origin::Include(index) => format!("sweep.include[{index}]"),
            Origin::Product(_) => format!("the combination {}", text(&self.assignments(origin))),
        };
        let message = format!("{} is the same cell as {}", name(second), name(first));
        let mut diagnostic = self.explain(Diagnostic::new(message), second);
        for label in self.labels(first) {
            if !diagnostic.labels.iter().any(|known| known.place == label.place) {
                diagnostic.labels.push(label);
            }
        }
        diagnostic.help("every cell must differ from the others in a key")
    }

    /// Points at the values that made the combination, each where it was written.
    pub(super) fn explain(&self, mut diagnostic: Diagnostic, origin: Origin) -> Diagnostic {
        for label in self.labels(origin) {
            match diagnostic.labels.iter_mut().find(|known| known.place == label.place) {
                Some(known) if known.text.is_empty() => known.text = label.text,
                Some(_) => {}
                None => diagnostic.labels.push(label),
            }
        }
        diagnostic
    }

    fn labels(&self, origin: Origin) -> impl Iterator<Item = Label> {
        self.assignments(origin).into_iter().map(|assignment| {
            let place = if assignment.value.place.is_empty() {
                assignment.key
            } else {
                assignment.value.place
            };
            Label {
                place,
                text: text(&[assignment]),
            }
        })
    }

    /// Points at the key at fault, the keys without which it would do, and the values that made the combination.
    pub(super) fn invalid(&self, invalid: &Invalid, tree: &Node, origin: Origin) -> Diagnostic {
        let assignments = self.assignments(origin);
        let assigned = |key: &str| assignments.iter().any(|assignment| lies_in(key, &assignment.name));
        let made_by = match self.is_of_all(invalid, origin) {
            true => String::new(),
            false => format!(" ({})", text(&assignments)),
        };
        let section = match nearest_node(self.defaults, &invalid.key) {
            Some(_) if !assigned(&invalid.key) => "defaults.",
            _ => "",
        };
        let message = format!("{section}{}: {}{made_by}", invalid.key, invalid.mistake.message);
        let mut diagnostic = Diagnostic::new(message).help_if(invalid.mistake.help.as_ref());
        let keys = std::iter::once(&*invalid.key).chain(invalid.with.iter().copied());
        for key in keys {
            let Some((name, node)) = written(tree, key) else {
                continue;
            };
            if name != key && *key != *invalid.key {
                continue;
            }
            let label = if invalid.with.is_empty() {
                String::new()
            } else {
                format!("{name} = {}", node.to_flow_yaml())
            };
            let bytes = invalid.mistake.range.as_ref().filter(|_| *key == *invalid.key);
            let part = bytes
                .zip(node.text())
                .and_then(|(bytes, text)| node.place.part(text, bytes));
            diagnostic = diagnostic.label(part.unwrap_or(node.place), label);
        }
        match self.is_of_all(invalid, origin) {
            true => diagnostic,
            false => self.explain(diagnostic, origin),
        }
    }

    /// True if a mistake is in the defaults alone, and so in every combination.
    pub(super) fn is_of_all(&self, invalid: &Invalid, origin: Origin) -> bool {
        let keys = [&*invalid.key].into_iter().chain(DECIDING);
        let mut keys = keys.chain(invalid.with.iter().copied());
        let assignments = self.assignments(origin);
        keys.all(|key| {
            !assignments
                .iter()
                .any(|assignment| lies_in(key, &assignment.name) || lies_in(&assignment.name, key))
        })
    }
}

/// The node of a key, and its name: that of the innermost key around it that the tree has, if it lacks the key itself.
fn written<'n, 'k>(tree: &'n Node, key: &'k str) -> Option<(&'k str, &'n Node)> {
    let path = nearest_path(tree, key)?;
    let end = path.iter().map(|segment| segment.len() + 1).sum::<usize>() - 1;
    let is_around = matches!(key.as_bytes().get(end), Some(b'.' | b'['));
    Some((if is_around { &key[..end] } else { key }, tree.get(&path)?))
}

/// `rank = 4, dtype = int4`.
fn text(assignments: &[&Assignment]) -> String {
    let one = |assignment: &&Assignment| {
        let value = assignment.value.to_flow_yaml();
        format!("{} = {}", assignment.name, quoted(&value).trim_matches('`'))
    };
    if assignments.is_empty() {
        "of the defaults".into()
    } else {
        assignments.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
