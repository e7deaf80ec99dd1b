//! Verdicts on claims.

use base::text::format::ABSENT;
use options::Stack;
use spec::{Expected, Measure, SpecError};

use super::bases::bases;
use super::basis::{Basis, Evidence, Purpose};
use super::bound::BoundClaim;
use super::evaluate::{Evaluation, evaluate};
use super::result::{BasisVerdict, ClaimResult, ClaimVerdict, NamedValue};
use super::scope::Scope;
use super::uncertainty::{spread, uncertainty};
use super::values::with_spread;
use crate::group::{Group, repeats};

/// Judges every claim by the groups of a study, once for each stack.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn judge(claims: &[BoundClaim], groups: &[Group], purpose: Purpose) -> Result<Vec<ClaimResult>, SpecError> {
    let repeats = repeats(groups);
    let judge_one = |bound: &BoundClaim| {
        let verdicts = bases(bound, groups, purpose == Purpose::Plan)
            .into_iter()
            .map(|basis| judge_on((basis, purpose), bound, groups, &repeats));
        let claim = &bound.claim;
        Ok(ClaimResult {
            number: bound.index + 1,
            claim: claim.claim.clone(),
            source: claim.source.clone(),
            note: claim.note.clone(),
            holds: claim.holds.clone(),
            exceeds: claim.exceeds.clone(),
            verdicts: verdicts.collect::<Result<_, SpecError>>()?,
            place: claim.origin.to_string(),
        })
    };
    claims.iter().map(judge_one).collect()
}

fn judge_on(
    (basis, purpose): (Basis, Purpose),
    bound: &BoundClaim,
    groups: &[Group],
    repeats: &[Vec<Group>],
) -> Result<BasisVerdict, SpecError> {
    let claim = &bound.claim;
    let of = |groups: &[Group]| Scope::new(groups, bound, (basis, purpose));
    let scope = of(groups);
    // Predictions have no spread.
    let repeats = if basis.evidence == Evidence::Measured {
        repeats
    } else {
        &[]
    };
    let repeats: Vec<Scope> = repeats.iter().map(|groups| of(groups)).collect();
    let Decision {
        means,
        repeats,
        verdict,
        why,
    } = decide(bound, &scope, &repeats)?;
    let measured = |(name, measure): (&String, &Measure)| {
        let mean = means.values.get(name);
        let spread = mean.and_then(|mean| spread(mean, name, &repeats));
        let text = mean
            .map_or(Ok(ABSENT.to_owned()), |mean| with_spread(mean, spread, measure))
            .map_err(|mistake| bound.error(&format!("measured.{name}.value"), &measure.value, mistake))?;
        Ok(NamedValue {
            name: name.clone(),
            text,
            value: measure.value.clone(),
        })
    };
    Ok(BasisVerdict {
        basis,
        on: basis.name(),
        verdict,
        expected: is_expected(verdict, basis, bound),
        measured: claim.measured.iter().map(measured).collect::<Result<_, SpecError>>()?,
        cells: scope.read_cells(),
        columns: scope.read_columns(),
        why,
    })
}

/// A verdict, and the values that it rests on.
pub(crate) struct Decision {
    means: Evaluation,
    /// The values by each seed alone; empty if repeats do not count.
    repeats: Vec<Evaluation>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The reason if it is undecided or untested.
    pub why: Option<String>,
}

/// Decides a claim over the groups of `scope`; `repeats` has them for each seed alone.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn decide(bound: &BoundClaim, scope: &Scope, repeats: &[Scope]) -> Result<Decision, SpecError> {
    let means = evaluate(bound, scope)?;
    // A single repeat has fewer rows, which the expression may count.
    let repeats = if scope.read_means_only() { repeats } else { &[] };
    let repeats = repeats.iter().map(|scope| evaluate(bound, scope));
    let repeats = repeats.collect::<Result<Vec<Evaluation>, SpecError>>()?;
    let (verdict, why) = match means.verdict {
        None => {
            let reason = bound.claim.untested.clone().or_else(|| scope.missing());
            (ClaimVerdict::Untested, reason)
        }
        Some(verdict) => match uncertainty(bound, scope, &means, verdict, &repeats)? {
            Some(why) => (ClaimVerdict::Undecided, Some(why)),
            None => (verdict, None),
        },
    };
    Ok(Decision {
        means,
        repeats,
        verdict,
        why,
    })
}

/// True if the spec expects this verdict.
fn is_expected(verdict: ClaimVerdict, basis: Basis, bound: &BoundClaim) -> bool {
    let expected = bound.claim.expect.on(basis.stack);
    match verdict {
        ClaimVerdict::Supported => expected == Expected::Supported,
        ClaimVerdict::Exceeded => expected == Expected::Exceeded,
        ClaimVerdict::Refuted => expected == Expected::Refuted,
        ClaimVerdict::Undecided => true,
        // A plan of our trainer lacks what only a run can measure.
        ClaimVerdict::Untested => {
            let is_plan_of_ours = basis.stack == Some(Stack::Candle) && basis.evidence == Evidence::Predicted;
            bound.claim.untested.is_some() || is_plan_of_ours
        }
    }
}
