//! The learning rate over the steps, in transformers' words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::StepsOrRatio;
use crate::invalid::{Invalid, number};

/// The learning rate after the warm-up: the names of transformers' `SchedulerType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LrScheduler {
    /// Falls linearly to 0.
    Linear,
    /// Falls to 0 along half a cosine.
    Cosine,
    /// Falls to 0 along half a cosine, several times.
    CosineWithRestarts,
    /// Falls to `lr_end` as a power of what is left of the training.
    Polynomial,
    /// Stays, from the first step on: it has no warm-up.
    Constant,
    /// Stays.
    ConstantWithWarmup,
    /// Falls with the square root of the steps.
    InverseSqrt,
    /// Falls to `min_lr` along half a cosine.
    CosineWithMinLr,
    /// The same, counting steps from 1, with a start of its own for the warm-up.
    CosineWarmupWithMinLr,
    /// Stays, and falls in the last steps.
    WarmupStableDecay,
    /// Falls when the loss on held-out data does, which is not computed while a cell is trained: known so that its error
    /// can say so.
    #[schemars(skip)]
    ReduceLrOnPlateau,
    /// As [`Self::ReduceLrOnPlateau`].
    #[schemars(skip)]
    Greedy,
}

/// Numbers of some schedules: transformers' `lr_scheduler_kwargs`, with its defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LrSchedulerKwargs {
    /// Waves of a cosine, of which half a one falls to its lowest (default: 0.5); or times that cosine_with_restarts falls
    /// (default: 1).
    pub num_cycles: Option<f64>,
    /// Exponent of polynomial. Default: 1.
    pub power: Option<f64>,
    /// Learning rate at polynomial's end. Default: 1e-7.
    pub lr_end: Option<f64>,
    /// Steps of inverse_sqrt, after four times as many of which the rate is half the peak. Default: those of the warm-up,
    /// or 10000 without one.
    #[schemars(range(min = 1))]
    pub timescale: Option<usize>,
    /// Lowest learning rate of cosine_with_min_lr and cosine_warmup_with_min_lr.
    pub min_lr: Option<f64>,
    /// The same as a share of learning_rate. These schedules need one of the two.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_lr_rate: Option<f64>,
    /// Share of learning_rate that the warm-up of cosine_warmup_with_min_lr begins with. Default: one over its steps.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub warmup_lr_rate: Option<f64>,
    /// Steps in which warmup_stable_decay falls. It needs them.
    pub num_decay_steps: Option<usize>,
    /// Steps in which it stays. Default: those that are left; if they are fewer, the rate ends at its lowest.
    pub num_stable_steps: Option<usize>,
    /// Its lowest rate as a share of learning_rate, before the warm-up and after the fall. Default: 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_lr_ratio: Option<f64>,
    /// Form of its warm-up: linear, cosine or 1-sqrt. Default: linear.
    pub warmup_type: Option<Ramp>,
    /// Form of its fall: linear, cosine or 1-sqrt. Default: cosine.
    pub decay_type: Option<Ramp>,
}

/// The form of a rise or a fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ramp {
    /// A line.
    Linear,
    /// Half a cosine.
    Cosine,
    /// One less a square root.
    #[serde(rename = "1-sqrt")]
    OneMinusSqrt,
}

impl LrScheduler {
    /// True if it has these numbers.
    pub const fn takes(self, kwarg: Kwarg) -> bool {
        use Kwarg as K;
        match self {
            Self::Linear | Self::Constant | Self::ConstantWithWarmup | Self::ReduceLrOnPlateau | Self::Greedy => false,
            Self::Cosine | Self::CosineWithRestarts => matches!(kwarg, K::NumCycles),
            Self::Polynomial => matches!(kwarg, K::Power | K::LrEnd),
            Self::InverseSqrt => matches!(kwarg, K::Timescale),
            Self::CosineWithMinLr => matches!(kwarg, K::NumCycles | K::MinLr),
            Self::CosineWarmupWithMinLr => matches!(kwarg, K::NumCycles | K::MinLr | K::WarmupLrRate),
            Self::WarmupStableDecay => matches!(kwarg, K::NumCycles | K::StableDecay),
        }
    }
}

