//! The choice between methods.

use super::evidence::Evidence;
use super::extremes;
use super::figures::Figures;
use super::sentence::Sentence;

/// The cheapest and the dearest method.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    extremes::sentences(evidence, Figures::Measured)
}
