//! The claims of a study on the command line.

use base::text::counted;
use indexmap::IndexMap;
use report::{AnswerResult, BasisVerdict, ClaimResult, ClaimVerdict};

/// The number of claims with each verdict, for each basis that there is; `None` if the study has no claims.
pub(super) fn summary(claims: &[ClaimResult]) -> Option<String> {
    let mut by_basis: IndexMap<&str, Vec<ClaimVerdict>> = IndexMap::new();
    for verdict in claims.iter().flat_map(|claim| &claim.verdicts) {
        by_basis.entry(verdict.on).or_default().push(verdict.verdict);
    }
    let several = by_basis.len() > 1;
    let counts = by_basis.iter().map(|(basis, verdicts)| {
        let counts = counts(verdicts);
        if several { format!("{basis}: {counts}") } else { counts }
    });
    let counts: Vec<String> = counts.collect();
    (!claims.is_empty()).then(|| format!("{}: {}", counted(claims.len(), "claim"), counts.join("; ")))
}

/// `2 supported, 1 refuted`.
fn counts(verdicts: &[ClaimVerdict]) -> String {
    let count = |verdict: ClaimVerdict| verdicts.iter().filter(|there| **there == verdict).count();
    let counts = ClaimVerdict::ALL
        .into_iter()
        .map(|verdict| (count(verdict), verdict.name()))
        .filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    counts.join(", ")
}

/// Prints each unexpected verdict and each undecided one to stderr, with the claim's place. Returns true if all
/// verdicts are expected.
pub(super) fn are_as_expected(claims: &[ClaimResult]) -> bool {
    for claim in claims {
        let is_printed = |verdict: &&BasisVerdict| !verdict.expected || verdict.verdict == ClaimVerdict::Undecided;
        for verdict in claim.verdicts.iter().filter(is_printed) {
            let measured = verdict
                .measured
                .iter()
                .map(|value| format!("{}: {}", value.name, value.text));
            let why: Vec<String> = verdict.why.iter().cloned().chain(measured).collect();
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" ({})", why.join("; "))
            };
            let sentence = claim.claim.split_whitespace().collect::<Vec<_>>().join(" ");
            let on = match claim.verdicts.len() {
                1 => String::new(),
                _ => format!(" ({})", verdict.on),
            };
            eprintln!("{}: {}{on}: {sentence}{why}", claim.place, verdict.verdict.name());
        }
    }
    claims
        .iter()
        .flat_map(|claim| &claim.verdicts)
        .all(|verdict| verdict.expected)
}

/// Prints each sentence of the spec's answer that does not hold, or that is open, to stderr with its place. Returns true
/// if the figures contradict none.
pub(super) fn answer_holds(answer: &[AnswerResult]) -> bool {
    for sentence in answer
        .iter()
        .filter(|sentence| sentence.verdict != ClaimVerdict::Supported)
    {
        let why = sentence.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let (place, verdict) = (&sentence.place, sentence.verdict.name());
        eprintln!("{place}: {verdict}: {}{why}", sentence.text);
    }
    answer.iter().all(|sentence| sentence.verdict != ClaimVerdict::Refuted)
}
