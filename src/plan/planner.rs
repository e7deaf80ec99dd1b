//! Turns a memory trace into a prediction.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::batches::{self, Depth};
use super::cache::{cached, cached_last};
use super::{PlanError, ranges};
use crate::{
    arch::{self, ArchError, ModelConfig},
    data::{self, DataError, Dataset, SampleLengths},
    memory::{ByCategory, Phase},
    options::{Adapter, DataOptions, ModelOptions, PackingSeparator},
    peft::{self, FileDtype},
    results::prediction::{Prediction, ROUNDING, Verdict},
    spec::cell::{Cell, Data, Dtype, LoraATraining, Stack, TargetModules, Task, Upcast, Weights},
    text::counted,
    torch::{
        self, MicroBatchShape,
        caching_allocator::{self, DeviceMemory, Reserved, Settings},
        gpu::{Budget, Gpu},
    },
    trace::{Account, Peak, Trace},
    train::{self, TrainError},
};

/// PyTorch's allocator rounds sizes up to a multiple of this, in bytes.
const GPU_GRANULARITY: u64 = 512;

/// Bytes that the trainer's process holds beside its tensors: the program, its libraries, and what its threads pack operands
/// into. Read off runs of many sizes (`docs/accuracy.md`). How well its allocator uses its pages is not followed.
const PROCESS: u64 = 25 << 20;

/// Plans the cells of a spec.
#[derive(Debug)]
pub struct Planner {
    /// Where relative paths in cells start.
    base_dir: PathBuf,
    options: Options,
    /// Shapes that were read, by what decides them and whether the cell's stack can use them.
    models: Mutex<HashMap<ConfigKey, Arc<ModelConfig>>>,
    /// The data that was read last: cells of a study mostly share theirs.
    dataset: Mutex<Option<(DataKey, Arc<Dataset>)>>,
    /// The lengths of a file's samples that were read last.
    lengths: Mutex<Option<(LengthsKey, Arc<SampleLengths>)>>,
    /// Counts of the torch stack's models by what decides them: most cells of a spec differ in batch and length alone.
    torch_counts: Mutex<HashMap<CountsKey, torch::Counts>>,
    /// Sizes of adapters' files, by model, adapter, rank and target modules.
    adapter_files: Mutex<HashMap<(ModelKey, Adapter, usize, TargetModules), u64>>,
    /// Sizes of files with all weights, by model and format.
    checkpoint_files: Mutex<HashMap<(ModelKey, Dtype), u64>>,
}

/// How a spec is planned.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The budget of every cell, in place of its own `device_memory` or `gpu`.
    pub budget: Option<Budget>,
    /// Replay the torch stack's traces through PyTorch's allocator; predictions of reserved memory need it.
    pub replay: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: None,
            replay: true,
        }
    }
}

/// The keys that decide a cell's samples: model, data, seed, length, held-out part, and how many it needs; and the token
/// between them.
type DataKey = (ModelKey, Data, u64, usize, u64, (usize, Option<PackingSeparator>));

/// The keys that decide the lengths of a file's samples before they are cut.
type LengthsKey = (ModelKey, Data);

/// The cell's keys that decide a model's shape.
type ModelKey = (String, Task, usize);

/// The keys that decide whether it can be used: the stack, the origin of the weights, and the target modules, if any.
type ConfigKey = (ModelKey, Stack, Weights, Option<TargetModules>);

/// The keys that decide its counts: dtype, compute dtype, upcast, rank, target modules, lora_fa, adapter dtype.
type CountsKey = (
    ModelKey,
    Dtype,
    Dtype,
    Upcast,
    usize,
    TargetModules,
    LoraATraining,
    Dtype,
);

