//! A sentence of an answer.

use serde::Serialize;

use super::figures::Figures;
use crate::entry::Entry;
use crate::group::Group;

/// A sentence and the cells that it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Sentence {
    /// Markdown.
    pub text: String,
    /// Ids of cells, in full and each once.
    pub cells: Vec<String>,
}

/// The most sentences of an answer.
pub(super) const MOST: usize = 6;

/// The sentences in their order, without the least important ones if there are more than `most`. The number before each is its
/// importance, zero the highest; of equals the last goes first.
pub(super) fn most_important(sentences: Vec<(u8, Sentence)>, most: usize) -> Vec<Sentence> {
    let mut by_importance: Vec<usize> = (0..sentences.len()).collect();
    by_importance.sort_by_key(|at| sentences[*at].0);
    by_importance.truncate(most);
    let kept = sentences.into_iter().enumerate();
    let kept = kept.filter(|(at, _)| by_importance.contains(at));
    kept.map(|(_, (_, sentence))| sentence).collect()
}

impl Sentence {
    /// A sentence on figures of these groups.
    pub(super) fn about<'g>(
        text: impl Into<String>,
        figures: Figures,
        groups: impl IntoIterator<Item = &'g Group>,
    ) -> Self {
        Self::of_cells(text, groups.into_iter().flat_map(|group| figures.cells(group)))
    }

    /// A sentence about these cells.
    pub(super) fn of_cells<'c>(text: impl Into<String>, cells: impl IntoIterator<Item = &'c Entry>) -> Self {
        let ids = cells.into_iter().filter_map(|cell| cell.text("cell_id"));
        Self::with_ids(text, ids)
    }

    /// A sentence about the cells of these ids.
    pub(super) fn with_ids<'i>(text: impl Into<String>, ids: impl IntoIterator<Item = &'i str>) -> Self {
        let mut cells: Vec<String> = Vec::new();
        for id in ids {
            if cells.iter().all(|known| known != id) {
                cells.push(id.to_owned());
            }
        }
        Self {
            text: text.into(),
            cells,
        }
    }
}
