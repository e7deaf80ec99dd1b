//! The verdicts on the claims.

use base::text::counted;
use indexmap::IndexMap;

use super::evidence::Evidence;
use super::sentence::Sentence;
use crate::claims::{BasisVerdict, ClaimResult, ClaimVerdict};

/// For each basis the claims with each verdict, and the claims on which the stacks disagree.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let mut by_basis: IndexMap<&str, Vec<(usize, &BasisVerdict)>> = IndexMap::new();
    for claim in evidence.claims {
        for verdict in &claim.verdicts {
            by_basis.entry(verdict.on).or_default().push((claim.number, verdict));
        }
    }
    let disagreeing = of_disagreeing(evidence.claims);
    let by_basis = by_basis.iter().map(|(basis, verdicts)| of_basis(basis, verdicts));
    by_basis.chain(disagreeing).collect()
}

/// `PyTorch, predicted: of 14 claims 4 hold (1, 3, 5, 9), …`.
fn of_basis(basis: &str, verdicts: &[(usize, &BasisVerdict)]) -> Sentence {
    let part = |verdict: ClaimVerdict| {
        let those = verdicts.iter().filter(|(_, there)| there.verdict == verdict);
        let numbers: Vec<usize> = those.map(|(number, _)| *number).collect();
        (!numbers.is_empty()).then(|| format!("{} {} ({})", numbers.len(), words(verdict, &numbers), list(&numbers)))
    };
    let parts: Vec<String> = ClaimVerdict::ALL.into_iter().filter_map(part).collect();
    let (first, rest) = basis.split_at(1);
    let claims = counted(verdicts.len(), "claim");
    let text = format!("{}{rest}: of {claims} {}.", first.to_uppercase(), parts.join(", "));
    let ids = verdicts.iter().flat_map(|(_, verdict)| &verdict.cells);
    Sentence::with_ids(text, ids.map(String::as_str))
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
fn words(verdict: ClaimVerdict, of: &[usize]) -> &'static str {
    match (verdict, of.len()) {
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
