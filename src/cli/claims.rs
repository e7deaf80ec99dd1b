//! The claims of a study on the command line.

use crate::report::{ClaimResult, ClaimVerdict};
use crate::text::counted;

/// The number of claims with each verdict; `None` if the study has no claims.
pub(super) fn summary(claims: &[ClaimResult]) -> Option<String> {
    let count = |verdict: ClaimVerdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let counts: Vec<String> = ClaimVerdict::ALL
        .into_iter()
        .map(|verdict| (count(verdict), verdict.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    (!claims.is_empty()).then(|| format!("{}: {}", counted(claims.len(), "claim"), counts.join(", ")))
}

/// Prints each claim with an unexpected verdict and each undecided one to stderr, with its place. Returns true if all
/// verdicts are expected.
pub(super) fn are_as_expected(claims: &[ClaimResult]) -> bool {
    let is_printed = |claim: &&ClaimResult| !claim.expected || claim.verdict == ClaimVerdict::Undecided;
    for claim in claims.iter().filter(is_printed) {
        let measured: Vec<String> = claim
            .measured
            .iter()
            .map(|value| format!("{}: {}", value.name, value.text))
            .collect();
        let why = claim.why.iter().cloned().chain(measured).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let sentence = claim.claim.split_whitespace().collect::<Vec<_>>().join(" ");
        eprintln!("{}: {}: {sentence}{why}", claim.place, claim.verdict.name());
    }
    claims.iter().all(|claim| claim.expected)
}
