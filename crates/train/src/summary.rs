//! The figures of a run, from its steps.

use base::quantile;
use records::{Forgetting, LeftOut, Measured, Profile, Step};

use super::memory_meter::LoopMemory;
use super::trainer::Evaluation;

/// Steps at the start of a run that speeds are not taken from. The first one maps pages and makes the optimizer's
/// state; the second one still fills caches.
const WARM_UP: usize = 2;

/// What is known of a run apart from its steps.
#[derive(Default)]
pub(super) struct Surroundings {
    /// If epochs decide how long it is.
    pub(super) steps_per_epoch: Option<usize>,
    pub(super) load_seconds: f64,
    pub(super) parameter_count: u64,
    pub(super) trainable_count: u64,
    pub(super) samples_left_out: Option<LeftOut>,
    pub(super) evaluation: Option<Evaluation>,
    pub(super) forgetting: Option<Forgetting>,
    pub(super) adapter_file_bytes: Option<u64>,
    pub(super) profile: Option<Profile>,
    /// Steps after which another process went on.
    pub(super) resumed: Vec<usize>,
}

/// The figures of a run: medians over its timed steps and peaks over the loop.
pub(super) fn summarise(steps: &[Step], memory: LoopMemory, run: Surroundings) -> Measured {
    let tokens: usize = steps.iter().map(|step| step.tokens).sum();
    let at_ends = || steps.iter().filter_map(|step| step.allocated_bytes);
    let timed = timed(steps, &run.resumed);
    let peaks = memory.peaks.clone().unwrap_or_default();
    let offloads = memory.host_peak.is_some();
    Measured {
        steps: steps.len(),
        resumed_steps: run.resumed,
        loss_first: steps.first().map_or(f64::NAN, |step| step.loss),
        loss_last: steps.last().map_or(f64::NAN, |step| step.loss),
        loss_eval: run.evaluation.as_ref().map(|evaluation| evaluation.loss),
        accuracy_eval: run.evaluation.and_then(|evaluation| evaluation.accuracy),
        forgetting: run.forgetting,
        samples_left_out: run.samples_left_out,
        steps_timed: Some(timed.len()),
        step_seconds_median: median(timed.iter().map(|step| step.seconds)),
        step_seconds_spread: spread(timed.iter().map(|step| step.seconds / step.tokens as f64)),
        tokens_per_second: median(timed.iter().map(|step| step.tokens as f64 / step.seconds)),
        real_tokens_per_second: real_speed(&timed),
        train_seconds: steps.iter().map(|step| step.seconds).sum(),
        load_seconds: run.load_seconds,
        tokens,
        real_tokens: steps.iter().map(|step| step.real_tokens).sum(),
        allocated_peak_bytes: memory.allocated_peak,
        allocated_mean_bytes: memory.allocated_mean(),
        allocated_min_bytes: at_ends().min(),
        memory_efficiency: efficiency(at_ends().min(), at_ends().max()),
        system_used_peak_percent: steps
            .iter()
            .filter_map(|step| step.system_used_percent)
            .max_by(f64::total_cmp),
        emptied_mean_bytes: emptied_mean(steps),
        host_allocated_peak_bytes: memory.host_peak,
        copied_mean_bytes: offloads.then(|| memory.copied / steps.len().max(1) as u64),
        copy_wait_seconds_mean: offloads.then(|| memory.waited.as_secs_f64() / steps.len().max(1) as f64),
        reserved_peak_bytes: memory.reserved_peak,
        process_peak_bytes: memory.process_peak,
        process_peak_total_bytes: memory.process_peak_total,
        ranks: Vec::new(),
        allocated_peak_phase: memory.peaks.map(|peaks| peaks.phase),
        allocated_peak_module: peaks.module,
        allocated_peak_by_epoch: run
            .steps_per_epoch
            .and_then(|steps_per_epoch| by_epoch(steps, steps_per_epoch)),
        allocated_peak_by_category: peaks.by_category,
        allocated_peak_in_phase: peaks.in_phase,
        parameter_count: run.parameter_count,
        trainable_count: run.trainable_count,
        adapter_file_bytes: run.adapter_file_bytes,
        profile: run.profile,
        page_faults: memory.page_faults,
        page_faults_per_step_median: timed
            .iter()
            .map(|step| step.page_faults.map(|faults| faults as f64))
            .collect::<Option<Vec<_>>>()
            .map(|faults| median(faults.into_iter())),
    }
}

/// The steps that speeds are taken from: not those that warm a process up, or the last one of fewer.
fn timed<'a>(steps: &'a [Step], resumed: &[usize]) -> Vec<&'a Step> {
    let warms_up = |index: &usize| {
        let mut begins = std::iter::once(&0).chain(resumed);
        begins.any(|begin| (*begin..begin + WARM_UP).contains(index))
    };
    let timed: Vec<&Step> = steps
        .iter()
        .enumerate()
        .filter(|(index, _)| !warms_up(index))
        .map(|(_, step)| step)
        .collect();
    match timed.is_empty() {
        true => steps.last().into_iter().collect(),
        false => timed,
    }
}

/// The least over the most; `None` if nothing was ever live.
fn efficiency(least: Option<u64>, most: Option<u64>) -> Option<f64> {
    let most = most.filter(|&most| most > 0)?;
    Some(least? as f64 / most as f64)
}

