//! Values that pick cells of a study by their keys: those of the baseline, of a published figure, of a claim.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value as Json;

use super::cell::Cell;
use super::de;
use super::error::Diagnostic;
use super::expand::{Expansion, axis_values};
use super::layers::Layer;
use super::source::Place;
use super::study::StudyCell;
use super::sweep;
use super::tree::{Entry, Node};
use crate::text::{quoted, to_flow_yaml};

/// Values by dotted key, as in [`Cell::value`].
pub type Selection = IndexMap<String, Json>;

/// Whether a cell has all of these values.
pub(crate) fn holds(selection: &Selection, cell: &Cell) -> bool {
    selection.iter().all(|(key, value)| cell.value(key) == *value)
}

/// What selections are read and checked against.
pub(crate) struct CellSelector<'s> {
    pub defaults: &'s Node,
    pub layers: &'s [Layer],
    pub expansion: &'s Expansion,
}

impl CellSelector<'_> {
    /// The values in `node`, each typed by its key.
    pub fn read(&self, node: &Node, section: &str) -> Result<Selection, Diagnostic> {
        self.read_where(node, section, |_| true)
    }

    /// The same without the keys that an override sets.
    pub fn read_what_is_open(&self, node: &Node, section: &str) -> Result<Selection, Diagnostic> {
        self.read_where(node, section, |path| self.layer_of(path).is_none())
    }

    fn read_where(
        &self,
        node: &Node,
        section: &str,
        wanted: impl Fn(&[String]) -> bool,
    ) -> Result<Selection, Diagnostic> {
        if node.is_null() {
            return Ok(Selection::new());
        }
        let mut tree = self.defaults.clone();
        let mut names = Vec::new();
        for (name, Entry { key, value }) in sweep::expect_map(node, section)?.iter() {
            let path = sweep::cell_key(name, section, *key)?;
            if wanted(&path) {
                tree.set(&path, *key, value.clone());
                names.push(name.to_string());
            }
        }
        let cell: Cell = de::read(&tree).map_err(|error| error.diagnostic(section))?;
        Ok(axis_values(&names, &cell.to_map()))
    }

    /// The override that sets a key.
    fn layer_of(&self, path: &[String]) -> Option<&Layer> {
        let sets = |layer: &&Layer| layer.cell_key().is_some_and(|key| path.starts_with(key));
        self.layers.iter().rfind(sets)
    }

    /// The override that sets a key of a selection.
    pub fn overridden(&self, selection: &Selection) -> Option<&str> {
        let path = |key: &String| key.split('.').map(str::to_owned).collect::<Vec<_>>();
        let layer = selection.keys().find_map(|key| self.layer_of(&path(key)))?;
        Some(&layer.origin)
    }

    /// Makes sure that a selection picks a cell; `place` is where it says so.
    pub fn some(&self, selection: &Selection, section: &str, place: Place) -> Result<(), Diagnostic> {
        if self.chosen(selection).next().is_some() {
            return Ok(());
        }
        let diagnostic = Diagnostic::new(format!("{section}: no cell has these values")).at(place);
        Err(diagnostic.help_if(self.values_there_are(selection)))
    }

    /// Makes sure that a selection picks one cell, repeats aside.
    pub fn one(&self, selection: &Selection, section: &str, place: Place) -> Result<(), Diagnostic> {
        self.some(selection, section, place)?;
        let chosen = self.chosen(selection).take(1000);
        let groups: BTreeSet<String> = chosen.map(|planned| planned.cell.group_id()).collect();
        if groups.len() == 1 {
            return Ok(());
        }
        let message = format!("{section}: {} cells have these values, and one is needed", groups.len());
        let axes = self.expansion.axes.iter().map(String::as_str);
        let missing: Vec<&str> = axes
            .filter(|axis| *axis != "seed" && !selection.contains_key(*axis))
            .collect();
        let help = (!missing.is_empty()).then(|| format!("say which {} as well", missing.join(" and ")));
        Err(Diagnostic::new(message).at(place).help_if(help))
    }

    fn chosen(&self, selection: &Selection) -> impl Iterator<Item = &StudyCell> {
        let has = |planned: &StudyCell, key: &String, value: &Json| {
            // The axes are at hand; other keys take a serialisation.
            planned
                .axes
                .get(key)
                .map_or_else(|| planned.cell.value(key) == *value, |there| there == value)
        };
        let cells = self.expansion.cells.iter();
        cells.filter(move |planned| selection.iter().all(|(key, value)| has(planned, key, value)))
    }

    /// The values of a key that is to blame alone: no cell has the one that was asked for.
    fn values_there_are(&self, selection: &Selection) -> Option<String> {
        const MOST: usize = 8;
        selection.iter().find_map(|(key, wanted)| {
            let values: IndexSet<String> = self
                .expansion
                .cells
                .iter()
                .map(|planned| to_flow_yaml(&planned.cell.value(key)))
                .collect();
            if values.contains(&to_flow_yaml(wanted)) {
                return None;
            }
            let shown: Vec<&str> = values.iter().take(MOST).map(String::as_str).collect();
            let more = if values.len() > MOST { " or another" } else { "" };
            Some(format!("{} is {}{more} in this study", quoted(key), shown.join(" or ")))
        })
    }
}