impl Planner {
    /// A planner of cells whose relative paths start at `base_dir`.
    pub fn new(base_dir: &Path, options: Options) -> Self {
        Self {
            base_dir: base_dir.to_path_buf(),
            options,
            models: Mutex::default(),
            dataset: Mutex::default(),
            lengths: Mutex::default(),
            torch_counts: Mutex::default(),
            adapter_files: Mutex::default(),
            checkpoint_files: Mutex::default(),
        }
    }

    /// Predicts the memory of `cell`.
    ///
    /// # Errors
    /// The model or the data cannot be read, or the stack cannot be planned with the cell.
    pub fn predict(&self, cell: &Cell) -> Result<Prediction, PlanError> {
        match cell.stack {
            Stack::Candle => self.predict_candle(cell),
            Stack::Torch if self.options.replay => self.predict_torch(cell, Detail::Range),
            Stack::Torch => self.predict_torch(cell, Detail::Live),
        }
    }

    /// Bytes that `cell` needs at least, of which PyTorch's allocator may hold more: quicker than [`Self::predict`].
    ///
    /// # Errors
    /// Those of [`Self::predict`].
    pub fn needed_at_least(&self, cell: &Cell) -> Result<u64, PlanError> {
        let allocated = match cell.stack {
            Stack::Candle => self.predict_candle(cell)?,
            Stack::Torch => self.predict_torch(cell, Detail::Live)?,
        };
        let context = self.gpu(cell).and_then(|gpu| gpu.context);
        Ok(allocated.allocated_peak_bytes + context.map_or(0, |context| context.bytes))
    }

    /// Bytes that `cell` needs, without the range that they may be in.
    ///
    /// # Errors
    /// Those of [`Self::predict`].
    pub fn needed(&self, cell: &Cell) -> Result<u64, PlanError> {
        let prediction = match cell.stack {
            Stack::Candle => self.predict_candle(cell)?,
            Stack::Torch => self.predict_torch(cell, Detail::Reserved)?,
        };
        Ok(prediction.needed_bytes)
    }

    /// The budget of `cell` in bytes: that of all cells, or its own.
    pub fn budget(&self, cell: &Cell) -> Option<u64> {
        self.options.budget.map(Budget::bytes).or_else(|| match cell.stack {
            Stack::Candle => cell.device_memory.map(|size| size.0),
            Stack::Torch => own_gpu(cell).map(|gpu| gpu.total_bytes),
        })
    }