/// Mean bytes by which the resident set fell when the cache was returned.
fn emptied_mean(steps: &[Step]) -> Option<u64> {
    let emptied = steps.iter().filter_map(|step| step.empty_cache.as_ref());
    let fell: Option<Vec<u64>> = emptied
        .map(|emptied| {
            Some(
                emptied
                    .process_before_bytes?
                    .saturating_sub(emptied.process_after_bytes?),
            )
        })
        .collect();
    let fell = fell?;
    let sum: u64 = fell.iter().sum();
    sum.checked_div(fell.len() as u64)
}

/// The median of the steps' tokens without padding over their time; `None` if a step did not count them.
fn real_speed(timed: &[&Step]) -> Option<f64> {
    let speed = |step: &&Step| Some(step.real_tokens? as f64 / step.seconds);
    let speeds: Vec<f64> = timed.iter().map(speed).collect::<Option<_>>()?;
    Some(median(speeds.into_iter()))
}

/// The highest peak of each epoch's steps; `None` if a peak was not measured.
fn by_epoch(steps: &[Step], steps_per_epoch: usize) -> Option<Vec<u64>> {
    let epochs = steps.chunks(steps_per_epoch.max(1));
    let peak = |epoch: &[Step]| {
        let peaks: Option<Vec<u64>> = epoch.iter().map(|step| step.allocated_peak_bytes).collect();
        peaks?.into_iter().max()
    };
    epochs.map(peak).collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// The interquartile range over the median: half of the values lie within it. One value says nothing.
fn spread(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values = sorted(values);
    let quartile = |share| quantile(&values, share);
    (values.len() > 1).then(|| (quartile(0.75) - quartile(0.25)) / quartile(0.5))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use records::sample;

    use super::*;

    fn figures(steps: &[Step], steps_per_epoch: Option<usize>) -> Measured {
        let run = Surroundings {
            steps_per_epoch,
            ..Surroundings::default()
        };
        summarise(steps, LoopMemory::default(), run)
    }

    #[test]
    fn the_first_two_steps_are_not_timed_if_there_are_more() {
        let timed = |seconds: &[f64]| {
            let step = |&seconds: &f64| Step {
                seconds,
                ..sample::step(1)
            };
            let measured = figures(&seconds.iter().map(step).collect::<Vec<_>>(), None);
            (measured.steps_timed, measured.step_seconds_median)
        };
        assert_eq!(timed(&[9.0]), (Some(1), 9.0));
        assert_eq!(timed(&[9.0, 4.0]), (Some(1), 4.0));
        assert_eq!(timed(&[9.0, 4.0, 1.0]), (Some(1), 1.0));
        assert_eq!(timed(&[9.0, 4.0, 1.0, 2.0, 7.0, 3.0, 5.0]), (Some(5), 3.0));
    }

    #[test]
    fn the_first_two_steps_of_each_process_are_not_timed() {
        let timed = |count: usize, resumed: &[usize]| -> Vec<usize> {
            let steps: Vec<Step> = (1..=count).map(sample::step).collect();
            timed(&steps, resumed).iter().map(|step| step.step).collect()
        };
        assert_eq!(timed(9, &[]), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(timed(9, &[4, 8]), [3, 4, 7, 8]);
        assert_eq!(timed(3, &[1]), [3]);
        assert_eq!(timed(3, &[3]), [3], "nothing was left but the evaluation");
    }

    #[test]
    fn the_spread_is_of_the_middle_half_of_the_seconds_a_token() {
        let spread = |steps: &[(usize, f64)]| {
            let warm_up = [(512, 90.0); WARM_UP];
            let step = |&(tokens, seconds): &(usize, f64)| Step {
                tokens,
                seconds,
                ..sample::step(1)
            };
            let steps: Vec<Step> = warm_up.iter().chain(steps).map(step).collect();
            figures(&steps, None).step_seconds_spread
        };
        assert_eq!(spread(&[(512, 1.0)]), None);
        assert_eq!(spread(&[(512, 1.0), (512, 1.0)]), Some(0.0));
        // Quartiles 3 and 5 of a median of 4; the outlier moves neither.
        assert_eq!(
            spread(&[(1, 1.0), (1, 3.0), (1, 4.0), (1, 5.0), (1, 1000.0)]),
            Some(0.5)
        );
        assert_eq!(
            spread(&[(8, 2.0), (16, 4.0), (32, 8.0)]),
            Some(0.0),
            "longer steps are no noise"
        );
    }

    #[test]
    fn each_epoch_has_the_peak_of_its_steps() {
        let by_epoch = |peaks: &[Option<u64>], steps_per_epoch| {
            let step = |&allocated_peak_bytes: &Option<u64>| Step {
                allocated_peak_bytes,
                ..sample::step(1)
            };
            figures(&peaks.iter().map(step).collect::<Vec<_>>(), steps_per_epoch).allocated_peak_by_epoch
        };
        let peaks = [Some(5), Some(9), Some(7), Some(3), Some(4)];
        assert_eq!(
            by_epoch(&peaks, Some(2)),
            Some(vec![9, 7, 4]),
            "the last one is cut short"
        );
        assert_eq!(by_epoch(&peaks, None), None);
        assert_eq!(by_epoch(&[Some(5), None], Some(2)), None, "not measured");
    }

    #[test]
    fn page_faults_are_those_of_the_timed_steps() {
        let faults = |steps: &[Option<u64>]| {
            let step = |&page_faults: &Option<u64>| Step {
                page_faults,
                ..sample::step(1)
            };
            figures(&steps.iter().map(step).collect::<Vec<_>>(), None).page_faults_per_step_median
        };
        assert_eq!(faults(&[Some(9000)]), Some(9000.0));
        assert_eq!(faults(&[Some(9000), Some(60), Some(0), Some(6)]), Some(3.0));
        assert_eq!(faults(&[Some(9000), None]), None);
    }
}
