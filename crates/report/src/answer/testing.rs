//! Hand-made cells and their answers, for the tests of answers.

use base::text::format::ByteUnit;
use results::datum::Datum;

use super::answers::Answers;
use super::evidence::Evidence;
use crate::entry::Entry;
use crate::group::groups;
use crate::methods::losses;
use crate::published::ComparedFigure;
use crate::speeds::speeds;

/// A mebibyte.
pub(super) const MIB: u64 = 1 << 20;

/// A row with these values, of a group that its configuration names.
pub(super) fn cell<const N: usize>(id: &str, values: [(&str, Datum); N]) -> Entry {
    let text = |name: &str, value: &str| (name.to_owned(), Datum::from(value));
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value));
    [text("cell_id", id), text("group_id", id)]
        .into_iter()
        .chain(values)
        .collect()
}

/// A measured cell of this rank.
pub(super) fn of_rank(id: &str, rank: u64, peak: u64, gradient: u64) -> Entry {
    cell(
        id,
        [
            ("status", "ok".into()),
            ("rank", rank.into()),
            ("trainable_count", (rank * 1000).into()),
            ("allocated_peak_bytes", peak.into()),
            ("allocated_peak_phase", "backward".into()),
            (
                "allocated_peak_module",
                if gradient > 0 { "layers.0" } else { "lm_head" }.into(),
            ),
            ("allocated_peak_parameter_bytes", (peak - gradient).into()),
            ("allocated_peak_gradient_bytes", gradient.into()),
        ],
    )
}

/// A measured cell with a speed and the spread of its steps.
pub(super) fn of_speed(id: &str, checkpointing: &str, peak: u64, speed: f64, spread: Option<f64>) -> Entry {
    cell(
        id,
        [
            ("status", "ok".into()),
            ("gradient_checkpointing", checkpointing.into()),
            ("allocated_peak_bytes", peak.into()),
            ("tokens_per_second", speed.into()),
            ("step_seconds_spread", spread.into()),
        ],
    )
}

/// The answers of these cells.
pub(super) fn answers(cells: &[Entry], axes: &[&str]) -> Answers {
    answers_beside(cells, axes, &[])
}

/// The answers of these cells, beside published figures.
pub(super) fn answers_beside(cells: &[Entry], axes: &[&str], published: &[ComparedFigure]) -> Answers {
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    let groups = groups(cells, &axes);
    Answers::new(&Evidence {
        groups: &groups,
        axes: &axes,
        published,
        outcomes: &[],
        claims: &[],
        own: &[],
        losses: &losses(&groups),
        speeds: &speeds(&groups),
        paths: &[],
        twins: &[],
        memory_unit: ByteUnit::MiB,
    })
}

/// The sentences of a comparison.
pub(super) fn measured(cells: &[Entry], axes: &[&str]) -> Vec<String> {
    answers(cells, axes)
        .comparison
        .into_iter()
        .map(|sentence| sentence.text)
        .collect()
}

/// The sentence with these words; fails without one.
pub(super) fn with<'t>(texts: &'t [String], words: &str) -> &'t str {
    texts
        .iter()
        .find(|text| text.contains(words))
        .unwrap_or_else(|| panic!("no `{words}` in {texts:#?}"))
}