    /// The GPU that `cell` is planned for.
    fn gpu(&self, cell: &Cell) -> Option<&'static Gpu> {
        match (cell.stack, self.options.budget) {
            (Stack::Candle, _) => None,
            (Stack::Torch, Some(Budget::Gpu(gpu))) => Some(gpu),
            (Stack::Torch, _) => own_gpu(cell),
        }
    }

    fn predict_candle(&self, cell: &Cell) -> Result<Prediction, PlanError> {
        is_closed(cell)?;
        let config = self.model(cell)?;
        fits_positions(cell, config.max_position_embeddings)?;
        cell.check_blocks_of(&config).map_err(PlanError::Blocks)?;
        let options = cell.train_options();
        let steps = batches::steps(&options.data, &config, || self.dataset(cell, &options.data, &config))?;
        let planned = train::dry_run(&options, cell.instruction_set.resolve(), &config, &steps.steps)?;
        let account = Account::of(&planned.trace, 1, planned.measured_from);
        let host_peak = account.host_peak;
        let prediction = Prediction {
            host_allocated_peak_bytes: (host_peak > 0).then_some(host_peak),
            host_budget_bytes: cell.host_memory.map(|size| size.0),
            parameter_count: config.parameter_count(),
            trainable_count: planned.trainable_count,
            checkpoint_file_bytes: self.checkpoint_file_bytes(cell, &config),
            adapter_file_bytes: self.adapter_file_bytes(cell, &options.model, &config)?,
            process_peak_bytes: Some(account.peak.bytes + host_peak + PROCESS),
            training_steps: steps.training_steps(),
            worst_batch: steps.worst(step_of_batch(&account.peak)),
            ..prediction_from(&account)
        };
        // The trainer's own budgets are on allocated bytes too.
        let prediction = with_verdict(prediction.allocated_peak_bytes, self.budget(cell), prediction);
        if prediction.past_host_budget().is_some() {
            return Ok(Prediction {
                verdict: Some(Verdict::Oversize),
                ..prediction
            });
        }
        Ok(prediction)
    }

    fn predict_torch(&self, cell: &Cell, detail: Detail) -> Result<Prediction, PlanError> {
        is_closed(cell)?;
        let model = self.model(cell)?;
        fits_positions(cell, model.max_position_embeddings)?;
        cell.check_blocks_of(&model).map_err(PlanError::Blocks)?;
        let gpu = self.gpu(cell);
        gpu.map_or(Ok(()), |gpu| cell.check_gpu(gpu)).map_err(PlanError::Gpu)?;
        let mut configuration = torch::Configuration::from_cell(cell, (*model).clone(), gpu)?;
        let counts = self.torch_counts(cell, &configuration);
        if cell.rank > 0 && !counts.is_adapted {
            return Err(PlanError::NoModule(cell.model.clone()));
        }
        let options = cell.data_options();
        let planned = batches::torch_steps(
            &options,
            match detail {
                Detail::Live => Depth::Live(configuration.outputs),
                Detail::Reserved | Detail::Range => Depth::Replayed,
            },
            || self.dataset(cell, &options, &model),
            || self.lengths(cell, &options, &model),
        )?;
        let steps = &planned.steps;
        if configuration.empty_cache_steps > 0 {
            // All intervals have the same peaks: the step after an emptied cache is like any other after it.
            configuration.empty_cache_steps = configuration.empty_cache_steps.min(steps.len() as u32 - 1).max(1);
        }
        let parts = steps.chunk_by(|_, next| next.follows);
        let parts: Vec<Vec<&[MicroBatchShape]>> = parts
            .map(|part| part.iter().map(|step| &step.micro_batches[..]).collect())
            .collect();
        let trace = torch::trace_parts(&configuration, &parts);
        let account = Account::of(&trace, GPU_GRANULARITY, 1);
        let mut prediction = Prediction {
            parameter_count: counts.parameters,
            trainable_count: counts.trainable,
            checkpoint_file_bytes: self.checkpoint_file_bytes(cell, &model),
            adapter_file_bytes: counts.adapter_file_bytes,
            allocated_peak_by_category: with_rounding(&account.peak.by_category, account.peak.bytes),
            planned_steps: Some(steps.len() as u64),
            allocated_end_bytes: Some(account.at_end),
            notes: gpu.map_or_else(Vec::new, |gpu| cell.notes_on(gpu)),
            training_steps: planned.training_steps(),
            worst_batch: planned.worst(step_of_batch(&account.peak)),
            ..prediction_from(&account)
        };
        if detail > Detail::Live {
            let settings = cell.pytorch_allocator().map_err(PlanError::Allocator)?;
            let context = gpu.and_then(|gpu| Some(gpu.context?.bytes));
            let (reserved, device) = replay_within(&trace, &settings, self.budget(cell), context.unwrap_or(0));
            if reserved.stats.retries > 0 {
                prediction.notes.push(returned_cache(reserved.stats.retries));
            }
            let others = match detail {
                Detail::Range => ranges::other_loads(cell, &configuration),
                _ => ranges::OtherLoads::default(),
            };
            let peaks = others.configurations.iter().filter_map(|other| {
                let load = torch::load_trace(other);
                caching_allocator::reserved_peak(&load, &trace, &settings, &device)
            });
            let likely = reserved.peak.bytes;
            let (low, high) = peaks.fold((likely, likely), |(low, high), peak| (low.min(peak), high.max(peak)));
            let peak = &reserved.allocated_peak;
            prediction = Prediction {
                binding_phase: peak.moment.phase.unwrap_or(Phase::Idle).name().to_owned(),
                binding_module: peak.moment.module.map(|module| module.to_string()),
                allocated_peak_bytes: peak.bytes,
                allocated_peak_by_category: with_rounding(&peak.by_category, peak.bytes),
                allocated_peak_in_phase: reserved.allocated_in_phase.named(),
                allocated_mean_bytes: reserved.allocated_after_steps.bytes(),
                allocated_end_bytes: Some(reserved.stats.all.allocated.current),
                reserved_peak_bytes: Some(reserved.peak.bytes),
                reserved_low_bytes: Some(low),
                reserved_high_bytes: Some(high),
                range_reason: (low < high).then(|| others.reason.to_owned()),
                reserved_after_first_step_bytes: reserved.after_steps.first().copied(),
                reserved_after_last_step_bytes: reserved.after_steps.last().copied(),
                fragmentation_bytes: Some(reserved.peak.bytes - peak.bytes),
                segments: Some(reserved.stats.all.segments.peak),
                process_peak_bytes: context.map(|context| reserved.peak.bytes + context),
                ..prediction
            };
        }
        let needed = prediction.process_peak_bytes.or(prediction.reserved_peak_bytes);
        let needed = needed.unwrap_or(prediction.allocated_peak_bytes);
        Ok(with_verdict(needed, self.budget(cell), prediction))
    }

    /// The shape of the cell's model; read once.
    ///
    /// # Errors
    /// It cannot be read, or the cell's stack cannot do it.
    pub fn model(&self, cell: &Cell) -> Result<Arc<ModelConfig>, ArchError> {
        let modules = (cell.rank > 0).then(|| cell.target_modules.clone());
        let key = (model_key(cell), cell.stack, cell.weights(), modules);
        cached(&self.models, key, || {
            arch::open(&cell.model_options(), cell.stack, &self.base_dir).map(Arc::new)
        })
    }

    /// The cell's samples.
    fn dataset(&self, cell: &Cell, options: &DataOptions, config: &ModelConfig) -> Result<Arc<Dataset>, DataError> {
        let key = (
            model_key(cell),
            cell.data.clone(),
            cell.seed,
            cell.max_seq_length,
            cell.eval_fraction.to_bits(),
            (
                options.effective_batch_size(),
                options.packing.map(|packing| packing.separator),
            ),
        );
        cached_last(&self.dataset, key, || data::load(options, config, &self.base_dir))
    }

    /// The lengths of the samples of the cell's file.
    fn lengths(
        &self,
        cell: &Cell,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> Result<Arc<SampleLengths>, DataError> {
        let key = (model_key(cell), cell.data.clone());
        cached_last(&self.lengths, key, || data::lengths(options, config, &self.base_dir))
    }

    /// The model's counts; taken once.
    fn torch_counts(&self, cell: &Cell, configuration: &torch::Configuration) -> torch::Counts {
        let key = (
            model_key(cell),
            cell.dtype,
            cell.bnb_4bit_compute_dtype,
            cell.upcast,
            cell.rank,
            cell.target_modules.clone(),
            cell.lora_fa,
            cell.adapter_dtype,
        );
        let Ok(counts) = cached(&self.torch_counts, key, || Ok::<_, Infallible>(configuration.counts()));
        counts
    }

    fn adapter_file_bytes(
        &self,
        cell: &Cell,
        options: &ModelOptions,
        config: &ModelConfig,
    ) -> Result<Option<u64>, TrainError> {
        let Some(lora) = &options.lora else { return Ok(None) };
        let key = (model_key(cell), lora.adapter, lora.rank, lora.target_modules.clone());
        cached(&self.adapter_files, key, || train::adapter_file_bytes(options, config)).map(Some)
    }

    /// The size of the file with all weights, which full fine-tuning saves. PyTorch's stack splits it into shards if it is
    /// large, which adds some kB.
    fn checkpoint_file_bytes(&self, cell: &Cell, config: &ModelConfig) -> Option<u64> {
        if cell.rank > 0 {
            return None;
        }
        let dtype = match cell.dtype {
            Dtype::Float32 => FileDtype::F32,
            Dtype::Float16 => FileDtype::F16,
            Dtype::Bfloat16 => FileDtype::Bf16,
            Dtype::Int8 | Dtype::Int4 => return None,
        };
        let Ok(bytes) = cached(&self.checkpoint_files, (model_key(cell), cell.dtype), || {
            let weights = config.weights().into_iter();
            let weights = weights.map(|weight| (weight.name, dtype, weight.shape));
            Ok::<_, Infallible>(peft::safetensors_bytes(weights))
        });
        Some(bytes)
    }
}

