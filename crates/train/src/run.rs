//! A training run: load, train, evaluate, save.

use std::{path::Path, time::Instant};

use arch::ModelConfig;
use candle_core::Device;
use data::Dataset;
use hub::Roots;
use memory::timeline;
use model::Source;
use options::{Measure, TrainOptions, TrainingLength};
use records::{Event, Forgetting, Measured};
use trace::Phase;

use super::{
    TrainError, Trainer,
    checkpoint::{Carried, Checkpoints, Writer},
    device,
    memory_meter::{LoadPeaks, MemoryMeter},
    profile, save, start,
    steps::StepRecorder,
    summary::{Surroundings, summarise},
};

/// The figures of a finished run. Its other results are files.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The figures.
    pub measured: Measured,
    /// SHA-256 of the token ids.
    pub data_sha256: String,
    /// SHA-256 of the adapter's weights that training went on from.
    pub init_adapter_sha256: Option<String>,
}

/// Where a run writes its files.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// The folder of what every run writes.
    pub dir: &'a Path,
    /// The folder for the trained model, in transformers' layout.
    pub model: Option<&'a Path>,
}

/// Trains as `options` say. Its names lead to `roots`.
///
/// Writes `steps.jsonl` into the folder of `out`, `adapter/` if there are adapters, and the model and checkpoints if they
/// are asked for. Reports each step to `on_event`.
///
/// # Errors
/// If the model, the data or a checkpoint cannot be read, the device is missing, a loss or gradient is not finite, or a
/// file cannot be written.
pub fn run(
    options: &TrainOptions,
    roots: &Roots,
    out: Outputs,
    mut checkpoints: Option<Checkpoints>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Trained, TrainError> {
    on_event(&Event::Loading);
    let load_start = Instant::now();
    memory::set_phase(Phase::Load);
    let Loaded {
        config,
        dataset,
        device,
        mut trainer,
        init_adapter_sha256,
    } = load(options, roots, out.dir)?;
    for text in dataset.remarks() {
        on_event(&Event::Remark { text });
    }
    let trainable_count = trainer.trainable_count();
    let load_seconds = load_start.elapsed().as_secs_f64();
    let load_peaks = LoadPeaks::now();

    let mut from = None;
    if let Some(checkpoints) = &mut checkpoints {
        checkpoints.provenance.data_sha256 = Some(dataset.sha256().to_owned());
        checkpoints
            .provenance
            .init_adapter_sha256
            .clone_from(&init_adapter_sha256);
        from = checkpoints.take(&mut |text| on_event(&Event::Remark { text }))?;
    }
    let carried = match &from {
        Some(from) => from.carried(),
        None => {
            // The loss that training starts from. A new adapter starts as a zero update, so it is the base's; new virtual
            // tokens do not, so they are left out.
            let is_base = options.init_adapter.is_none();
            let before = forgetting_loss(options, &config, &dataset, &mut trainer, is_base, on_event)?;
            if before.is_some() {
                memory::return_freed();
            }
            Carried::new(before)
        }
    };
    let (mut done, mut memory_before) = (Vec::new(), None);
    if let Some(from) = from {
        let text = format!("goes on from the checkpoint of step {}", from.step);
        on_event(&Event::Remark { text });
        let (steps, memory) = from.restore(&mut trainer)?;
        (done, memory_before) = (steps, Some(memory));
        memory::return_freed();
    }

    let mut meter = MemoryMeter::start(&device, load_peaks).after(memory_before);
    let mut steps = StepRecorder::create(out.dir, options.empty_cache_steps, done, on_event)?;
    let profile = match options.measure {
        Measure::Epoch => {
            let total = dataset.sampler().steps(&options.data);
            let writer = checkpoints.as_ref();
            let writer = writer.and_then(|checkpoints| Writer::new(checkpoints, out.dir, total, &carried));
            train(options, &config, &dataset, &mut trainer, &mut meter, &mut steps, writer)?;
            None
        }
        Measure::Profile => profile::run(options, &config, &dataset, &mut trainer, &mut meter, &mut steps)?,
    };
    let steps = steps.finish();
    let steps_per_epoch = match options.data.length {
        TrainingLength::Epochs(_) => Some(dataset.sampler().steps_per_epoch(&options.data)),
        TrainingLength::Steps(_) => None,
    };
    let memory = meter.so_far();
    trainer.release_optimizer();

    let evaluation = if dataset.sampler().held_out().is_empty() {
        None
    } else {
        on_event(&Event::Evaluating);
        Some(trainer.evaluate(dataset.eval_batches(&options.data, &config))?)
    };
    let after = forgetting_loss(options, &config, &dataset, &mut trainer, false, on_event)?;
    let adapter_file_bytes = save::adapter(&options.model, &mut trainer, &out.dir.join("adapter"))?;
    if let Some(dir) = out.model {
        save::model(&options.model, roots, &mut trainer, dir)?;
    }
    on_event(&Event::Done);

    let surroundings = Surroundings {
        steps_per_epoch,
        load_seconds,
        parameter_count: config.parameter_count(),
        trainable_count,
        samples_left_out: dataset.left_out(),
        evaluation,
        forgetting: carried
            .forgetting_before()
            .zip(after)
            .map(|(before, after)| Forgetting { before, after }),
        adapter_file_bytes,
        profile,
        resumed: carried.resumed,
    };
    Ok(Trained {
        measured: summarise(&steps, memory, surroundings),
        data_sha256: dataset.sha256().to_owned(),
        init_adapter_sha256,
    })
}

/// The loss on the data whose forgetting is measured, of the base or of what is trained; `None` if there is none.
fn forgetting_loss(
    options: &TrainOptions,
    config: &ModelConfig,
    dataset: &Dataset,
    trainer: &mut Trainer,
    is_base: bool,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Option<f64>, TrainError> {
    let mut batches = dataset.forgetting_batches(&options.data, config).peekable();
    if batches.peek().is_none() {
        return Ok(None);
    }
    on_event(&Event::Evaluating);
    let evaluation = match is_base {
        true => trainer.evaluate_without_virtual_tokens(batches)?,
        false => trainer.evaluate(batches)?,
    };
    Ok(Some(evaluation.loss))
}

/// A model and its data, ready for the first step.
pub(super) struct Loaded {
    pub(super) config: ModelConfig,
    pub(super) dataset: Dataset,
    pub(super) device: Device,
    pub(super) trainer: Trainer,
    pub(super) init_adapter_sha256: Option<String>,
}

/// Loads the model and the data. The token ids of large data lie in a temporary file in `folder`.
pub(super) fn load(options: &TrainOptions, roots: &Roots, folder: &Path) -> Result<Loaded, TrainError> {
    if options.empty_cache_steps > 0 {
        memory::prepare_empty_cache();
    }
    let device = device::open(options.device)?;
    let source = Source::open(&options.model, roots)?;
    let positions = source.config().max_position_embeddings;
    let asked = options.model.virtual_tokens() + options.data.longest_sequence();
    if asked > positions {
        return Err(TrainError::Positions { asked, positions });
    }
    let dataset = data::load(&options.data, source.config(), roots, folder)?;
    let config = source.config().clone();
    let mut model = model::load(&options.model, &source, &device)?;
    drop(source);
    let init_adapter_sha256 = match (&options.init_adapter, &options.model.adapter) {
        (Some(path), Some(adapter)) => Some(start::from_adapter(&roots.path(path), adapter, &mut model)?),
        _ => {
            start::from_text(options, &config, roots, &mut model)?;
            None
        }
    };
    Ok(Loaded {
        config,
        dataset,
        device,
        trainer: Trainer::new(options, model)?,
        init_adapter_sha256,
    })
}

/// The training loop, after the steps that are done.
fn train(
    options: &TrainOptions,
    config: &ModelConfig,
    dataset: &Dataset,
    trainer: &mut Trainer,
    meter: &mut MemoryMeter,
    steps: &mut StepRecorder,
    writer: Option<Writer>,
) -> Result<(), TrainError> {
    let total = dataset.sampler().steps(&options.data);
    steps.begin(&options.data, total);
    let batches = dataset.batches(&options.data, config).enumerate();
    for (index, batch) in batches.skip(steps.done().len()) {
        let batch = batch?;
        let start = steps.start();
        let outcome = trainer.step(&batch, index, total, &mut || {
            meter.sample();
            timeline::write_out();
        })?;
        steps.end(trainer, &batch, outcome, meter.end_step()?, start)?;
        if let Some(writer) = &writer {
            writer.after(steps.done(), trainer, meter)?;
        }
    }
    Ok(())
}
