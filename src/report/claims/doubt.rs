//! Whether the repeats of a claim's cells leave its verdict in doubt.

use minijinja::Value;
use minijinja::value::ValueKind;

use super::Posed;
use super::judging::{Evaluated, holds_with};
use super::scope::Scope;
use crate::report::group::Stat;
use crate::spec::SpecError;

/// How far from its mean a value may be without being another: sample standard deviations of its repeats.
const DEVIATIONS: f64 = 2.0;

/// Why a claim that does or does not hold for the means is not decided by them; none where it is. `alone` is what each
/// repeat gives.
///
/// # Errors
/// An expression that is wrong, with its place in the spec.
pub fn doubt(
    posed: &Posed,
    scope: &Scope,
    whole: &Evaluated,
    holds: bool,
    alone: &[Evaluated],
) -> Result<Option<String>, SpecError> {
    let not = if holds { "" } else { "not " };
    let held = alone.iter().filter(|repeat| repeat.holds == Some(true)).count();
    if held != if holds { alone.len() } else { 0 } {
        let repeats = alone.len();
        return Ok(Some(format!(
            "it does {not}hold for the means, and in {held} of {repeats} repeats alone"
        )));
    }
    for (name, mean) in &whole.values {
        let Some(stat) = spread(mean, name, alone) else {
            continue;
        };
        let by = DEVIATIONS * stat.deviation.unwrap_or(0.0);
        for (moved, direction) in [(stat.mean - by, "lower"), (stat.mean + by, "higher")] {
            let mut values = whole.values.clone();
            values.insert(name.clone(), moved.into());
            if by > 0.0 && holds_with(posed, scope, values)? == Some(!holds) {
                return Ok(Some(format!(
                    "it does {not}hold, and the other way round with {name} two standard deviations {direction}"
                )));
            }
        }
    }
    Ok(None)
}

/// A number over the repeats, about the `mean` that is judged; none of other values.
pub fn spread(mean: &Value, name: &str, alone: &[Evaluated]) -> Option<Stat> {
    let number = |value: &Value| f64::try_from(value.clone()).ok();
    let numbers: Vec<f64> = alone
        .iter()
        .filter_map(|repeat| number(repeat.values.get(name)?))
        .collect();
    let mean = number(mean).filter(|_| mean.kind() == ValueKind::Number)?;
    Stat::of(&numbers).map(|stat| Stat { mean, ..stat })
}
