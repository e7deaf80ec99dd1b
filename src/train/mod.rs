//! Training a cell: it is given a configuration and reads no YAML, no environment, and no clock that changes numbers.

mod device;
mod error;
mod measure;
mod profile;
mod save;
pub mod segments;
mod trainer;

use std::{path::Path, time::Instant};

pub use device::check as check_device;
pub use error::TrainError;
pub use trainer::{Evaluation, StepOutcome, Trainer};

use crate::{
    data::{self, Dataset, EffectiveBatch},
    memory::{self, Category, Phase, probes, timeline},
    model::{self, Config, Source},
    results::{
        record::{Event, Measured, Step, StepEvent},
        store::StepLog,
    },
    spec::cell::{Cell, Measure},
};
use measure::{Meter, StepMarks};

/// What a finished run leaves behind beside the files in its folder.
#[derive(Debug, Clone)]
pub struct Trained {
    pub measured: Measured,
    /// SHA-256 of the token ids trained on.
    pub data_sha256: String,
}

/// Trains `cell`, whose relative paths start at `base_dir`; writes `steps.jsonl` and, where there are adapters,
/// `adapter/` into `out_dir`, and reports each step to `on_event`.
///
/// # Errors
/// Where the model or the data cannot be read, the device is not there, a loss or gradient is not finite, or a file
/// cannot be written.
pub fn run(
    cell: &Cell,
    base_dir: &Path,
    out_dir: &Path,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Trained, TrainError> {
    on_event(&Event::Loading);
    let load_start = Instant::now();
    memory::set_phase(Phase::Load);
    let device = device::open(&cell.device)?;
    let (source, dataset) = {
        let _scope = memory::scope(Category::Host);
        let source = Source::open(&cell.model_options(), base_dir)?;
        let positions = source.config().max_position_embeddings();
        if cell.max_seq_length > positions {
            return Err(TrainError::Positions {
                asked: cell.max_seq_length,
                positions,
            });
        }
        let dataset = data::load(cell, source.config(), base_dir)?;
        (source, dataset)
    };
    let config = source.config().clone();
    let model = model::load(&cell.model_options(), &source, &device)?;
    drop(source);
    let mut trainer = Trainer::new(cell, model)?;
    let trainable_count = trainer.trainable_count();
    let load_seconds = load_start.elapsed().as_secs_f64();

    let mut meter = Meter::start(&device);
    let mut steps = Steps::create(out_dir, on_event)?;
    let profile = match cell.measure {
        Measure::Epoch => {
            train(cell, &config, &dataset, &mut trainer, &mut meter, &mut steps)?;
            None
        }
        Measure::Profile => profile::run(cell, &config, &dataset, &mut trainer, &mut meter, &mut steps)?,
    };
    let steps = steps.done;
    let memory = meter.finish();
    trainer.release_optimizer();

    let evaluation = if !dataset.eval().is_empty() {
        on_event(&Event::Evaluating);
        Some(trainer.evaluate(dataset.eval_batches(cell, &config))?)
    } else {
        None
    };
    let adapter_file_bytes = save::adapter(cell, &mut trainer, &out_dir.join("adapter"))?;
    on_event(&Event::Done);

    let measured = Measured {
        loss_eval: evaluation.map(|evaluation| evaluation.loss),
        accuracy_eval: evaluation.and_then(|evaluation| evaluation.accuracy),
        parameter_count: config.parameter_count(),
        trainable_count,
        adapter_file_bytes,
        profile,
        ..measure::summarise(&steps, memory, load_seconds)
    };
    Ok(Trained {
        measured,
        data_sha256: dataset.sha256().to_owned(),
    })
}

fn train(
    cell: &Cell,
    config: &Config,
    dataset: &Dataset,
    trainer: &mut Trainer,
    meter: &mut Meter,
    steps: &mut Steps,
) -> Result<(), TrainError> {
    let total = dataset.steps(cell);
    steps.begin(cell, total);
    for (index, batch) in dataset.batches(cell, config).enumerate() {
        let start = steps.start();
        let outcome = trainer.step(&batch, index, total, &mut || {
            meter.look();
            timeline::write_out();
        })?;
        steps.end(&batch, outcome, meter.end_step(), start)?;
        steps.release(trainer);
    }
    Ok(())
}

/// The steps that were made, each told and written as it ends.
struct Steps<'a> {
    file: StepLog,
    on_event: &'a mut dyn FnMut(&Event),
    total: usize,
    done: Vec<Step>,
}

impl<'a> Steps<'a> {
    fn create(out_dir: &Path, on_event: &'a mut dyn FnMut(&Event)) -> Result<Self, TrainError> {
        Ok(Self {
            file: StepLog::create(&out_dir.join("steps.jsonl"))?,
            on_event,
            total: 0,
            done: Vec::new(),
        })
    }

    fn begin(&mut self, cell: &Cell, total: usize) {
        self.total = total;
        (self.on_event)(&Event::Training {
            steps: total,
            tokens_per_step: cell.effective_batch_size() * cell.max_seq_length,
        });
    }

    /// The next step begins.
    fn start(&self) -> Instant {
        timeline::begin_step(self.done.len() + 1);
        Instant::now()
    }

    fn end(
        &mut self,
        batch: &EffectiveBatch,
        outcome: StepOutcome,
        marks: StepMarks,
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
            allocated_bytes: marks.allocated,
            allocated_peak_bytes: marks.allocated_peak,
            reserved_bytes: marks.reserved,
            process_bytes: marks.process,
            system_available_bytes: probes::system_available_bytes(),
            page_faults: marks.page_faults,
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

    /// What the last step left is given back.
    fn release(&self, trainer: &mut Trainer) {
        trainer.release_gradients();
        memory::set_phase(Phase::Idle);
        timeline::step_released(self.done.len());
    }
}
