//! The learning rate over the steps: transformers' `get_{linear,cosine,constant}_schedule_with_warmup`.

use options::{LrScheduler, ScheduleOptions};

/// The learning rate at `step` (from 0) of `steps`.
pub fn learning_rate(options: &ScheduleOptions, step: usize, steps: usize) -> f64 {
    let factor = factor(options.scheduler, step, steps, options.warmup_ratio);
    options.learning_rate * factor
}

/// The factor on the peak learning rate.
fn factor(scheduler: LrScheduler, step: usize, steps: usize, warmup_ratio: f64) -> f64 {
    let warmup = (steps as f64 * warmup_ratio).ceil() as usize;
    if step < warmup {
        return step as f64 / warmup as f64;
    }
    let progress = (step - warmup) as f64 / (steps - warmup).max(1) as f64;
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
        let rates: Vec<f64> = (0..5).map(|step| factor(LrScheduler::Linear, step, 5, 0.4)).collect();
        assert_eq!(rates, [0.0, 0.5, 1.0, 1.0 - 1.0 / 3.0, 1.0 - 2.0 / 3.0]);
    }

    #[test]
    fn cosine_is_half_way_in_the_middle() {
        assert_eq!(factor(LrScheduler::Cosine, 0, 10, 0.0), 1.0);
        assert!((factor(LrScheduler::Cosine, 5, 10, 0.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn constant_stays_after_the_warmup() {
        assert_eq!(factor(LrScheduler::Constant, 0, 10, 0.2), 0.0);
        assert_eq!(factor(LrScheduler::Constant, 9, 10, 0.2), 1.0);
    }
}