fn model_key(cell: &Cell) -> ModelKey {
    (cell.model.clone(), cell.task, cell.num_labels)
}

/// The planned step of a peak, if its batch decides it.
fn step_of_batch(peak: &Peak) -> Option<u32> {
    matches!(peak.phase, Some(Phase::Forward | Phase::Backward)).then_some(peak.step)
}

/// The part of a prediction of PyTorch's stack that is asked for; each has all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Live tensors.
    Live,
    /// What the allocator holds.
    Reserved,
    /// The range that this may be in.
    Range,
}

/// Replays a trace on a device without limit or, if it then needs more than the budget, within the budget: an allocator that
/// finds the device full returns its cache and tries again. What does not fit is given without limit.
fn replay_within(trace: &Trace, settings: &Settings, budget: Option<u64>, taken: u64) -> (Reserved, DeviceMemory) {
    let unlimited = caching_allocator::replay(trace, settings, &DeviceMemory::UNLIMITED);
    if let Some(total) = budget.filter(|budget| unlimited.peak.bytes + taken > *budget) {
        let device = DeviceMemory { total, taken };
        let within = caching_allocator::replay(trace, settings, &device);
        if within.out_of_memory.is_none() {
            return (within, device);
        }
    }
    (unlimited, DeviceMemory::UNLIMITED)
}

