//! The entries of `published` and `claims`: lists of maps that pick cells by their keys.

use std::sync::Arc;

use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Sources;
use yaml::tree::{Node, Value};

use super::cell_selector::CellSelector;
use super::entry::Entry;
use super::origin::Origin;

/// Keeps where each entry was written, and checks its values. `section` is the node that the entries were read from.
pub(crate) fn check<E: Entry>(
    entries: &mut [E],
    section: Option<&Node>,
    sources: &Arc<Sources>,
    mistakes: &mut Mistakes,
) {
    for (entry, (index, node)) in entries.iter_mut().zip(nodes(section)) {
        let name = format!("{}[{index}]", E::SECTION);
        *entry.origin() = Origin::of(&name, node, sources);
        for (key, mistake) in entry.check() {
            // What is missing may be what was taken out.
            if key.is_empty() && node.has_hole() {
                continue;
            }
            mistakes.add(Diagnostic::in_section(&name, &key, &mistake, node));
        }
    }
}

/// Types the values that pick cells. An entry that an override leaves no cells for is left out, and noted.
pub(crate) fn pick<E: Entry>(
    entries: Vec<E>,
    section: Option<&Node>,
    selector: &CellSelector<'_>,
    mistakes: &mut Mistakes,
    notes: &mut Vec<String>,
) -> Vec<E> {
    let mut kept = Vec::new();
    for (mut entry, (index, node)) in entries.into_iter().zip(nodes(section)) {
        if !entry.picks() {
            kept.push(entry);
            continue;
        }
        let name = format!("{}[{index}]", E::SECTION);
        let key = format!("{name}.{}", E::PICKED_BY);
        let values = node.get(&[E::PICKED_BY]);
        let Some(selection) = selector.read(values, &key, mistakes) else {
            continue;
        };
        let place = values.unwrap_or(node).place;
        let picks = match E::NEEDS_ONE {
            true => selector.picks_one(&selection, &key, place),
            false => selector.picks_some(&selection, &key, place),
        };
        match (picks, selector.overridden(&selection)) {
            (Ok(()), _) => {
                *entry.selection() = selection;
                kept.push(entry);
            }
            (Err(_), Some(origin)) => {
                let cells = if E::NEEDS_ONE { "cell" } else { "cells" };
                notes.push(format!("{origin} leaves no {cells} for {name}"));
            }
            (Err(mistake), None) => mistakes.add(mistake),
        }
    }
    kept
}

/// The entries' nodes with their numbers, those that could not be read left out.
pub(crate) fn nodes(section: Option<&Node>) -> impl Iterator<Item = (usize, &Node)> {
    let items = match section.map(|node| &node.value) {
        Some(Value::List(list)) => list.as_slice(),
        _ => &[],
    };
    items.iter().enumerate().filter(|(_, node)| !node.is_hole())
}
