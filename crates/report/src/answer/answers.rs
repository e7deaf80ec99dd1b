//! The answers of all kinds of reports.

use serde::Serialize;

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::{Sentence, most_important};
use super::{
    agreement, binding, changes, claims, extremes, failures, fits, held_out, methods, price, profiles, slopes,
};
use crate::entry::Entry;

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
    let has_run = evidence.groups.iter().flat_map(|group| &group.cells).any(Entry::ran);
    let predicted = plan(evidence);
    if !has_run && !predicted.is_empty() {
        return predicted;
    }
    let figures = Figures::Measured;
    let mut sentences: Vec<(u8, Sentence)> = important(agreement::of_outcomes(evidence, figures)).collect();
    sentences.extend(costs(evidence, figures));
    sentences.extend(ranked(held_out::sentences(evidence), 1));
    sentences.extend(important(price::sentence(evidence)));
    sentences.extend(important(failures::sentence(evidence)));
    sentences.extend(important(agreement::sentence(evidence, figures)));
    most_important(sentences)
}

fn plan(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let figures = Figures::Predicted;
    let mut sentences: Vec<(u8, Sentence)> = important(agreement::of_outcomes(evidence, figures)).collect();
    sentences.extend(important(fits::sentence(evidence)));
    sentences.extend(costs(evidence, figures));
    sentences.extend(important(agreement::sentence(evidence, figures)));
    most_important(sentences)
}

/// The extremes, the place of the peak, and the growth, each with its importance. The first of a kind matters most.
fn costs(evidence: &Evidence<'_>, figures: Figures) -> Vec<(u8, Sentence)> {
    let extremes = extremes::sentences(evidence, figures, |group| evidence.name(group));
    let mut sentences: Vec<(u8, Sentence)> = ranked(extremes, 1).collect();
    sentences.extend(binding::sentence(evidence, figures).map(|sentence| (2, sentence)));
    sentences.extend(ranked(growth(evidence, figures), 3));
    sentences
}

fn important(sentence: Option<Sentence>) -> impl Iterator<Item = (u8, Sentence)> {
    sentence.into_iter().map(|sentence| (0, sentence))
}

/// The first sentence as important, and the others as given.
fn ranked(sentences: Vec<Sentence>, others: u8) -> impl Iterator<Item = (u8, Sentence)> {
    let rank = move |(at, sentence)| (if at == 0 { 0 } else { others }, sentence);
    sentences.into_iter().enumerate().map(rank)
}

/// What each change is worth in a study that makes one after the other, or else the slopes over its axes.
fn growth(evidence: &Evidence<'_>, figures: Figures) -> Vec<Sentence> {
    match changes::sentence(evidence, figures) {
        Some(sentence) => vec![sentence],
        None => slopes::sentences(evidence, figures),
    }
}
