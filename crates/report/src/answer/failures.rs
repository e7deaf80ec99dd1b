//! The configurations that did not end well, the reason, and a change that would make them fit.

use std::collections::HashSet;

use base::text::counted;
use base::text::format::{bytes, seconds};

use super::evidence::Evidence;
use super::naming::{category_words, listed, phase_words};
use super::sentence::Sentence;
use crate::entry::Entry;
use crate::group::Group;
use crate::markdown::{escape, line_code as code};

/// The most cells that are described.
const MOST_DESCRIBED: usize = 3;

/// The cells that did not end well; `None` if all did.
pub(super) fn sentence(evidence: &Evidence<'_>) -> Option<Sentence> {
    let cells = || {
        let groups = evidence.groups.iter();
        groups.flat_map(|group| group.cells.iter().map(move |cell| (group, cell)))
    };
    // A cell that another one follows was answered by its ladder.
    let followed: HashSet<&str> = cells().filter_map(|(_, cell)| cell.text("fallback_of")).collect();
    let is_followed = |cell: &Entry| cell.text("cell_id").is_some_and(|id| followed.contains(id));
    let failed =
        cells().filter(|(_, cell)| cell.ran() && !cell.is_ok() && !is_ruled_out_rung(cell) && !is_followed(cell));
    let failed: Vec<(&Group, &Entry)> = failed.collect();
    // Cells without an engine are planned, never run.
    let waits = |cell: &&Entry| cell.text("status").is_none() && cell.engine().is_some();
    let waiting: Vec<&Entry> = cells().map(|(_, cell)| cell).filter(waits).collect();
    let describe =
        |(group, cell): &(&Group, &Entry)| format!("{} {}{}.", evidence.name(group), reason(cell), remedy(cell));
    let mut described = 0;
    let mut parts: Vec<String> = Vec::new();
    for cell in &failed {
        let text = describe(cell);
        if parts.contains(&text) {
            // Repeats fail alike.
            described += 1;
        } else if parts.len() < MOST_DESCRIBED {
            described += 1;
            parts.push(text);
        }
    }
    match failed.len() - described {
        0 => {}
        1 => parts.push("1 more cell did not end well.".into()),
        more => parts.push(format!("{more} more cells did not end well.")),
    }
    if !waiting.is_empty() {
        parts.push(format!("{} did not run.", counted(waiting.len(), "cell")));
    }
    let of_failed = failed.iter().map(|(_, cell)| *cell);
    (!parts.is_empty()).then(|| Sentence::of_cells(parts.join(" "), of_failed.chain(waiting)))
}

/// True for a rung of a ladder that was not tried. The cell that it follows is the one that failed.
fn is_ruled_out_rung(cell: &Entry) -> bool {
    cell.text("status") == Some("oversize") && cell.text("fallback_of").is_some()
}

fn reason(cell: &Entry) -> String {
    let size = |column: &str| cell.number(column).filter(|n| n.is_finite()).map(|n| bytes(n.into()));
    let status = cell.text("status").unwrap_or_default();
    match status {
        "oom" => {
            let mut text = "ran out of memory".to_owned();
            if let Some(phase) = cell.text("oom_phase") {
                text += &format!(" in {}", phase_words(phase));
            }
            if let (Some(requested), Some(allocated)) = (size("oom_requested_bytes"), size("oom_allocated_bytes")) {
                let of = cell.text("oom_category").map(category_words);
                text += &format!(
                    ": it asked for {requested} of {} on top of {allocated}",
                    of.as_deref().unwrap_or("memory")
                );
            }
            if let Some(budget) = size("oom_budget_bytes") {
                text += &format!(", with a budget of {budget}");
            }
            text
        }
        "oversize" => match (size("predicted_needed_bytes"), size("predicted_budget_bytes")) {
            (Some(needed), Some(budget)) => {
                format!("was left out: it is predicted to need {needed} of a budget of {budget}")
            }
            _ => "was left out, because it is predicted not to fit".into(),
        },
        "timeout" => match cell.number("timeout_seconds") {
            Some(limit) => format!("was stopped after {}", seconds(limit.into())),
            None => "was stopped at its time limit".into(),
        },
        "interrupted" => "was interrupted".into(),
        _ => match cell.text("reason") {
            Some(reason) => format!("failed: {}", escape(reason.trim_end_matches('.'))),
            None => "failed".into(),
        },
    }
}

/// The change that would make the cell fit, if one was found.
pub(super) fn remedy(cell: &Entry) -> String {
    let Some(changes) = cell.text("predicted_fits_with") else {
        return String::new();
    };
    let changes: Vec<String> = entries(changes).into_iter().map(code).collect();
    let needed = cell
        .number("predicted_fits_with_bytes")
        .map_or(String::new(), |n| format!(" ({} predicted)", bytes(n.into())));
    format!("; it would fit with {}{needed}", listed(&changes))
}

/// The entries of a map in YAML's flow style, whose braces are left out: commas in lists, maps and quotes part none.
fn entries(text: &str) -> Vec<&str> {
    let (mut entries, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (letter, Some(open)) => quote = (letter != open).then_some(open),
            ('"' | '\'', None) => quote = Some(letter),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                entries.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    entries.push(text[start..].trim());
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_change() {
        let changes = "rank: 8, target_modules: [q_proj, v_proj], offload: {weights: {ratio: 0.5}, optimizer: true}";
        assert_eq!(
            entries(changes),
            [
                "rank: 8",
                "target_modules: [q_proj, v_proj]",
                "offload: {weights: {ratio: 0.5}, optimizer: true}"
            ]
        );
        assert_eq!(entries("env: {A: '1, 2]'}, rank: 4"), ["env: {A: '1, 2]'}", "rank: 4"]);
        assert_eq!(entries("rank: 4"), ["rank: 4"]);
    }
}
