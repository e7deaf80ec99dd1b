//! The learning rate over the steps: transformers' `get_{linear,cosine,constant}_schedule_with_warmup`.

use options::{LrScheduler, ScheduleOptions};

/// The learning rate at `step` (from 0) of `steps`.
pub fn learning_rate(options: &ScheduleOptions, step: usize, steps: usize) -> f64 {
    let by_ratio = || (steps as f64 * options.warmup_ratio).ceil() as usize;
    let warmup = options.warmup_steps.filter(|steps| *steps > 0).unwrap_or_else(by_ratio);
    options.learning_rate * factor(options.scheduler, step, steps, warmup)
}

/// The factor on the peak learning rate, with so many steps of warm-up.
fn factor(scheduler: LrScheduler, step: usize, steps: usize, warmup: usize) -> f64 {
    if step < warmup {
        return step as f64 / warmup as f64;
    }
    let progress = (step - warmup) as f64 / steps.saturating_sub(warmup).max(1) as f64;
    match scheduler {
        LrScheduler::Constant => 1.0,
        LrScheduler::Linear => (1.0 - progress).max(0.0),
        LrScheduler::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_falls_from_one_towards_zero_after_the_warmup() {
        let rates: Vec<f64> = (0..5).map(|step| factor(LrScheduler::Linear, step, 5, 2)).collect();
        assert_eq!(rates, [0.0, 0.5, 1.0, 1.0 - 1.0 / 3.0, 1.0 - 2.0 / 3.0]);
    }

    #[test]
    fn cosine_is_half_way_in_the_middle() {
        assert_eq!(factor(LrScheduler::Cosine, 0, 10, 0), 1.0);
        assert!((factor(LrScheduler::Cosine, 5, 10, 0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn constant_stays_after_the_warmup() {
        assert_eq!(factor(LrScheduler::Constant, 0, 10, 2), 0.0);
        assert_eq!(factor(LrScheduler::Constant, 9, 10, 2), 1.0);
    }

    #[test]
    fn steps_of_warmup_stand_in_place_of_their_share() {
        let rates = |warmup_ratio, warmup_steps| -> Vec<f64> {
            let options = ScheduleOptions {
                learning_rate: 2.0,
                scheduler: LrScheduler::Linear,
                warmup_ratio,
                warmup_steps,
            };
            (0..5).map(|step| learning_rate(&options, step, 5)).collect()
        };
        assert_eq!(rates(0.4, None), rates(0.0, Some(2)));
        assert_eq!(rates(0.0, Some(10)), [0.0, 0.2, 0.4, 0.6, 0.8].map(|factor| factor));
    }
}
