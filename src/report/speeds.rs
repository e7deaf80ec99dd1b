//! The judgement on measured speeds: the noise that forbids to compare them.

use serde::Serialize;

use super::group::Group;
use crate::text::format::percent;

/// The column of speeds.
pub(crate) const SPEED: &str = "tokens_per_second";

/// The column of the relative spread of a training's steps.
const SPREAD: &str = "step_seconds_spread";

/// Speeds that scatter more are not compared.
const MOST_NOISE: f64 = 0.1;

/// The judgement on the speeds of a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Speeds {
    /// False if the noise of a configuration's speed forbids to compare it with others.
    pub comparable: bool,
    /// A sentence: why they are not comparable. `None` if they are.
    pub remark: Option<String>,
}

/// The judgement on the speeds of these groups.
pub(crate) fn speeds(groups: &[Group]) -> Speeds {
    let most = groups.iter().filter_map(noise).fold(0.0, f64::max);
    let is_noisy = most > MOST_NOISE;
    let remark = || {
        format!(
            "Speeds are not to be compared: the steps or the repeats of a configuration differ by up to {}.",
            percent(most.into())
        )
    };
    Speeds {
        comparable: !is_noisy,
        remark: is_noisy.then(remark),
    }
}

/// The relative spread of a group's speed over its steps or its repeats; `None` if neither is known.
pub(crate) fn noise(group: &Group) -> Option<f64> {
    let speed = group.stats.get(SPEED).copied().flatten();
    let speed = speed.filter(|speed| speed.mean.is_finite() && speed.mean > 0.0)?;
    let measured = group.cells.iter().filter(|cell| cell.is_ok());
    let steps = measured.filter_map(|cell| cell.number(SPREAD).filter(|spread| spread.is_finite()));
    let repeats = speed.deviation.map(|deviation| deviation / speed.mean);
    steps.chain(repeats).reduce(f64::max)
}
