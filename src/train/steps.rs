//! The record of the steps: a line of `steps.jsonl` and an event each.

use std::{path::Path, time::Instant};

use super::{StepOutcome, TrainError, Trainer, memory_meter::StepMemory};
use crate::{
    data::EffectiveBatch,
    memory::{self, Phase, probes, timeline},
    options::DataOptions,
    results::{
        record::{Event, Step, StepEvent},
        store::StepLog,
    },
};

/// Writes and reports each step as it ends.
pub(super) struct StepRecorder<'a> {
    file: StepLog,
    on_event: &'a mut dyn FnMut(&Event),
    total: usize,
    done: Vec<Step>,
}

impl<'a> StepRecorder<'a> {
    pub(super) fn create(out_dir: &Path, on_event: &'a mut dyn FnMut(&Event)) -> Result<Self, TrainError> {
        Ok(Self {
            file: StepLog::create(&out_dir.join("steps.jsonl"))?,
            on_event,
            total: 0,
            done: Vec::new(),
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

    /// The step ends, with its gradients still held.
    pub(super) fn end(
        &mut self,
        batch: &EffectiveBatch,
        outcome: StepOutcome,
        memory: StepMemory,
        start: Instant,
    ) -> Result<(), TrainError> {
        timeline::end_step(self.done.len() + 1);
        let step = Step {
            step: self.done.len() + 1,
            loss: outcome.loss,
            gradient_norm: outcome.gradient_norm,
            learning_rate: outcome.learning_rate,
            tokens: batch.micro.iter().map(|micro| micro.ids.len()).sum(),
            seconds: start.elapsed().as_secs_f64(),
            allocated_bytes: memory.allocated,
            allocated_peak_bytes: memory.allocated_peak,
            reserved_bytes: memory.reserved,
            process_bytes: memory.process,
            system_available_bytes: probes::system_available_bytes(),
            page_faults: memory.page_faults,
        };
        self.file.append(&step)?;
        (self.on_event)(&Event::Step {
            steps: self.total,
            step: StepEvent {
                step: step.step,
                loss: step.loss,
                seconds: step.seconds,
                tokens: step.tokens,
                allocated_bytes: step.allocated_bytes,
            },
        });
        self.done.push(step);
        Ok(())
    }

    /// Releases the gradients of the last step.
    pub(super) fn release(&self, trainer: &mut Trainer) {
        trainer.release_gradients();
        memory::set_phase(Phase::Idle);
        timeline::step_released(self.done.len());
    }

    /// All steps.
    pub(super) fn finish(self) -> Vec<Step> {
        self.done
    }
}
