//! Reads the values that pick cells, and makes sure that they pick some.

use std::collections::BTreeSet;

use base::text::{quoted, to_flow_yaml};
use cell::Cell;
use indexmap::IndexSet;
use serde_json::Value as Json;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Place;
use yaml::tree::{Entry, Node};

use super::axis_values::values_of;
use super::expand::Expansion;
use super::layers::{Layer, highest};
use super::selection::{self, Selection};
use super::study::StudyCell;
use super::sweep;
use crate::typed;

/// The cells and defaults that selections are read and checked against.
pub(crate) struct CellSelector<'s> {
    pub defaults: &'s Node,
    pub layers: &'s [Layer],
    /// `None` if mistakes leave open which cells there are. Any selection then picks some.
    pub expansion: Option<&'s Expansion>,
}

impl CellSelector<'_> {
    /// The values in `node`, each typed by its key. `None` if there are mistakes in them.
    pub(crate) fn read(&self, node: Option<&Node>, section: &str, mistakes: &mut Mistakes) -> Option<Selection> {
        self.read_if(node, section, mistakes, |_| true)
    }

    /// Like [`Self::read`], without the keys that an override sets.
    pub(crate) fn read_without_overridden(
        &self,
        node: Option<&Node>,
        section: &str,
        mistakes: &mut Mistakes,
    ) -> Option<Selection> {
        self.read_if(node, section, mistakes, |path| highest(self.layers, path).is_none())
    }

    fn read_if(
        &self,
        node: Option<&Node>,
        section: &str,
        mistakes: &mut Mistakes,
        wanted: impl Fn(&[String]) -> bool,
    ) -> Option<Selection> {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            return Some(Selection::new());
        };
        let mut tree = self.defaults.clone();
        let mut paths = Vec::new();
        let mut sound = true;
        for (name, Entry { key, value }) in mistakes.take(sweep::expect_map(node, section))?.iter() {
            match sweep::cell_key(name, section, *key) {
                Ok(path) if wanted(&path) => {
                    tree.set(&path, *key, value.clone());
                    paths.push(path);
                }
                Ok(_) => {}
                Err(mistake) => {
                    mistakes.add(mistake);
                    sound = false;
                }
            }
        }
        let (cell, errors) = typed::read_all::<Cell>(&mut tree);
        for error in errors {
            if paths.iter().any(|path| error.path.starts_with(path)) {
                mistakes.add(error.diagnostic(section));
                sound = false;
            }
        }
        let names: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
        let cell = cell.filter(|_| sound)?;
        Some(values_of(&names, &cell.to_map()))
    }

    /// The override that sets a key of a selection.
    pub(crate) fn overridden(&self, selection: &Selection) -> Option<&str> {
        let path = |key: &String| key.split('.').map(str::to_owned).collect::<Vec<_>>();
        let layer = selection.keys().find_map(|key| highest(self.layers, &path(key)))?;
        Some(&layer.origin)
    }

    /// Makes sure that a selection picks a cell; `place` is where it says so.
    pub(crate) fn picks_some(&self, selection: &Selection, section: &str, place: Place) -> Result<(), Diagnostic> {
        let Some(expansion) = self.expansion else {
            return Ok(());
        };
        if chosen(expansion, selection).next().is_some() {
            return Ok(());
        }
        let diagnostic = Diagnostic::new(format!("{section}: no cell has these values")).at(place);
        Err(diagnostic.help_if(values_there_are(expansion, selection)))
    }

    /// Makes sure that a selection picks one cell, repeats aside.
    pub(crate) fn picks_one(&self, selection: &Selection, section: &str, place: Place) -> Result<(), Diagnostic> {
        self.picks_some(selection, section, place)?;
        let Some(expansion) = self.expansion else {
            return Ok(());
        };
        let chosen = chosen(expansion, selection).take(1000);
        let groups: BTreeSet<String> = chosen.map(|cell| cell.cell.group_id()).collect();
        if groups.len() == 1 {
            return Ok(());
        }
        let message = format!("{section}: {} cells have these values, and one is needed", groups.len());
        let axes = expansion.axes.iter().map(String::as_str);
        let missing: Vec<&str> = axes
            .filter(|axis| *axis != "seed" && !selection.contains_key(*axis))
            .collect();
        let help = (!missing.is_empty()).then(|| format!("say which {} as well", missing.join(" and ")));
        Err(Diagnostic::new(message).at(place).help_if(help))
    }
}

fn chosen<'e>(expansion: &'e Expansion, selection: &Selection) -> impl Iterator<Item = &'e StudyCell> {
    let has = |cell: &StudyCell, key: &String, value: &Json| {
        // The axes are at hand; other keys, and those that are left to their default, take a serialisation.
        let there = cell.axes.get(key).filter(|there| !there.is_null());
        there.map_or_else(|| selection::has(&cell.cell, key, value), |there| there == value)
    };
    let cells = expansion.cells.iter();
    cells.filter(move |cell| selection.iter().all(|(key, value)| has(cell, key, value)))
}

/// The values of a key that is to blame alone: no cell has the one that was asked for.
fn values_there_are(expansion: &Expansion, selection: &Selection) -> Option<String> {
    const MOST: usize = 8;
    selection.iter().find_map(|(key, wanted)| {
        let values: IndexSet<String> = expansion
            .cells
            .iter()
            .map(|cell| to_flow_yaml(&cell.cell.resolved_value(key)))
            .collect();
        if values.contains(&to_flow_yaml(wanted)) {
            return None;
        }
        let shown: Vec<&str> = values.iter().take(MOST).map(String::as_str).collect();
        let more = if values.len() > MOST { " or another" } else { "" };
        Some(format!("{} is {}{more} in this study", quoted(key), shown.join(" or ")))
    })
}
