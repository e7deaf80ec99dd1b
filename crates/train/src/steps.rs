//! The record of the steps: a line of `steps.jsonl` and an event each.

use std::{path::Path, time::Instant};

use data::{EffectiveBatch, MicroBatch};
use memory::{probes, timeline};
use options::DataOptions;
use records::store::StepLog;
use records::{EmptyCache, Event, Step, StepEvent};
use trace::Phase;

use super::{StepOutcome, TrainError, Trainer, memory_meter::StepMemory};

/// Writes and reports each step as it ends.
pub(super) struct StepRecorder<'a> {
    file: StepLog,
    on_event: &'a mut dyn FnMut(&Event),
    total: usize,
    empty_cache_steps: usize,
    done: Vec<Step>,
}

impl<'a> StepRecorder<'a> {
    /// The cache of the allocator is returned every `empty_cache_steps` steps; 0 never does. Steps that are `done` already
    /// are written at once.
    pub(super) fn create(
        out_dir: &Path,
        empty_cache_steps: usize,
        done: Vec<Step>,
        on_event: &'a mut dyn FnMut(&Event),
    ) -> Result<Self, TrainError> {
        let mut file = StepLog::create(&out_dir.join("steps.jsonl"))?;
        for step in &done {
            file.append(step)?;
        }
        Ok(Self {
            file,
            on_event,
            total: 0,
            empty_cache_steps,
            done,
        })
    }

    /// Training begins, with `total` steps.
    pub(super) fn begin(&mut self, options: &DataOptions, total: usize) {
        self.total = total;
        (self.on_event)(&Event::Training {
            steps: total,
            tokens_per_step: options.effective_batch_size() * options.max_seq_length,
        });
    }

    /// The next step begins.
    pub(super) fn start(&self) -> Instant {
        timeline::begin_step(self.done.len() + 1);
        Instant::now()
    }

    /// The step ends. Its gradients are still held, and released after the figures are taken.
    pub(super) fn end(
        &mut self,
        trainer: &mut Trainer,
        batch: &EffectiveBatch,
        outcome: StepOutcome,
        memory: StepMemory,
        start: Instant,
    ) -> Result<(), TrainError> {
        timeline::end_step(self.done.len() + 1);
        let mut step = Step {
            step: self.done.len() + 1,
            loss: outcome.loss,
            gradient_norm: outcome.gradient_norm,
            learning_rate: outcome.learning_rate,
            loss_scale: outcome.loss_scale,
            is_skipped: outcome.is_skipped,
            tokens: batch.micro.iter().map(|micro| micro.ids.len()).sum(),
            real_tokens: Some(batch.micro.iter().map(MicroBatch::real_tokens).sum()),
            seconds: start.elapsed().as_secs_f64(),
            allocated_bytes: memory.allocated,
            allocated_peak_bytes: memory.allocated_peak,
            reserved_bytes: memory.reserved,
            process_bytes: memory.process,
            system_available_bytes: probes::system_available_bytes(),
            system_used_percent: probes::system_used_percent(),
            page_faults: memory.page_faults,
            empty_cache: None,
        };
        trainer.release_gradients();
        memory::set_phase(Phase::Idle);
        timeline::step_released(step.step);
        if self.empty_cache_steps > 0 && step.step.is_multiple_of(self.empty_cache_steps) {
            let emptied = empty_cache();
            step.seconds += emptied.seconds;
            step.empty_cache = Some(emptied);
        }
        self.file.append(&step)?;
        (self.on_event)(&Event::Step {
            steps: self.total,
            step: StepEvent {
                step: step.step,
                loss: step.loss,
                seconds: step.seconds,
                tokens: step.tokens,
                allocated_bytes: step.allocated_bytes,
                reserved_bytes: step.reserved_bytes,
                system_used_percent: step.system_used_percent,
            },
        });
        self.done.push(step);
        Ok(())
    }

    /// The steps so far.
    pub(super) fn done(&mut self) -> &mut [Step] {
        &mut self.done
    }

    /// All steps.
    pub(super) fn finish(self) -> Vec<Step> {
        self.done
    }
}

/// Returns the allocator's cache to the system.
fn empty_cache() -> EmptyCache {
    let (reserved_before_bytes, process_before_bytes) = (probes::reserved_bytes(), probes::process_bytes());
    let start = Instant::now();
    memory::empty_cache();
    EmptyCache {
        seconds: start.elapsed().as_secs_f64(),
        reserved_before_bytes,
        reserved_after_bytes: probes::reserved_bytes(),
        process_before_bytes,
        process_after_bytes: probes::process_bytes(),
    }
}