/// The keys of [`LrSchedulerKwargs`] by the schedules that take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kwarg {
    /// `num_cycles`.
    NumCycles,
    /// `power`.
    Power,
    /// `lr_end`.
    LrEnd,
    /// `timescale`.
    Timescale,
    /// `min_lr` and `min_lr_rate`.
    MinLr,
    /// `warmup_lr_rate`.
    WarmupLrRate,
    /// Those of `warmup_stable_decay` alone.
    StableDecay,
}

/// The learning rate over the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduleOptions {
    /// The peak.
    pub learning_rate: f64,
    /// The curve after the warm-up.
    pub scheduler: LrScheduler,
    /// Part of the steps over which the rate rises linearly from 0.
    pub warmup_ratio: f64,
    /// Those steps, in its place.
    pub warmup_steps: Option<StepsOrRatio>,
    /// Numbers of the curve.
    pub kwargs: LrSchedulerKwargs,
}

impl ScheduleOptions {
    /// Steps of warm-up out of so many.
    pub fn warmup(&self, steps: usize) -> usize {
        match self.warmup_steps {
            Some(StepsOrRatio(warmup)) if warmup > 0.0 => StepsOrRatio(warmup).of(steps),
            _ => (steps as f64 * self.warmup_ratio).ceil() as usize,
        }
    }

    /// Checks the numbers of the curve.
    pub fn check_values(&self, found: &mut Vec<Invalid>) {
        let name = |key: &str| format!("lr_scheduler_kwargs.{key}");
        let kwargs = &self.kwargs;
        let mut check = |key: &str, value: Option<f64>, holds: fn(f64) -> bool, range: &str| {
            if let Some(value) = value {
                found.extend(number(&name(key), value, holds(value), range).err());
            }
        };
        check(
            "num_cycles",
            kwargs.num_cycles,
            |cycles| (0.0..=1e6).contains(&cycles),
            "from 0 to 1e6",
        );
        check(
            "power",
            kwargs.power,
            |power| power > 0.0 && power <= 100.0,
            "more than 0 and at most 100",
        );
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        check("min_lr_rate", kwargs.min_lr_rate, is_share, "from 0 to 1");
        check("warmup_lr_rate", kwargs.warmup_lr_rate, is_share, "from 0 to 1");
        check("min_lr_ratio", kwargs.min_lr_ratio, is_share, "from 0 to 1");
        let timescale = kwargs.timescale.map(|steps| steps as f64);
        check("timescale", timescale, |steps| steps >= 1.0, "at least 1");
        let rate = self.learning_rate;
        for (key, lowest) in [("lr_end", kwargs.lr_end), ("min_lr", kwargs.min_lr)] {
            if let Some(lowest) = lowest.filter(|lowest| !(*lowest >= 0.0 && *lowest < rate)) {
                let message = format!("must be from 0 to less than the learning rate, got {lowest}");
                found.push(Invalid::new(name(key), message).with("learning_rate"));
            }
        }
        let scheduler = self.scheduler;
        if scheduler.takes(Kwarg::MinLr) {
            match (kwargs.min_lr, kwargs.min_lr_rate) {
                (None, None) => {
                    let invalid = Invalid::new("lr_scheduler_type", "this schedule needs its lowest rate");
                    found.push(invalid.help(
                        "write `lr_scheduler_kwargs: {min_lr_rate: 0.1}`, a share of learning_rate, or `min_lr`",
                    ));
                }
                (Some(_), Some(_)) => {
                    let invalid = Invalid::new(name("min_lr"), "the lowest rate is given as a share, too");
                    found.push(invalid.with("lr_scheduler_kwargs.min_lr_rate").help("keep one of them"));
                }
                _ => {}
            }
        }
        if scheduler == LrScheduler::WarmupStableDecay && kwargs.num_decay_steps.is_none() {
            let invalid = Invalid::new("lr_scheduler_type", "this schedule needs the steps in which it falls");
            found.push(invalid.help("write `lr_scheduler_kwargs: {num_decay_steps: ...}`"));
        }
        if matches!(scheduler, LrScheduler::ReduceLrOnPlateau | LrScheduler::Greedy) {
            let message = "it follows the loss on held-out data, which is computed once, at the end";
            let invalid = Invalid::new("lr_scheduler_type", message);
            found.push(invalid.help("write another, such as `linear`, `cosine` or `constant_with_warmup`"));
        }
    }
}
