//! A step's profile compared with a whole training.

use super::evidence::Evidence;
use super::sentence::Sentence;
use crate::report::pairs::CellPair;
use crate::text::format::{bytes, ratio};

/// For each pair, the training's peak over the sum of the profile's components.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let sentence = |pair: &CellPair| {
        let total = pair.from.number("profile_total_bytes").filter(|total| *total > 0.0)?;
        let peak = pair.to.number("allocated_peak_bytes")?;
        let text = format!(
            "The components of the profile add up to {}; the peak of the training is {} ({}).",
            bytes(total.into()),
            bytes(peak.into()),
            ratio((peak / total).into()),
        );
        Some(Sentence::of_cells(text, [&pair.from, &pair.to]))
    };
    evidence.profiles.iter().filter_map(sentence).collect()
}
