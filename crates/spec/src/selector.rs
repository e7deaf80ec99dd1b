//! Many selections from the cells of one study.

use indexmap::IndexSet;

use super::selection::{Candidate, Selection};
use super::study::{Study, StudyCell};

/// The cells of a study, their keys at hand for many selections.
pub struct Selector<'s> {
    cells: Vec<(&'s StudyCell, Candidate)>,
}

impl<'s> Selector<'s> {
    /// The cells of a study.
    pub fn new(study: &'s Study) -> Self {
        let cells = study.cells.iter();
        Self {
            cells: cells.map(|cell| (cell, cell.candidate())).collect(),
        }
    }

    /// The cells that a selection picks, by their `group_id`: each stands for its repeats.
    pub fn groups(&self, selection: &Selection) -> IndexSet<String> {
        let chosen = self.cells.iter().filter(|(_, candidate)| candidate.has(selection));
        chosen.map(|(study_cell, _)| study_cell.cell.group_id()).collect()
    }
}
