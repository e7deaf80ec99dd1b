//! Memory during training: figures at the end of each step, and peaks over all steps.

use std::collections::BTreeMap;
use std::time::Duration;

use candle_core::Device;
use memory::{DevicePool, Peaks, PoolBytes, probes, tiers};
use serde::{Deserialize, Serialize};
use trace::Phase;

use super::TrainError;

/// Watches a training loop. It resets the peaks at each step and merges them, so that each step's own peak is known.
///
/// On a GPU it reads the figures of the device's pool, which knows neither categories nor phases.
pub(super) struct MemoryMeter {
    on_cpu: bool,
    pool: Option<DevicePool>,
    /// True if the pool's peaks are those of the step.
    pool_peaks_reset: bool,
    installed: bool,
    peaks: Option<Peaks>,
    allocated_peak: Option<u64>,
    allocated_sum: u64,
    steps: u64,
    reserved_peak: Option<u64>,
    load: LoadPeaks,
    /// True if the system reset the process's peak; else the peak covers what came before, too.
    process_peak_reset: bool,
    page_faults_before: Option<u64>,
    /// Page faults at the end of the last step.
    page_faults_seen: Option<u64>,
    /// The figures of the steps before the meter started.
    before: Option<LoopMemory>,
}

/// Peaks of the load, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadPeaks {
    /// Highest live tensor bytes.
    allocated: u64,
    /// Peak of the resident set.
    process: Option<u64>,
}

impl LoadPeaks {
    /// The peaks of a load that ends now.
    pub(super) fn now() -> Self {
        Self {
            allocated: memory::peaks().in_phase[Phase::Load],
            process: probes::process_peak_bytes(),
        }
    }
}

/// Memory at the end of a step, before its gradients are released, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StepMemory {
    /// Live tensor bytes.
    pub(super) allocated: Option<u64>,
    /// Highest live tensor bytes within the step.
    pub(super) allocated_peak: Option<u64>,
    /// Bytes that the allocator holds.
    pub(super) reserved: Option<u64>,
    /// Resident set of the process.
    pub(super) process: Option<u64>,
    /// Page faults since the end of the last step.
    pub(super) page_faults: Option<u64>,
}

/// Memory over the loop so far, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LoopMemory {
    /// `None` if the process has no ledger.
    pub(super) peaks: Option<LoopPeaks>,
    /// Highest live tensor bytes.
    pub(super) allocated_peak: Option<u64>,
    /// Sum over the ends of so many steps.
    allocated_sum: u64,
    steps: u64,
    /// The most bytes in the host's tier; `None` if it was never used.
    pub(super) host_peak: Option<u64>,
    /// Bytes copied between the tiers.
    pub(super) copied: u64,
    /// Time in which steps waited for copies on the other thread.
    pub(super) waited: Duration,
    pub(super) reserved_peak: Option<u64>,
    /// Peak of the resident set in the loop.
    pub(super) process_peak: Option<u64>,
    /// Peak of the resident set, the load included.
    pub(super) process_peak_total: Option<u64>,
    pub(super) page_faults: Option<u64>,
}

/// The ledger's peaks over the loop, by the names in records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LoopPeaks {
    allocated: u64,
    pub(super) phase: String,
    pub(super) module: Option<String>,
    pub(super) by_category: BTreeMap<String, u64>,
    pub(super) in_phase: BTreeMap<String, u64>,
}

impl LoopMemory {
    /// Mean live tensor bytes over the steps' ends.
    pub(super) fn allocated_mean(&self) -> Option<u64> {
        self.allocated_sum.checked_div(self.steps)
    }

    /// These figures and those of the steps before them.
    fn after(self, before: Self) -> Self {
        let peaks = match (before.peaks, self.peaks) {
            (Some(before), Some(peaks)) => Some(peaks.after(before)),
            (before, peaks) => before.or(peaks),
        };
        Self {
            peaks,
            allocated_peak: self.allocated_peak.max(before.allocated_peak),
            allocated_sum: self.allocated_sum + before.allocated_sum,
            steps: self.steps + before.steps,
            host_peak: self.host_peak.max(before.host_peak),
            copied: self.copied + before.copied,
            waited: self.waited + before.waited,
            reserved_peak: self.reserved_peak.max(before.reserved_peak),
            process_peak: self.process_peak.max(before.process_peak),
            process_peak_total: self.process_peak_total.max(before.process_peak_total),
            page_faults: self
                .page_faults
                .zip(before.page_faults)
                .map(|(own, before)| own + before),
        }
    }
}