/// The note on a cell that fits because the allocator returns its cache.
fn returned_cache(times: u64) -> String {
    format!(
        "the memory is full: the allocator returns its cache and asks again, {} in the planned steps, which takes time",
        counted(times as usize, "time")
    )
}

/// The GPU that the cell names; the spec has checked that it is one.
fn own_gpu(cell: &Cell) -> Option<&'static Gpu> {
    cell.gpu.as_deref().and_then(|name| Gpu::named(name).ok())
}

fn is_closed(cell: &Cell) -> Result<(), PlanError> {
    match cell.is_open() {
        true => Err(PlanError::Open),
        false => Ok(()),
    }
}

fn fits_positions(cell: &Cell, most: usize) -> Result<(), PlanError> {
    if cell.data_options().longest_sequence() > most {
        let model = cell.model.clone();
        return Err(PlanError::Positions { model, most });
    }
    Ok(())
}

fn with_verdict(needed: u64, budget_bytes: Option<u64>, prediction: Prediction) -> Prediction {
    let verdict = |budget| {
        if needed <= budget {
            Verdict::Fits
        } else {
            Verdict::Oversize
        }
    };
    // Beside what the allocator holds, all is known.
    let likely = prediction.reserved_peak_bytes.unwrap_or(needed);
    let moved = |reserved: Option<u64>| Some(needed - likely + reserved.unwrap_or(likely));
    Prediction {
        verdict: budget_bytes.map(verdict),
        budget_bytes,
        needed_bytes: needed,
        needed_low_bytes: moved(prediction.reserved_low_bytes),
        needed_high_bytes: moved(prediction.reserved_high_bytes),
        ..prediction
    }
}

