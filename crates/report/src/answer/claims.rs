//! The verdicts on the claims.

use base::text::counted;
use indexmap::IndexMap;
use options::Stack;

use super::naming::listed;
use super::sentence::Sentence;
use crate::claims::{BasisVerdict, ClaimResult, ClaimVerdict, Evidence};
use crate::markdown::escape;

/// The most claims that stand in words.
const MOST_IN_WORDS: usize = 4;

/// For each basis the number of claims with each verdict; the refuted claims that matter most, in words; and the claims on
/// which the stacks disagree. Each has its importance.
pub(super) fn sentences(evidence: &super::Evidence<'_>) -> Vec<(u8, Sentence)> {
    let mut by_basis: IndexMap<&str, Vec<&BasisVerdict>> = IndexMap::new();
    for claim in evidence.claims {
        for verdict in &claim.verdicts {
            by_basis.entry(verdict.on).or_default().push(verdict);
        }
    }
    let mut sentences = Vec::new();
    if !by_basis.is_empty() {
        let counts: Vec<String> = by_basis
            .iter()
            .map(|(basis, verdicts)| of_basis(basis, verdicts))
            .collect();
        let (first, rest) = counts[0].split_at(1);
        let rest = [rest].into_iter().chain(counts[1..].iter().map(String::as_str));
        let text = format!("{}{}.", first.to_uppercase(), rest.collect::<Vec<_>>().join("; "));
        let ids = by_basis.values().flatten().flat_map(|verdict| &verdict.cells);
        sentences.push((0, Sentence::with_ids(text, ids.map(String::as_str))));
    }
    sentences.extend(in_words(evidence.claims).into_iter().map(|sentence| (1, sentence)));
    sentences.extend(of_disagreeing(evidence.claims).map(|sentence| (0, sentence)));
    sentences
}

/// Refuted claims in words, each with all of its verdicts: those of the most weight.
fn in_words(claims: &[ClaimResult]) -> Vec<Sentence> {
    let is_refuted = |verdict: &BasisVerdict| verdict.verdict == ClaimVerdict::Refuted;
    let mut refuted: Vec<&ClaimResult> = claims
        .iter()
        .filter(|claim| claim.verdicts.iter().any(is_refuted))
        .collect();
    refuted.sort_by_key(|claim| claim.weight());
    let sentence = |claim: &&ClaimResult| {
        let verdicts: Vec<String> = claim.verdicts.iter().map(verdict_in_words).collect();
        let claimed = claim.claim.split_whitespace().collect::<Vec<_>>().join(" ");
        let claimed = claimed.trim_end_matches('.');
        let text = format!("“{}” is {}.", escape(claimed), listed(&verdicts));
        let ids = claim.verdicts.iter().flat_map(|verdict| &verdict.cells);
        Sentence::with_ids(text, ids.map(String::as_str))
    };
    refuted.iter().take(MOST_IN_WORDS).map(sentence).collect()
}

/// `refuted by PyTorch's plan (peak: 6.1 GiB)`.
fn verdict_in_words(verdict: &BasisVerdict) -> String {
    let by = match (verdict.basis.stack, verdict.basis.evidence) {
        (Some(Stack::Torch), Evidence::Predicted) => "by PyTorch's plan",
        (Some(Stack::Torch), _) => "by PyTorch's run",
        (Some(Stack::Candle), Evidence::Predicted) => "by our trainer's plan",
        (Some(Stack::Candle), _) => "by our trainer's run",
        (None, _) => "by its own numbers",
    };
    let word = match verdict.verdict {
        ClaimVerdict::Exceeded => "understated",
        other => other.name(),
    };
    let values = verdict.measured.iter();
    let values: Vec<String> = values
        .map(|value| format!("{}: {}", value.name.replace('_', " "), escape(&value.text)))
        .collect();
    match values.is_empty() {
        true => format!("{word} {by}"),
        false => format!("{word} {by} ({})", values.join("; ")),
    }
}

/// `PyTorch, predicted: of 14 claims 4 hold, …`.
fn of_basis(basis: &str, verdicts: &[&BasisVerdict]) -> String {
    let part = |verdict: ClaimVerdict| {
        let count = verdicts.iter().filter(|there| there.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", words(verdict, count)))
    };
    let parts: Vec<String> = ClaimVerdict::ALL.into_iter().filter_map(part).collect();
    format!("{basis}: of {} {}", counted(verdicts.len(), "claim"), parts.join(", "))
}

/// The claims on which PyTorch's stack and ours have different verdicts.
fn of_disagreeing(claims: &[ClaimResult]) -> Option<Sentence> {
    let decided = |verdict: ClaimVerdict| !matches!(verdict, ClaimVerdict::Undecided | ClaimVerdict::Untested);
    let differ = |claim: &&ClaimResult| match claim.verdicts.as_slice() {
        [one, other] => decided(one.verdict) && decided(other.verdict) && one.verdict != other.verdict,
        _ => false,
    };
    let those: Vec<&ClaimResult> = claims.iter().filter(differ).collect();
    let numbers: Vec<usize> = those.iter().map(|claim| claim.number).collect();
    let claim = if numbers.len() == 1 { "claim" } else { "claims" };
    let text = format!("The stacks differ in their verdict on {claim} {}.", list(&numbers));
    let ids = those
        .iter()
        .flat_map(|claim| &claim.verdicts)
        .flat_map(|verdict| &verdict.cells);
    (!numbers.is_empty()).then(|| Sentence::with_ids(text, ids.map(String::as_str)))
}

/// The verdict as a verb.
fn words(verdict: ClaimVerdict, count: usize) -> &'static str {
    match (verdict, count) {
        (ClaimVerdict::Supported, 1) => "holds",
        (ClaimVerdict::Supported, _) => "hold",
        (ClaimVerdict::Exceeded, 1) => "is understated",
        (ClaimVerdict::Exceeded, _) => "are understated",
        (ClaimVerdict::Refuted, 1) => "does not hold",
        (ClaimVerdict::Refuted, _) => "do not hold",
        (ClaimVerdict::Undecided, 1) => "is undecided",
        (ClaimVerdict::Undecided, _) => "are undecided",
        (ClaimVerdict::Untested, 1) => "is untested",
        (ClaimVerdict::Untested, _) => "are untested",
    }
}

fn list(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}