impl LoopPeaks {
    fn new(peaks: Peaks, load: LoadPeaks) -> Self {
        let mut in_phase = peaks.in_phase;
        in_phase[Phase::Load] = load.allocated;
        let by_category = peaks.by_category.iter();
        Self {
            allocated: peaks.allocated,
            phase: peaks.phase.name().to_owned(),
            module: peaks.module.map(|module| module.to_string()),
            by_category: by_category
                .map(|(category, bytes)| (category.name().to_owned(), bytes))
                .collect(),
            in_phase: in_phase.named(),
        }
    }

    /// Of equal peaks, the first one counts.
    fn after(self, before: Self) -> Self {
        let mut in_phase = before.in_phase.clone();
        for (phase, peak) in &self.in_phase {
            let highest = in_phase.entry(phase.clone()).or_default();
            *highest = (*highest).max(*peak);
        }
        let highest = if self.allocated > before.allocated {
            self
        } else {
            before
        };
        Self { in_phase, ..highest }
    }
}

impl MemoryMeter {
    /// Starts a loop on `device` after a load with these peaks. What lies between the two shows in no figure.
    pub(super) fn start(device: &Device, load: LoadPeaks) -> Self {
        let process_peak_reset = probes::reset_process_peak();
        memory::set_phase(Phase::Idle);
        memory::reset_peaks();
        tiers::reset_traffic();
        let page_faults = probes::page_faults();
        let pool = DevicePool::of(device);
        let pool_peaks_reset = pool.as_ref().is_some_and(DevicePool::reset_peaks);
        Self {
            on_cpu: device.is_cpu(),
            pool,
            pool_peaks_reset,
            installed: memory::installed(),
            peaks: None,
            allocated_peak: None,
            allocated_sum: 0,
            steps: 0,
            reserved_peak: None,
            load,
            process_peak_reset,
            page_faults_before: page_faults,
            page_faults_seen: page_faults,
            before: None,
        }
    }

    /// The same after the steps of an earlier process.
    pub(super) fn after(self, before: Option<LoopMemory>) -> Self {
        Self { before, ..self }
    }

    /// Does something between two steps that shows in no figure. It is given the figures so far.
    pub(super) fn aside<T>(&mut self, device: &Device, body: impl FnOnce(&LoopMemory) -> T) -> T {
        let so_far = self.so_far();
        let done = body(&so_far);
        *self = Self::start(device, self.load).after(Some(so_far));
        done
    }

    /// Forgets all figures but those of the load, to which the process's peak so far counts.
    pub(super) fn reset(&mut self, device: &Device) {
        let load = LoadPeaks {
            process: self.load.process.max(probes::process_peak_bytes()),
            ..self.load
        };
        *self = Self::start(device, load);
    }

    /// Samples the bytes that the CPU's allocator holds, which have no peak of their own.
    pub(super) fn sample(&mut self) {
        if !self.on_cpu {
            return;
        }
        self.reserved_peak = self.reserved_peak.max(probes::reserved_bytes());
    }

    /// Ends a step. Waits for a GPU.
    ///
    /// # Errors
    /// If the GPU failed at something that it was asked to do.
    pub(super) fn end_step(&mut self) -> Result<StepMemory, TrainError> {
        match &self.pool {
            Some(pool) => {
                let read = pool.read()?;
                let bytes = PoolBytes {
                    used_peak: read.used_peak.filter(|_| self.pool_peaks_reset),
                    reserved_peak: read.reserved_peak.filter(|_| self.pool_peaks_reset),
                    ..read
                };
                self.pool_peaks_reset = pool.reset_peaks();
                self.allocated_sum += bytes.used.unwrap_or(0);
                self.steps += u64::from(bytes.used.is_some());
                self.allocated_peak = self.allocated_peak.max(bytes.used_peak);
                self.reserved_peak = self.reserved_peak.max(bytes.reserved_peak);
                Ok(StepMemory {
                    allocated: bytes.used,
                    allocated_peak: bytes.used_peak,
                    reserved: bytes.reserved,
                    process: None,
                    page_faults: None,
                })
            }
            None if !self.on_cpu => Ok(StepMemory::default()),
            None => Ok(self.end_step_on_cpu()),
        }
    }

