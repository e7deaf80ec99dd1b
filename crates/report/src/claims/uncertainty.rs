//! The uncertainty that repeats leave in a verdict.

use base::text::Dimension;
use minijinja::Value;
use minijinja::value::ValueKind;
use results::columns::dimension;
use spec::SpecError;

use super::bound::BoundClaim;
use super::evaluate::{Evaluation, evaluate, verdict_with};
use super::result::ClaimVerdict;
use super::scope::{Figure, Scope};
use crate::group::Stat;

/// Sample standard deviations by which a value may differ from its mean.
const DEVIATIONS: f64 = 2.0;

/// The part by which a figure of time, of speed, or of what allocators and processes hold may differ between two runs.
const RUN_TO_RUN: f64 = 0.10;

/// The reason why the `means` do not decide a claim; `None` if they do. `verdict` is the one by the means, and
/// `repeats` has an evaluation for each seed.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(super) fn uncertainty(
    claim: &BoundClaim,
    scope: &Scope,
    means: &Evaluation,
    verdict: ClaimVerdict,
    repeats: &[Evaluation],
) -> Result<Option<String>, SpecError> {
    let verdict_name = verdict.name();
    let agreeing = repeats.iter().filter(|repeat| repeat.verdict == Some(verdict)).count();
    if agreeing < repeats.len() {
        let repeats = repeats.len();
        return Ok(Some(format!(
            "it is {verdict_name} by the means, and by {agreeing} of {repeats} repeats alone"
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
            let other = verdict_with(claim, scope, values)?.filter(|other| *other != verdict && shift > 0.0);
            if let Some(other) = other {
                let other = other.name();
                return Ok(Some(format!(
                    "it is {verdict_name}, and {other} with {name} two standard deviations {direction}"
                )));
            }
        }
    }
    single_run(claim, scope, verdict)
}

/// The reason why a single run does not decide a claim: another one would differ enough to change the verdict.
fn single_run(claim: &BoundClaim, scope: &Scope, verdict: ClaimVerdict) -> Result<Option<String>, SpecError> {
    let noisy = |figure: &Figure| differs_between_runs(&figure.column);
    for figure in scope.read_once().into_iter().filter(noisy) {
        for (factor, direction) in [(1.0 - RUN_TO_RUN, "lower"), (1.0 + RUN_TO_RUN, "higher")] {
            let shifted = evaluate(claim, &scope.with_shift(figure.clone(), factor))?;
            if let Some(other) = shifted.verdict.filter(|other| *other != verdict) {
                let (column, label, share) = (&figure.column, &figure.label, 100.0 * RUN_TO_RUN);
                return Ok(Some(format!(
                    "it is {} by a single run, and {} with {column} of {label} {share:.0} % {direction}, as another run may \
                     have it; `repeats: 3` would show it",
                    verdict.name(),
                    other.name(),
                )));
            }
        }
    }
    Ok(None)
}

/// True for a column whose figures differ between equal runs: times and their spread among them. Allocated bytes,
/// counts and losses do not.
fn differs_between_runs(column: &str) -> bool {
    let of = column.strip_suffix("_spread").unwrap_or(column);
    matches!(dimension(of), Dimension::Time | Dimension::Speed)
        || ["reserved_", "process_", "page_faults"]
            .iter()
            .any(|prefix| column.starts_with(prefix))
}

/// The statistic of a value over the repeats, with the `mean` that is judged; `None` if it is not a number.
pub(super) fn spread(mean: &Value, name: &str, repeats: &[Evaluation]) -> Option<Stat> {
    let number = |value: &Value| f64::try_from(value.clone()).ok();
    let numbers: Vec<f64> = repeats
        .iter()
        .filter_map(|repeat| number(repeat.values.get(name)?))
        .collect();
    let mean = number(mean).filter(|_| mean.kind() == ValueKind::Number)?;
    Stat::of(&numbers).map(|stat| Stat { mean, ..stat })
}
