//! The answers of all kinds of reports.

use serde::Serialize;

use super::evidence::Evidence;
use super::figures::Figures;
use super::own::{self, Said};
use super::sentence::{MOST, Sentence, most_important};
use super::{
    agreement, binding, changes, claims, extremes, failures, fits, held_out, methods, price, profiles, slopes,
};
use crate::entry::Entry;
use crate::group::Group;

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
    /// The answers that the evidence carries. The spec's author speaks first.
    pub(crate) fn new(evidence: &Evidence<'_>) -> Self {
        let own = own::sentences(evidence);
        let room = MOST - own.len().min(MOST);
        let after_own =
            |sentences: Vec<(u8, Sentence)>| own.iter().cloned().chain(most_important(sentences, room)).collect();
        // A control that is not trained is no choice: it is in no extreme.
        let trained: Vec<Group> = trained(evidence.groups);
        let trained = Evidence {
            groups: &trained,
            ..*evidence
        };
        Self {
            comparison: after_own(comparison(evidence, &trained)),
            methods: after_own(methods::sentences(&trained)),
            profiles: after_own(profiles::sentences(evidence)),
            claims: after_own(of_claims(evidence)),
            plan: after_own(plan(evidence)),
        }
    }
}

/// The groups without those whose learning rate is zero, unless all are so.
fn trained(groups: &[Group]) -> Vec<Group> {
    let is_trained = |group: &&Group| group.cells[0].number("learning_rate") != Some(0.0);
    match groups.iter().any(|group| is_trained(&group)) {
        true => groups.iter().filter(is_trained).cloned().collect(),
        false => groups.to_vec(),
    }
}

/// The measured figures, or the predicted ones before a cell ran.
fn comparison(evidence: &Evidence<'_>, trained: &Evidence<'_>) -> Vec<(u8, Sentence)> {
    let has_run = evidence.groups.iter().flat_map(|group| &group.cells).any(Entry::ran);
    let predicted = plan(evidence);
    if !has_run && !predicted.is_empty() {
        return predicted;
    }
    let figures = Figures::Measured;
    let said = Said::by(evidence);
    let mut sentences: Vec<(u8, Sentence)> = agreements(evidence, figures);
    sentences.extend(costs(trained, figures));
    if !said.loss {
        sentences.extend(ranked(held_out::sentences(trained), 1));
    }
    // The author knows whether speed is a part of the question.
    sentences.extend(important(price::sentence(trained)).filter(|_| !said.any));
    sentences.extend(important(failures::sentence(evidence)));
    sentences
}

/// The agreement with what is published, by measurements if there are any, and the verdicts on the claims.
fn of_claims(evidence: &Evidence<'_>) -> Vec<(u8, Sentence)> {
    let mut sentences = agreements(evidence, Figures::Measured);
    if sentences.is_empty() {
        sentences = agreements(evidence, Figures::Predicted);
    }
    sentences.extend(claims::sentences(evidence));
    sentences
}

/// The predicted figures. What is published of them is the question of the study, so costs are not told beside it.
fn plan(evidence: &Evidence<'_>) -> Vec<(u8, Sentence)> {
    let figures = Figures::Predicted;
    let mut sentences: Vec<(u8, Sentence)> = agreements(evidence, figures);
    let is_compared = !sentences.is_empty();
    sentences.extend(important(fits::sentence(evidence)));
    if !is_compared {
        sentences.extend(costs(evidence, figures));
    }
    sentences
}

/// The agreement with what is published, figures first.
fn agreements(evidence: &Evidence<'_>, figures: Figures) -> Vec<(u8, Sentence)> {
    let of_figures = important(agreement::sentence(evidence, figures));
    of_figures
        .chain(important(agreement::of_outcomes(evidence, figures)))
        .collect()
}

/// The extremes, the place of the peak, and the growth, each with its importance. The first of a kind matters most.
/// Where the spec's author has answered, only the extremes of what he did not speak of are left.
fn costs(evidence: &Evidence<'_>, figures: Figures) -> Vec<(u8, Sentence)> {
    let said = Said::by(evidence);
    if said.memory {
        return Vec::new();
    }
    let extremes = extremes::sentences(evidence, figures, |group| evidence.name(group));
    let mut sentences: Vec<(u8, Sentence)> = ranked(extremes, 1).collect();
    if !said.any {
        sentences.extend(binding::sentence(evidence, figures).map(|sentence| (2, sentence)));
        sentences.extend(ranked(growth(evidence, figures), 3));
    }
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