    fn end_step_on_cpu(&mut self) -> StepMemory {
        self.sample();
        let process = probes::process_bytes();
        let page_faults = probes::page_faults();
        let page_faults = difference(page_faults, std::mem::replace(&mut self.page_faults_seen, page_faults));
        if !self.installed {
            return StepMemory {
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
        self.allocated_peak = self.allocated_peak.max(Some(step_peak));
        self.allocated_sum += allocated;
        self.steps += 1;
        self.peaks = Some(match self.peaks.take() {
            None => step,
            Some(run) => merge(run, step),
        });
        StepMemory {
            allocated: Some(allocated),
            allocated_peak: Some(step_peak),
            reserved: probes::reserved_bytes(),
            process,
            page_faults,
        }
    }

    /// The figures of all steps so far.
    pub(super) fn so_far(&self) -> LoopMemory {
        let own = LoopMemory {
            allocated_peak: self.allocated_peak,
            allocated_sum: self.allocated_sum,
            steps: self.steps,
            reserved_peak: self.reserved_peak,
            ..self.of_process()
        };
        match &self.before {
            Some(before) => own.after(before.clone()),
            None => own,
        }
    }

    /// The part of the figures that a GPU's memory has nothing of.
    fn of_process(&self) -> LoopMemory {
        if !self.on_cpu {
            return LoopMemory::default();
        }
        let process_peak = probes::process_peak_bytes();
        let traffic = tiers::traffic();
        LoopMemory {
            peaks: self.peaks.map(|peaks| LoopPeaks::new(peaks, self.load)),
            host_peak: self.peaks.map(|peaks| peaks.offloaded).filter(|&bytes| bytes > 0),
            copied: traffic.copied_bytes,
            waited: traffic.waited,
            process_peak: process_peak.filter(|_| self.process_peak_reset),
            process_peak_total: process_peak.max(self.load.process),
            page_faults: difference(probes::page_faults(), self.page_faults_before),
            ..LoopMemory::default()
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
    Peaks {
        in_phase,
        offloaded: run.offloaded.max(step.offloaded),
        ..highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_processs_memory_is_not_a_gpus() {
        let mut meter = MemoryMeter {
            on_cpu: false,
            ..MemoryMeter::start(&Device::Cpu, LoadPeaks::now())
        };
        meter.sample();
        assert_eq!(meter.end_step().unwrap(), StepMemory::default());
        let memory = meter.so_far();
        assert_eq!(memory.reserved_peak, None);
        assert_eq!(memory.process_peak.or(memory.process_peak_total), None);
        assert!(memory.peaks.is_none());
    }

    #[test]
    fn figures_of_two_processes_are_those_of_one() {
        let of = |allocated: u64, phase: &str, idle: u64| LoopMemory {
            peaks: Some(LoopPeaks {
                allocated,
                phase: phase.to_owned(),
                by_category: BTreeMap::from([("adapter".to_owned(), allocated)]),
                in_phase: BTreeMap::from([("idle".to_owned(), idle)]),
                ..LoopPeaks::default()
            }),
            allocated_peak: Some(allocated),
            allocated_sum: 10,
            steps: 2,
            copied: 3,
            page_faults: Some(5),
            process_peak: Some(allocated),
            ..LoopMemory::default()
        };
        let both = of(70, "backward", 9).after(of(70, "forward", 4));
        let peaks = both.peaks.clone().unwrap();
        assert_eq!((peaks.phase.as_str(), peaks.in_phase["idle"]), ("forward", 9));
        assert_eq!(
            (both.allocated_mean(), both.copied, both.page_faults),
            (Some(5), 6, Some(10))
        );
        let both = of(80, "backward", 4).after(of(70, "forward", 9));
        let peaks = both.peaks.clone().unwrap();
        assert_eq!((peaks.phase.as_str(), peaks.in_phase["idle"]), ("backward", 9));
        assert_eq!((peaks.by_category["adapter"], both.process_peak), (80, Some(80)));
        let unknown = of(1, "idle", 1).after(LoopMemory::default());
        assert_eq!((unknown.page_faults, unknown.allocated_peak), (None, Some(1)));
    }
}
