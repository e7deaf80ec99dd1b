//! What memory did during training: marks at the end of each step, peaks over all of them.

use std::collections::BTreeMap;

use candle_core::Device;

use crate::{
    memory::{self, Peaks, Phase, probes},
    results::record::{Measured, Step},
};

/// Watches a training loop. Peaks are reset at each step and merged, so that a step's own peak is known too. What it reads
/// is this process's memory, so on another device than the CPU there are no marks: they would say nothing of that device.
pub struct Meter {
    on_cpu: bool,
    installed: bool,
    peaks: Option<Peaks>,
    allocated_sum: u64,
    steps: u64,
    reserved_peak: Option<u64>,
    process_peak_before: Option<u64>,
    /// Whether the system let the mark be reset; where not, it covers the load too.
    process_peak_reset: bool,
    /// Highest live tensor bytes while the model was loaded.
    load_peak: u64,
    page_faults_before: Option<u64>,
    /// The same at the end of the last step.
    page_faults_seen: Option<u64>,
}

/// At the end of a step, before gradients are released.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StepMarks {
    pub allocated: Option<u64>,
    pub allocated_peak: Option<u64>,
    pub reserved: Option<u64>,
    pub process: Option<u64>,
    /// Since the last step's end.
    pub page_faults: Option<u64>,
}

/// Over the whole loop.
#[derive(Default)]
pub struct MemoryMarks {
    peaks: Option<Peaks>,
    allocated_mean: Option<u64>,
    reserved_peak: Option<u64>,
    process_peak: Option<u64>,
    process_peak_total: Option<u64>,
    page_faults: Option<u64>,
}

impl Meter {
    pub fn start(device: &Device) -> Self {
        let process_peak_before = probes::process_peak_bytes();
        let process_peak_reset = probes::reset_process_peak();
        let load_peak = memory::peaks().in_phase[Phase::Load];
        memory::set_phase(Phase::Idle);
        memory::reset_peaks();
        let page_faults = probes::page_faults();
        Self {
            on_cpu: device.is_cpu(),
            installed: memory::installed(),
            peaks: None,
            allocated_sum: 0,
            steps: 0,
            reserved_peak: None,
            process_peak_before,
            process_peak_reset,
            load_peak,
            page_faults_before: page_faults,
            page_faults_seen: page_faults,
        }
    }

    /// Forgets what was seen so far, but for the load.
    pub fn restart(&mut self, device: &Device) {
        let (load_peak, process_peak) = (self.load_peak, self.process_peak_before);
        let again = Self::start(device);
        *self = Self {
            load_peak,
            process_peak_before: again.process_peak_before.max(process_peak),
            ..again
        };
    }

    /// Reads what only a look can tell: how much the allocator holds now.
    pub fn look(&mut self) {
        self.reserved_peak = self.reserved_peak.max(probes::reserved_bytes());
    }

    pub fn end_step(&mut self) -> StepMarks {
        if !self.on_cpu {
            return StepMarks::default();
        }
        self.look();
        let process = probes::process_bytes();
        let page_faults = probes::page_faults();
        let page_faults = difference(page_faults, std::mem::replace(&mut self.page_faults_seen, page_faults));
        if !self.installed {
            return StepMarks {
                allocated: None,
                allocated_peak: None,
                reserved: probes::reserved_bytes(),
                process,
                page_faults,
            };
        }
        let allocated = memory::live().allocated();
        let step = memory::peaks();
        memory::reset_peaks();
        let step_peak = step.allocated;
        self.allocated_sum += allocated;
        self.steps += 1;
        self.peaks = Some(match self.peaks.take() {
            None => step,
            Some(run) => merge(run, step),
        });
        StepMarks {
            allocated: Some(allocated),
            allocated_peak: Some(step_peak),
            reserved: probes::reserved_bytes(),
            process,
            page_faults,
        }
    }

    pub fn finish(self) -> MemoryMarks {
        if !self.on_cpu {
            return MemoryMarks::default();
        }
        let process_peak = probes::process_peak_bytes();
        MemoryMarks {
            allocated_mean: (self.steps > 0).then(|| self.allocated_sum / self.steps),
            peaks: self.peaks.map(|mut peaks| {
                peaks.in_phase[Phase::Load] = self.load_peak;
                peaks
            }),
            reserved_peak: self.reserved_peak,
            process_peak: process_peak.filter(|_| self.process_peak_reset),
            process_peak_total: process_peak.max(self.process_peak_before),
            page_faults: difference(probes::page_faults(), self.page_faults_before),
        }
    }
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after? - before?)
}

fn merge(run: Peaks, step: Peaks) -> Peaks {
    let mut in_phase = run.in_phase;
    for (phase, peak) in step.in_phase.iter() {
        in_phase[phase] = in_phase[phase].max(peak);
    }
    let highest = if step.allocated > run.allocated { step } else { run };
    Peaks { in_phase, ..highest }
}

/// Puts steps and marks together.
pub fn summarise(steps: &[Step], memory: MemoryMarks, load_seconds: f64) -> Measured {
    let tokens: usize = steps.iter().map(|step| step.tokens).sum();
    // The first step warms up; it counts only where it is the only one.
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
    fn this_processs_memory_is_not_a_gpus() {
        let mut meter = Meter {
            on_cpu: false,
            ..Meter::start(&Device::Cpu)
        };
        meter.look();
        assert_eq!(meter.end_step(), StepMarks::default());
        let memory = meter.finish();
        assert_eq!(memory.reserved_peak, None);
        assert_eq!(memory.process_peak.or(memory.process_peak_total), None);
        assert!(memory.peaks.is_none());
    }

    #[test]
    fn the_first_step_counts_where_it_is_the_only_one() {
        let step = |page_faults| Step {
            page_faults,
            ..sample::step(1)
        };
        let faults = |steps: &[Option<u64>]| {
            let steps: Vec<Step> = steps.iter().map(|&faults| step(faults)).collect();
            summarise(&steps, MemoryMarks::default(), 0.0).page_faults_per_step_median
        };
        assert_eq!(faults(&[Some(9000)]), Some(9000.0));
        assert_eq!(faults(&[Some(9000), Some(3), Some(0), Some(6)]), Some(3.0));
        assert_eq!(faults(&[Some(9000), None]), None);
    }
}
