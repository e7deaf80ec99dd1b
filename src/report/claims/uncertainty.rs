//! The uncertainty that repeats leave in a verdict.

use minijinja::Value;
use minijinja::value::ValueKind;

use super::bound::BoundClaim;
use super::evaluate::{Evaluation, holds_with};
use super::scope::Scope;
use crate::report::group::Stat;
use crate::spec::SpecError;

/// Sample standard deviations by which a value may differ from its mean.
const DEVIATIONS: f64 = 2.0;

/// The reason why the `means` do not decide a claim; `None` if they do. `holds` is the condition's truth for the means,
/// and `repeats` has an evaluation for each seed.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn uncertainty(
    claim: &BoundClaim,
    scope: &Scope,
    means: &Evaluation,
    holds: bool,
    repeats: &[Evaluation],
) -> Result<Option<String>, SpecError> {
    let not = if holds { "" } else { "not " };
    let held = repeats.iter().filter(|repeat| repeat.holds == Some(true)).count();
    if held != if holds { repeats.len() } else { 0 } {
        let repeats = repeats.len();
        return Ok(Some(format!(
            "it does {not}hold for the means, and in {held} of {repeats} repeats alone"
        )));
    }
    for (name, mean) in &means.values {
        let Some(stat) = spread(mean, name, repeats) else {
            continue;
        };
        let shift = DEVIATIONS * stat.deviation.unwrap_or(0.0);
        for (shifted, direction) in [(stat.mean - shift, "lower"), (stat.mean + shift, "higher")] {
            let mut values = means.values.clone();
            values.insert(name.clone(), shifted.into());
            if shift > 0.0 && holds_with(claim, scope, values)? == Some(!holds) {
                return Ok(Some(format!(
                    "it does {not}hold, and the other way round with {name} two standard deviations {direction}"
                )));
            }
        }
    }
    Ok(None)
}

/// The statistic of a value over the repeats, with the `mean` that is judged; `None` if it is not a number.
pub(crate) fn spread(mean: &Value, name: &str, repeats: &[Evaluation]) -> Option<Stat> {
    let number = |value: &Value| f64::try_from(value.clone()).ok();
    let numbers: Vec<f64> = repeats
        .iter()
        .filter_map(|repeat| number(repeat.values.get(name)?))
        .collect();
    let mean = number(mean).filter(|_| mean.kind() == ValueKind::Number)?;
    Stat::of(&numbers).map(|stat| Stat { mean, ..stat })
}
