//! What is known of the numbers of schedules.

use options::Kwarg;

use super::acts::{Move::*, candle};
use super::facts::{Facts, Idle};

/// A number that some schedules take: its name, which they are, and a value that acts in a cell.
macro_rules! number {
    ($key:literal, $kwarg:ident, $example:literal, $base:expr, $value:literal) => {
        (
            $key,
            Facts {
                heeded: |cell| cell.lr_scheduler_type.takes(Kwarg::$kwarg),
                idle: Some(Idle::by("lr_scheduler_type", "this schedule has no such number")),
                ..Facts::acting(&[candle($base, $value, &[Loss])])
                    .example($example)
                    .of_training()
            },
        )
    };
}

const MIN_LR: &str = "lr_scheduler_type: cosine_with_min_lr, lr_scheduler_kwargs: {min_lr: 1.0e-5}";
const MIN_LR_RATE: &str = "lr_scheduler_type: cosine_with_min_lr, lr_scheduler_kwargs: {min_lr_rate: 0.1}";
const WARM: &str =
    "lr_scheduler_type: cosine_warmup_with_min_lr, lr_scheduler_kwargs: {min_lr_rate: 0.1}, warmup_steps: 2";
const DECAY: &str = "lr_scheduler_type: warmup_stable_decay, lr_scheduler_kwargs: {num_decay_steps: 3}";
const WARM_DECAY: &str =
    "lr_scheduler_type: warmup_stable_decay, lr_scheduler_kwargs: {num_decay_steps: 1}, warmup_steps: 2";

/// Of `lr_scheduler_kwargs`.
pub(super) const LR_SCHEDULER_KWARGS: &[(&str, Facts)] = &[
    number!("num_cycles", NumCycles, "0.5", "lr_scheduler_type: cosine", "2"),
    number!("power", Power, "1.0", "lr_scheduler_type: polynomial", "2"),
    number!("lr_end", LrEnd, "0.5", "lr_scheduler_type: polynomial", "5.0e-5"),
    number!("timescale", Timescale, "1", "lr_scheduler_type: inverse_sqrt", "1"),
    number!("min_lr", MinLr, "0.5", MIN_LR, "5.0e-5"),
    number!("min_lr_rate", MinLr, "0.5", MIN_LR_RATE, "0.5"),
    number!("warmup_lr_rate", WarmupLrRate, "0.5", WARM, "0.1"),
    number!("num_decay_steps", StableDecay, "1", DECAY, "2"),
    number!("num_stable_steps", StableDecay, "1", DECAY, "1"),
    number!("min_lr_ratio", StableDecay, "0.5", DECAY, "0.5"),
    number!("warmup_type", StableDecay, "linear", WARM_DECAY, "1-sqrt"),
    number!("decay_type", StableDecay, "cosine", DECAY, "linear"),
];
