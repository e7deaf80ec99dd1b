//! What `run` and `report` say of a study's claims.

use crate::report::{ClaimResult, ClaimVerdict};
use crate::text::counted;

/// How many claims have which verdict; none where the study has no claims.
pub fn summary(claims: &[ClaimResult]) -> Option<String> {
    let with = |verdict: ClaimVerdict| {
        (
            claims.iter().filter(|claim| claim.verdict == verdict).count(),
            verdict.name(),
        )
    };
    let counts = ClaimVerdict::ALL.map(with);
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    (!claims.is_empty()).then(|| format!("{}: {}", counted(claims.len(), "claim"), counts.join(", ")))
}

/// Says on stderr which claims have another verdict than the spec expects or are undecided, each with its place, and
/// whether none has another.
pub fn are_as_expected(claims: &[ClaimResult]) -> bool {
    let told = |claim: &&ClaimResult| !claim.expected || claim.verdict == ClaimVerdict::Undecided;
    for claim in claims.iter().filter(told) {
        let measured: Vec<String> = claim
            .measured
            .iter()
            .map(|shown| format!("{}: {}", shown.name, shown.text))
            .collect();
        let why = claim.why.iter().cloned().chain(measured).collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let sentence = claim.claim.split_whitespace().collect::<Vec<_>>().join(" ");
        eprintln!("{}: {}: {sentence}{why}", claim.place, claim.verdict.name());
    }
    claims.iter().all(|claim| claim.expected)
}
