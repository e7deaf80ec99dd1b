//! The answers of all kinds of reports.

use serde::Serialize;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use super::{agreement, binding, changes, claims, extremes, failures, fits, methods, price, profiles, slopes};

/// The sentences for each kind of report. A template shows one list with `parts/answer.md.j2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answers {
    /// The costs of the measured configurations.
    pub comparison: Vec<Sentence>,
    /// The choice between methods.
    pub methods: Vec<Sentence>,
    /// A step's profile compared with a whole training.
    pub profiles: Vec<Sentence>,
    /// The verdicts on the claims.
    pub claims: Vec<Sentence>,
    /// The predicted configurations.
    pub plan: Vec<Sentence>,
}

impl Answers {
    /// The answers that the evidence carries.
    pub(crate) fn new(evidence: &Evidence<'_>) -> Self {
        Self {
            comparison: comparison(evidence),
            methods: methods::sentences(evidence),
            profiles: profiles::sentences(evidence),
            claims: claims::sentences(evidence),
            plan: plan(evidence),
        }
    }
}

/// The measured figures, or the predicted ones before a cell ran.
fn comparison(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let has_run = evidence
        .groups
        .iter()
        .flat_map(|group| &group.cells)
        .any(|cell| cell.text("status").is_some());
    let predicted = plan(evidence);
    if !has_run && !predicted.is_empty() {
        return predicted;
    }
    let figures = Figures::Measured;
    let mut sentences = extremes::sentences(evidence, figures);
    sentences.extend(binding::sentence(evidence, figures));
    sentences.extend(growth(evidence, figures));
    sentences.extend(price::sentence(evidence));
    sentences.extend(failures::sentence(evidence));
    sentences
}

/// What each change is worth in a study that makes one after the other, or else the slopes over its axes.
fn growth(evidence: &Evidence<'_>, figures: Figures) -> Vec<Sentence> {
    match changes::sentence(evidence, figures) {
        Some(sentence) => vec![sentence],
        None => slopes::sentences(evidence, figures),
    }
}

fn plan(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let figures = Figures::Predicted;
    let mut sentences: Vec<Sentence> = fits::sentence(evidence).into_iter().collect();
    sentences.extend(extremes::sentences(evidence, figures));
    sentences.extend(binding::sentence(evidence, figures));
    sentences.extend(growth(evidence, figures));
    sentences.extend(agreement::sentence(evidence, figures));
    sentences
}
