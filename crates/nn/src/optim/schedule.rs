//! The learning rate over the steps: the schedules of transformers' `optimization.py`.

use std::f64::consts::PI;

use options::{LrScheduler, LrSchedulerKwargs, Ramp, ScheduleOptions};

/// The learning rate at `step` (from 0) of `steps`.
pub fn learning_rate(options: &ScheduleOptions, step: usize, steps: usize) -> f64 {
    options.learning_rate * factor(options, step, steps)
}

/// The factor on the peak learning rate.
fn factor(options: &ScheduleOptions, step: usize, steps: usize) -> f64 {
    let ScheduleOptions {
        learning_rate: peak,
        scheduler,
        kwargs,
        ..
    } = options;
    let warmup = match scheduler {
        LrScheduler::Constant => 0,
        _ => options.warmup(steps),
    };
    if step < warmup {
        return rise(options, step, warmup);
    }
    let (at, after) = ((step - warmup) as f64, steps.saturating_sub(warmup));
    let progress = at / after.max(1) as f64;
    let cycles = kwargs.num_cycles;
    match scheduler {
        LrScheduler::Constant | LrScheduler::ConstantWithWarmup => 1.0,
        // Schedules that no cell may have.
        LrScheduler::ReduceLrOnPlateau | LrScheduler::Greedy => 1.0,
        LrScheduler::Linear => (1.0 - progress).max(0.0),
        LrScheduler::Cosine => cosine(cycles, progress).max(0.0),
        LrScheduler::CosineWithRestarts if progress >= 1.0 => 0.0,
        LrScheduler::CosineWithRestarts => {
            let in_cycle = (cycles.unwrap_or(1.0) * progress) % 1.0;
            0.5 * (1.0 + (PI * in_cycle).cos())
        }
        LrScheduler::Polynomial => {
            let end = kwargs.lr_end.unwrap_or(1e-7);
            let left = (1.0 - progress).max(0.0);
            ((peak - end) * left.powf(kwargs.power.unwrap_or(1.0)) + end) / peak
        }
        LrScheduler::InverseSqrt => {
            let or_warmup = if warmup > 0 { warmup } else { 10_000 };
            let timescale = kwargs.timescale.unwrap_or(or_warmup) as f64;
            1.0 / ((at + timescale) / timescale).sqrt()
        }
        LrScheduler::CosineWithMinLr => above(lowest(kwargs, *peak), cosine(cycles, progress)),
        LrScheduler::CosineWarmupWithMinLr => {
            let progress = (at + 1.0) / after.max(1) as f64;
            above(lowest(kwargs, *peak), cosine(cycles, progress))
        }
        LrScheduler::WarmupStableDecay => {
            let decay = kwargs.num_decay_steps.unwrap_or(0);
            let stable = kwargs
                .num_stable_steps
                .map_or(after as f64 - decay as f64, |steps| steps as f64);
            let in_decay = at - stable;
            let lowest = kwargs.min_lr_ratio.unwrap_or(0.0);
            if in_decay < 0.0 {
                1.0
            } else if in_decay < decay as f64 {
                let progress = in_decay / decay as f64;
                above(
                    lowest,
                    match kwargs.decay_type.unwrap_or(Ramp::Cosine) {
                        Ramp::Linear => 1.0 - progress,
                        Ramp::Cosine => cosine(cycles, progress),
                        Ramp::OneMinusSqrt => 1.0 - progress.sqrt(),
                    },
                )
            } else {
                lowest
            }
        }
    }
}

/// The factor at a step of the warm-up.
fn rise(options: &ScheduleOptions, step: usize, warmup: usize) -> f64 {
    let kwargs = &options.kwargs;
    let (at, steps) = (step as f64, warmup as f64);
    let progress = at / steps;
    match (options.scheduler, kwargs.warmup_lr_rate) {
        (LrScheduler::CosineWarmupWithMinLr, None) => (at + 1.0) / steps,
        (LrScheduler::CosineWarmupWithMinLr, Some(first)) => first + (1.0 - first) * at / (steps - 1.0).max(1.0),
        (LrScheduler::WarmupStableDecay, _) => {
            let risen = match kwargs.warmup_type.unwrap_or(Ramp::Linear) {
                Ramp::Linear => progress,
                Ramp::Cosine => 0.5 * (1.0 - (PI * progress).cos()),
                Ramp::OneMinusSqrt => 1.0 - (1.0 - progress).sqrt(),
            };
            above(kwargs.min_lr_ratio.unwrap_or(0.0), risen)
        }
        _ => progress,
    }
}

/// A wave that starts at 1, of which half a one falls to 0.
fn cosine(cycles: Option<f64>, progress: f64) -> f64 {
    0.5 * (1.0 + (PI * cycles.unwrap_or(0.5) * 2.0 * progress).cos())
}

/// A factor from 0 to 1 as one from `lowest` to 1.
fn above(lowest: f64, factor: f64) -> f64 {
    factor * (1.0 - lowest) + lowest
}

/// The lowest rate as a share of the peak.
fn lowest(kwargs: &LrSchedulerKwargs, peak: f64) -> f64 {
    kwargs
        .min_lr
        .map(|lowest| lowest / peak)
        .or(kwargs.min_lr_rate)
        .unwrap_or(0.0)
}
