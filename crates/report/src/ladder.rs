//! The ladders of a study: cells that ran out of memory, and those that followed.

use results::setting;
use serde::Serialize;

use super::axes::key_columns;
use super::entry::Entry;

/// A cell that ran out of memory, and those that followed it, one rung each.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Ladder {
    /// The cell, and those that followed, in their order.
    pub steps: Vec<Step>,
}

/// A cell of a ladder.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Step {
    /// The rung that the cell came by; none for the first.
    pub rung: Option<String>,
    /// What changed from the cell before, such as `batch_size: 4`.
    pub changes: Vec<String>,
    /// The row of the frame.
    pub cell: Entry,
}

/// The ladders, in the order of their first cells.
pub(crate) fn ladders(cells: &[Entry]) -> Vec<Ladder> {
    let after = |cell: &Entry| {
        let id = cell.text("cell_id");
        cells.iter().find(|next| id.is_some() && next.text("fallback_of") == id)
    };
    let keys = key_columns(cells);
    let first = cells.iter().filter(|cell| cell.text("fallback_of").is_none());
    let ladder = |first: &Entry| {
        let mut steps = vec![Step {
            rung: None,
            changes: Vec::new(),
            cell: first.clone(),
        }];
        let mut last = first;
        while let Some(next) = after(last) {
            let changed = keys
                .iter()
                .filter(|key| last.get(key) != next.get(key) && !next.get(key).is_null());
            steps.push(Step {
                rung: next.text("fallback_step").map(str::to_owned),
                changes: changed
                    .map(|key| format!("{key}: {}", setting(key, next.get(key))))
                    .collect(),
                cell: next.clone(),
            });
            last = next;
        }
        Ladder { steps }
    };
    let all = first.map(ladder);
    all.filter(|ladder| ladder.steps.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_follows_the_one_above() {
        let cell = |id: &str, batch_size: u64, of: Option<&str>| -> Entry {
            [
                ("cell_id", id.into()),
                ("fallback_of", of.into()),
                ("fallback_step", of.map(|_| "halve_batch").into()),
                ("batch_size", batch_size.into()),
                ("rank", 8_u64.into()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
        };
        let cells = [
            cell("a", 8, None),
            cell("b", 1, None),
            cell("c", 4, Some("a")),
            cell("d", 2, Some("c")),
        ];
        let found = ladders(&cells);
        assert_eq!(found.len(), 1, "the second cell is followed by none");
        let steps = found[0].steps.iter();
        let steps: Vec<_> = steps
            .map(|step| (step.cell.text("cell_id"), step.changes.join(", ")))
            .collect();
        let expected = [
            (Some("a"), ""),
            (Some("c"), "batch_size: 4"),
            (Some("d"), "batch_size: 2"),
        ];
        assert_eq!(steps, expected.map(|(id, changes)| (id, changes.to_owned())));
    }
}