/// A prediction with the figures of an account.
fn prediction_from(account: &Account) -> Prediction {
    let peak = &account.peak;
    Prediction {
        binding_phase: peak.phase.unwrap_or(Phase::Idle).name().to_owned(),
        binding_module: peak.module.map(|module| module.to_string()),
        allocated_peak_bytes: peak.bytes,
        allocated_peak_by_category: named(&peak.by_category),
        allocated_peak_in_phase: account.in_phase.named(),
        allocated_mean_bytes: account.after_steps.bytes(),
        ..Prediction::default()
    }
}

/// The bytes of tensors by the names of their categories.
fn named(by_category: &ByCategory) -> BTreeMap<String, u64> {
    let tensors = by_category.iter().filter(|(category, _)| category.is_tensor());
    tensors
        .map(|(category, bytes)| (category.name().to_owned(), bytes))
        .collect()
}

/// The same with the difference to `allocated`: blocks of PyTorch's allocator are larger than the requests.
fn with_rounding(by_category: &ByCategory, allocated: u64) -> BTreeMap<String, u64> {
    let mut named = named(by_category);
    let requested: u64 = named.values().sum();
    named.insert(ROUNDING.to_owned(), allocated - requested);
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::check;

    /// Shapes that both stacks know are the same model's; in float32 PEFT's file is, too.
    #[test]
    fn shared_presets_have_the_same_parameters() {
        let planner = Planner::new(Path::new(""), Options::default());
        for preset in check::presets(Stack::Candle) {
            let (name, task) = (preset.name(), preset.config().task());
            let (model, dtype) = (name.into(), Dtype::Float32);
            let ours = Cell {
                model,
                dtype,
                task,
                max_steps: Some(1),
                ..Cell::default()
            };
            let torch = Cell {
                stack: Stack::Torch,
                ..ours.clone()
            };
            let counted = |cell: &Cell| {
                let prediction = planner.predict(cell).unwrap();
                (
                    prediction.parameter_count,
                    prediction.trainable_count,
                    prediction.adapter_file_bytes,
                )
            };
            assert_eq!(counted(&ours), counted(&torch), "{name}");
        }
    }

    #[test]
    fn a_budget_is_judged_by_what_the_stack_counts() {
        let planned = |budget, cell: &Cell| {
            let planner = Planner::new(Path::new(""), Options { budget, replay: true });
            planner.predict(cell).unwrap()
        };
        let ours = Cell {
            model: "tiny".into(),
            max_steps: Some(1),
            ..Cell::default()
        };
        let free = planned(None, &ours);
        assert_eq!((free.verdict, free.budget_bytes), (None, None));
        assert_eq!(free.needed_bytes, free.allocated_peak_bytes);
        let exact = planned(Some(Budget::Bytes(free.needed_bytes)), &ours);
        assert_eq!(exact.verdict, Some(Verdict::Fits));
        let less = planned(Some(Budget::Bytes(free.needed_bytes - 1)), &ours);
        assert_eq!(less.verdict, Some(Verdict::Oversize));

        let mut torch = Cell {
            stack: Stack::Torch,
            max_steps: Some(1),
            ..Cell::default()
        };
        let unnamed = planned(None, &torch);
        assert_eq!(
            Some(unnamed.needed_bytes),
            unnamed.reserved_peak_bytes,
            "no context is known"
        );
        torch.gpu = Some("t4".into());
        let named = planned(None, &torch);
        assert_eq!(Some(named.needed_bytes), named.process_peak_bytes);
        assert_eq!(named.budget_bytes, Gpu::named("t4").ok().map(|gpu| gpu.total_bytes));
        // A GPU as the budget is the GPU that is planned for, whatever the cell names.
        let other = planned(Gpu::named("rtx-3090").ok().map(Budget::Gpu), &torch);
        torch.gpu = Some("rtx-3090".into());
        assert_eq!(other, planned(None, &torch));
        assert_ne!(other.process_peak_bytes, named.process_peak_bytes);
    }
}
