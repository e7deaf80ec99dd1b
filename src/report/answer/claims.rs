//! The verdicts on the claims.

use super::evidence::Evidence;
use super::sentence::Sentence;
use crate::report::claims::ClaimVerdict;
use crate::text::counted;

/// The number of claims with each verdict.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    if evidence.claims.is_empty() {
        return Vec::new();
    }
    let count = |verdict: ClaimVerdict| {
        let n = evidence.claims.iter().filter(|claim| claim.verdict == verdict).count();
        (n > 0).then(|| format!("{n} {}", verdict.name()))
    };
    let counts: Vec<String> = ClaimVerdict::ALL.into_iter().filter_map(count).collect();
    let text = format!("{}: {}.", counted(evidence.claims.len(), "claim"), counts.join(", "));
    let ids = evidence.claims.iter().flat_map(|claim| &claim.cells);
    vec![Sentence::with_ids(text, ids.map(String::as_str))]
}
