//! The figures of a run, from its steps.

use std::collections::BTreeMap;

use super::memory_meter::LoopMemory;
use crate::results::record::{Measured, Step};

/// The figures of a run: medians over `steps` and peaks over the loop.
pub(super) fn summarise(steps: &[Step], memory: LoopMemory, load_seconds: f64) -> Measured {
    let tokens: usize = steps.iter().map(|step| step.tokens).sum();
    // The first step warms up; it counts only if it is the only one.
    let kept = if steps.len() > 1 { &steps[1..] } else { steps };
    Measured {
        steps: steps.len(),
        loss_first: steps.first().map_or(f64::NAN, |step| step.loss),
        loss_last: steps.last().map_or(f64::NAN, |step| step.loss),
        loss_eval: None,
        accuracy_eval: None,
        step_seconds_median: median(kept.iter().map(|step| step.seconds)),
        tokens_per_second: median(kept.iter().map(|step| step.tokens as f64 / step.seconds)),
        train_seconds: steps.iter().map(|step| step.seconds).sum(),
        load_seconds,
        tokens,
        allocated_peak_bytes: memory.peaks.as_ref().map(|peaks| peaks.allocated),
        allocated_mean_bytes: memory.allocated_mean,
        reserved_peak_bytes: memory.reserved_peak,
        process_peak_bytes: memory.process_peak,
        process_peak_total_bytes: memory.process_peak_total,
        allocated_peak_phase: memory.peaks.as_ref().map(|peaks| peaks.phase.name().to_owned()),
        allocated_peak_by_category: memory.peaks.as_ref().map_or_else(BTreeMap::new, |peaks| {
            peaks
                .by_category
                .iter()
                .map(|(category, bytes)| (category.name().to_owned(), bytes))
                .collect()
        }),
        allocated_peak_in_phase: memory
            .peaks
            .as_ref()
            .map_or_else(BTreeMap::new, |peaks| peaks.in_phase.named()),
        parameter_count: 0,
        trainable_count: 0,
        adapter_file_bytes: None,
        profile: None,
        page_faults: memory.page_faults,
        page_faults_per_step_median: kept
            .iter()
            .map(|step| step.page_faults.map(|faults| faults as f64))
            .collect::<Option<Vec<_>>>()
            .map(|faults| median(faults.into_iter())),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::sample;

    #[test]
    fn the_first_step_counts_only_if_it_is_the_only_one() {
        let step = |page_faults| Step {
            page_faults,
            ..sample::step(1)
        };
        let faults = |steps: &[Option<u64>]| {
            let steps: Vec<Step> = steps.iter().map(|&faults| step(faults)).collect();
            summarise(&steps, LoopMemory::default(), 0.0).page_faults_per_step_median
        };
        assert_eq!(faults(&[Some(9000)]), Some(9000.0));
        assert_eq!(faults(&[Some(9000), Some(3), Some(0), Some(6)]), Some(3.0));
        assert_eq!(faults(&[Some(9000), None]), None);
    }
}
