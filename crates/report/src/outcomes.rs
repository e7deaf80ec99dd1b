//! Published outcomes: that a run fitted or ran out of memory, each beside the plan's verdict or the study's own run.

use options::Stack;
use records::prediction::Judgement;
use results::columns::PREDICTED;
use serde::Serialize;
use spec::{Evidence, LargestKey, PublishedOutcome, SpecError, Study};

use super::group::Group;
use super::published::{PublishedFigure, in_groups};

/// A compared outcome, for templates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ComparedOutcome {
    /// The source's name for the run.
    pub name: Option<String>,
    /// What was published: `fits` or `out of memory`.
    pub published: &'static str,
    /// The key whose value is the largest that fitted.
    pub largest: Option<&'static str>,
    /// What the outcome says about the plan.
    pub evidence: Evidence,
    /// The source.
    pub source: String,
    /// From 1; outcomes and figures of one source share it.
    pub source_number: usize,
    /// The spec's note.
    pub note: Option<String>,
    /// The group of the outcome.
    pub group: Group,
    /// What the study's own cells came to: `fits` or `out of memory`; `None` if they were not run or ended otherwise.
    pub measured: Option<&'static str>,
    /// The plan's verdict: `fits`, `may not fit` or `does not fit`; `None` without a budget.
    pub predicted: Option<&'static str>,
    /// The predicted part of the budget that is needed.
    pub share: Option<f64>,
    /// The comparison, with what was run if it was.
    pub agreement: Agreement,
}

/// How an outcome compares with ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Ours is the same.
    Same,
    /// What is needed may be on either side of the budget.
    Undecided,
    /// Ours is the other one.
    Other,
    /// There is none of ours.
    Missing,
}

/// Compares each outcome with its group. An outcome without a group in the frame is left out.
pub(crate) fn compare(figures: &[PublishedFigure], groups: &[Group]) -> Vec<ComparedOutcome> {
    let outcomes = in_groups(figures, groups).filter_map(|(published, group, source_number)| {
        let outcome = published.outcome?;
        let judgement = judgement(group);
        let measured = measured(group);
        let ours = measured.map(Some).or(judgement.map(|judgement| match judgement {
            Judgement::Fits | Judgement::Tight => Some(PublishedOutcome::Fits),
            Judgement::MayNotFit => None,
            Judgement::DoesNotFit => Some(PublishedOutcome::OutOfMemory),
        }));
        Some(ComparedOutcome {
            name: published.name.clone(),
            published: words(outcome),
            largest: published.largest.map(LargestKey::name),
            evidence: published.evidence,
            source: published.source.clone(),
            source_number,
            note: published.note.clone(),
            group: group.clone(),
            measured: measured.map(words),
            predicted: judgement.map(Judgement::words),
            share: share(group),
            agreement: match ours {
                None => Agreement::Missing,
                Some(None) => Agreement::Undecided,
                Some(Some(ours)) if ours == outcome => Agreement::Same,
                Some(Some(_)) => Agreement::Other,
            },
        })
    });
    outcomes.collect()
}

/// Makes sure that outcomes' cells have memory to fit into, and heed the key whose largest value is said, and that no
/// source says two things of a cell.
///
/// # Errors
/// The first that does not, with its place in the spec.
pub(crate) fn check(study: &Study) -> Result<(), SpecError> {
    let outcomes = study.published.iter().enumerate();
    for (index, published) in outcomes.filter(|(_, published)| published.outcome.is_some()) {
        let wrong = |key: &str, message: &str, help: &str| {
            let message = format!("published[{index}].{key}: {message}");
            Err(published.origin.error(key, message, Some(help.into())))
        };
        for study_cell in study.cells.iter().filter(|cell| cell.has(&published.cell)) {
            let cell = &study_cell.cell;
            let has_budget = match cell.stack {
                Stack::Candle => cell.device_memory.is_some(),
                Stack::Torch => cell.gpu.is_some(),
            };
            if !has_budget {
                let help = "give the cell a `gpu`, or `device_memory`";
                return wrong("outcome", "its cell has no memory to fit into", help);
            }
            let largest = published.largest.map(LargestKey::name);
            if largest.is_some_and(|key| !cell.heeds(key)) {
                return wrong("largest", "its cell does not heed this key", "leave it out");
            }
            let other = study.published[..index].iter().position(|before| {
                let is_other = before.outcome.is_some_and(|outcome| Some(outcome) != published.outcome);
                is_other && before.source == published.source && study_cell.has(&before.cell)
            });
            if let Some(other) = other {
                let message = format!("published[{other}] says the other of the same cell, by the same source");
                return wrong("outcome", &message, "one of the two is of another cell, or wrong");
            }
        }
    }
    Ok(())
}

fn words(outcome: PublishedOutcome) -> &'static str {
    match outcome {
        PublishedOutcome::Fits => "fits",
        PublishedOutcome::OutOfMemory => "out of memory",
    }
}

/// What the group's cells came to, if all came to the same.
fn measured(group: &Group) -> Option<PublishedOutcome> {
    match group.status.as_str() {
        "ok" => Some(PublishedOutcome::Fits),
        "oom" => Some(PublishedOutcome::OutOfMemory),
        _ => None,
    }
}

/// The plan's verdict on the first cell, with no headroom: a source says what ran, however tight it was.
fn judgement(group: &Group) -> Option<Judgement> {
    let bytes = |name: &str| Some(predicted(group, name)? as u64);
    let range = [bytes("needed_low_bytes")?, bytes("needed_high_bytes")?];
    Some(Judgement::of(range, bytes("budget_bytes")?, 0))
}

fn share(group: &Group) -> Option<f64> {
    Some(predicted(group, "needed_bytes")? / predicted(group, "budget_bytes")?)
}

fn predicted(group: &Group, name: &str) -> Option<f64> {
    group.cells[0].number(&format!("{PREDICTED}{name}"))
}
