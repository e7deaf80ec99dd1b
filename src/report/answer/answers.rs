//! The answers of all kinds of reports.

use serde::Serialize;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use super::{claims, extremes, methods, profiles};

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
            comparison: extremes::sentences(evidence, Figures::Measured),
            methods: methods::sentences(evidence),
            profiles: profiles::sentences(evidence),
            claims: claims::sentences(evidence),
            plan: extremes::sentences(evidence, Figures::Predicted),
        }
    }
}
