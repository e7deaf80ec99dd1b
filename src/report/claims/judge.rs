//! ClaimVerdicts of claims.

use minijinja::Value;
use minijinja::value::ValueKind;

use super::bound::BoundClaim;
use super::evaluate::{Evaluation, evaluate};
use super::result::{ClaimResult, ClaimVerdict, MeasuredValue};
use super::scope::Scope;
use super::uncertainty::{spread, uncertainty};
use crate::report::group::{Group, Stat, repeats};
use crate::spec::{Expected, Measure, SpecError};
use crate::text::format::{self, ABSENT};
use crate::text::{Mistake, Unit, quoted};

/// Judges every claim by the groups of a study.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn judge(claims: &[BoundClaim], groups: &[Group]) -> Result<Vec<ClaimResult>, SpecError> {
    let repeats = repeats(groups);
    claims.iter().map(|claim| judge_one(claim, groups, &repeats)).collect()
}

fn judge_one(bound: &BoundClaim, groups: &[Group], repeats: &[Vec<Group>]) -> Result<ClaimResult, SpecError> {
    let claim = &bound.claim;
    let scope = Scope::new(groups, &bound.groups);
    let means = evaluate(bound, &scope)?;
    // A single repeat has fewer rows, which the expression may count.
    let repeats = if scope.read_means_only() { repeats } else { &[] };
    let repeats = repeats
        .iter()
        .map(|groups| evaluate(bound, &Scope::new(groups, &bound.groups)));
    let repeats = repeats.collect::<Result<Vec<Evaluation>, SpecError>>()?;
    let (verdict, why) = match means.holds {
        None => (ClaimVerdict::Untested, scope.missing()),
        Some(holds) => match uncertainty(bound, &scope, &means, holds, &repeats)? {
            Some(why) => (ClaimVerdict::Undecided, Some(why)),
            None if holds => (ClaimVerdict::Supported, None),
            None => (ClaimVerdict::Refuted, None),
        },
    };
    let measured = |(name, measure): (&String, &Measure)| {
        let mean = means.values.get(name);
        let spread = mean.and_then(|mean| spread(mean, name, &repeats));
        let text = mean
            .map_or(Ok(ABSENT.to_owned()), |mean| with_spread(mean, spread, measure))
            .map_err(|mistake| bound.error(&format!("measured.{name}.value"), &measure.value, mistake))?;
        Ok(MeasuredValue {
            name: name.clone(),
            text,
            value: measure.value.clone(),
        })
    };
    Ok(ClaimResult {
        number: bound.index + 1,
        claim: claim.claim.clone(),
        source: claim.source.clone(),
        note: claim.note.clone(),
        verdict,
        expected: match verdict {
            ClaimVerdict::Supported => claim.expect == Expected::Supported,
            ClaimVerdict::Refuted => claim.expect == Expected::Refuted,
            ClaimVerdict::Undecided => true,
            ClaimVerdict::Untested => false,
        },
        holds: claim.holds.clone(),
        measured: claim.measured.iter().map(measured).collect::<Result<_, SpecError>>()?,
        cells: scope.read_cells(),
        columns: scope.read_columns(),
        why,
        place: claim.origin.to_string(),
    })
}

/// A value with its unit, and with the lowest and the highest if repeats differ.
fn with_spread(mean: &Value, spread: Option<Stat>, measure: &Measure) -> Result<String, Mistake> {
    let text = with_unit(mean, measure)?;
    let ends = spread.map(|stat| [stat.min, stat.max].map(|number| in_unit(number, measure)));
    Ok(match ends {
        Some([low, high]) if low != high => format!("{text} ({low} to {high})"),
        _ => text,
    })
}

/// A value with its unit.
fn with_unit(value: &Value, measure: &Measure) -> Result<String, Mistake> {
    let number = |value: &Value| Some(in_unit(f64::try_from(value.clone()).ok()?, measure));
    let suffix = measure.unit.suffix();
    match value.kind() {
        ValueKind::Number => number(value).map(|text| text + &suffix),
        ValueKind::Bool => Some(value.to_string()),
        ValueKind::String if measure.unit == Unit::Plain => Some(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .ok()
            .and_then(|items| items.map(|item| number(&item)).collect::<Option<Vec<_>>>())
            .map(|items| items.join(" · ") + &suffix),
        _ => None,
    }
    .ok_or_else(|| {
        let (value, unit) = (quoted(&value.to_string()), quoted(measure.unit.name()));
        Mistake::new(format!("the expression gives {value}, and {unit} is a unit of numbers"))
    })
}

/// A number without its unit. A whole number without a unit has no decimals.
fn in_unit(number: f64, measure: &Measure) -> String {
    let is_count = measure.unit == Unit::Plain && number.fract() == 0.0;
    let default = if is_count { 0 } else { measure.unit.decimals() };
    format::in_unit(number.into(), measure.unit, measure.decimals.unwrap_or(default))
}
