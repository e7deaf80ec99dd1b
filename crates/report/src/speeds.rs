//! The judgement on measured speeds: the noise that forbids to compare them.

use base::text::format::percent;
use serde::Serialize;

use super::group::Group;

/// Speeds by all tokens that go through the model.
const ALL: Speed = Speed {
    column: "tokens_per_second",
    unit: "tokens/s",
};

/// Speeds without padding and separators.
const REAL: Speed = Speed {
    column: "real_tokens_per_second",
    unit: "real tokens/s",
};

/// The column of the relative spread of a training's steps.
const SPREAD: &str = "step_seconds_spread";

/// The columns of medians over a run's timed steps.
const MEDIANS: [&str; 3] = ["step_seconds_median", "tokens_per_second", "real_tokens_per_second"];

/// The standard error of a median, in interquartile ranges of the values over the root of their number, if they scatter
/// normally: 1.2533 deviations of a 1.349th each.
const ERROR_OF_MEDIAN: f64 = 0.929;

/// Speeds that scatter more are not compared.
pub(crate) const MOST_NOISE: f64 = 0.1;

/// A column of speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Speed {
    /// The column's name.
    pub column: &'static str,
    /// Its unit, for people.
    pub unit: &'static str,
}

/// The judgement on the speeds of a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Speeds {
    /// The speeds that are compared.
    pub of: Speed,
    /// False if the noise of a configuration's speed forbids to compare it with others, or none was measured.
    pub comparable: bool,
    /// A sentence: why they are not comparable. `None` if they are.
    pub remark: Option<String>,
}

/// The judgement on the speeds of these groups.
pub(crate) fn speeds<'g>(groups: impl IntoIterator<Item = &'g Group> + Clone) -> Speeds {
    let of = compared(groups.clone());
    if are_unmeasured(groups.clone()) {
        return Speeds {
            of,
            comparable: false,
            remark: Some("Speeds were not measured, as cells may share the machine.".into()),
        };
    }
    let noises = groups.into_iter().filter_map(|group| noise(group, of));
    let most = noises.fold(0.0, f64::max);
    let is_noisy = most > MOST_NOISE;
    let remark = || {
        format!(
            "Speeds are not to be compared: the steps or the repeats of a configuration differ by up to {}.",
            percent(most.into())
        )
    };
    Speeds {
        of,
        comparable: !is_noisy,
        remark: is_noisy.then(remark),
    }
}

/// True if cells trained well, and none has a speed.
fn are_unmeasured<'g>(groups: impl IntoIterator<Item = &'g Group>) -> bool {
    let cells = groups.into_iter().flat_map(|group| &group.cells);
    let mut trained = cells.filter(|cell| cell.is_ok()).peekable();
    trained.peek().is_some() && trained.all(|cell| cell.number(ALL.column).is_none())
}

/// The speeds of real tokens if some configuration has padding or separators and these speeds are known of all: a model
/// learns nothing from the others.
fn compared<'g>(groups: impl IntoIterator<Item = &'g Group> + Clone) -> Speed {
    let mean = |group: &Group, column: &str| Some(group.stats.get(column).copied()??.mean);
    let measured = || {
        let groups = groups.clone().into_iter();
        groups.filter(|group| mean(group, ALL.column).is_some())
    };
    let is_padded = |group: &Group| mean(group, "real_tokens") < mean(group, "tokens");
    let all_known = measured().all(|group| mean(group, REAL.column).is_some());
    if all_known && measured().any(is_padded) {
        REAL
    } else {
        ALL
    }
}

/// The relative standard error of a median over the steps of a group's run; `None` if it is not one, or the spread of the
/// steps is not known.
pub(crate) fn error_of_median(group: &Group, column: &str) -> Option<f64> {
    let (spread, steps) = (group.mean(SPREAD)?, group.mean("steps_timed")?);
    (MEDIANS.contains(&column) && steps >= 2.0).then(|| ERROR_OF_MEDIAN * spread / steps.sqrt())
}

/// The relative spread of a group's speed over its steps or its repeats; `None` if neither is known.
pub(crate) fn noise(group: &Group, of: Speed) -> Option<f64> {
    let speed = group.stats.get(of.column).copied().flatten();
    let speed = speed.filter(|speed| speed.mean.is_finite() && speed.mean > 0.0)?;
    let measured = group.cells.iter().filter(|cell| cell.is_ok());
    let steps = measured.filter_map(|cell| cell.number(SPREAD).filter(|spread| spread.is_finite()));
    let repeats = speed.deviation.map(|deviation| deviation / speed.mean);
    steps.chain(repeats).reduce(f64::max)
}
