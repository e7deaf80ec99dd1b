//! Turns a memory trace into a prediction.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arch::{ArchError, ModelConfig};
use base::text::format;
use cell::{Attention, Cell, Stack};
use data::DataError;
use hub::Roots;
use options::{DataOptions, Generation, InstructionSet};
use rayon::prelude::*;
use records::prediction::{Prediction, Verdict};
use torch::caching_allocator::{AllocationFailed, DeviceMemory};
use torch::{
    self, Bitsandbytes, Configuration, Deepspeed, Peft, Pytorch, Transformers, Trl,
    gpu::{Budget, Context, Gpu},
};
use trace::Phase;
use trace::{Account, Peak, Trace};

use super::PlanError;
use super::batches::{self, BetweenSteps, Depth, Planned, TorchStep};
use super::cache::{Key, cached_apart};
use super::device::Device;
use super::figures::{Needed, prediction_from, with_reserved, with_rounding, with_verdict};
use super::headroom::Headroom;
use super::inputs::Inputs;
use super::norms::check_norms;
use super::ranges::{self, OtherLoads};
use super::samples::ReadApart;
use super::speed::{Speed, speed};
use super::torch_configuration::torch_configuration;
use super::work::work;

/// PyTorch's allocator rounds sizes up to a multiple of this, in bytes.
const GPU_GRANULARITY: u64 = 512;

/// Bytes that the trainer's process holds beside its tensors: the program, its libraries, and what its threads pack
/// operands into. Read off runs of many sizes (`docs/accuracy.md`). How well its allocator uses its pages is not
/// followed.
const PROCESS: u64 = 25 << 20;

/// Plans the cells of a spec.
#[derive(Debug)]
pub struct Planner {
    /// What the plans are made from.
    inputs: Inputs,
    options: Options,
    /// Peaks of data that is as possible as a cell's own, by all that they follow from.
    other_peaks: Mutex<HashMap<Key, OtherPeaks>>,
    /// Plans that were begun.
    begun: Arc<AtomicUsize>,
}

/// Peaks of a replay, in bytes.
#[derive(Debug, Clone, Copy)]
struct OtherPeaks {
    reserved: u64,
    allocated: u64,
}

/// How a spec is planned.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The budget of every cell, in place of its own `device_memory` or `gpu`.
    pub budget: Option<Budget>,
    /// Replay the torch stack's traces through PyTorch's allocator; predictions of reserved memory need it.
    pub replay: bool,
    /// The memory that stays free. No figure has it; searches fit into what it leaves of the budget.
    pub headroom: Headroom,
    /// The instruction set that `auto` means where cells run; the fastest of this CPU if none is given.
    pub instruction_set: Option<InstructionSet>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: None,
            replay: true,
            headroom: Headroom::None,
            instruction_set: None,
        }
    }
}

impl Planner {
    /// A planner of cells whose names lead to `roots`.
    pub fn new(roots: impl Into<Roots>, options: Options) -> Self {
        Self {
            inputs: Inputs::new(roots.into(), None),
            options,
            other_peaks: Mutex::default(),
            begun: Arc::default(),
        }
    }

    /// A planner of the cells of a study, whose samples `apart` reads.
    pub fn reading_apart(roots: Roots, options: Options, apart: Arc<dyn ReadApart>) -> Self {
        Self {
            inputs: Inputs::new(roots, Some(apart)),
            ..Self::new(Roots::default(), options)
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
    /// [`PAST_HOST`](records::prediction::PAST_HOST) if the host's memory is not enough.
    ///
    /// # Errors
    /// Those of [`Self::predict`].
    pub fn needed_at_least(&self, cell: &Cell) -> Result<u64, PlanError> {
        let allocated = match cell.stack {
            Stack::Candle => return Ok(self.predict_candle(cell)?.needed_within_host()),
            Stack::Torch => self.predict_torch(cell, Detail::Live)?,
        };
        Ok(allocated.needed_bytes)
    }

    /// Bytes that `cell` needs, without the range that they may be in. [`PAST_HOST`](records::prediction::PAST_HOST) if
    /// the host's memory is not enough.
    ///
    /// # Errors
    /// Those of [`Self::predict`].
    pub fn needed(&self, cell: &Cell) -> Result<u64, PlanError> {
        let prediction = match cell.stack {
            Stack::Candle => self.predict_candle(cell)?,
            Stack::Torch => self.predict_torch(cell, Detail::Reserved)?,
        };
        Ok(prediction.needed_within_host())
    }

    /// Bytes that `cell` needs in a few of its steps: seldom more than in all, and quicker than [`Self::needed`].
    /// `None` if its plan has no more steps than that.
    ///
    /// # Errors
    /// Those of [`Self::predict`].
    pub fn needed_in_few_steps(&self, cell: &Cell) -> Result<Option<u64>, PlanError> {
        if cell.stack == Stack::Candle {
            return Ok(None);
        }
        let (model, options) = (self.inputs.model(cell)?, cell.data_options());
        let steps = |depth| {
            self.torch_steps(cell, &options, &model, cell.torch.generation, depth)
                .map(|planned| planned.steps.len())
        };
        if steps(Depth::Few)? == steps(Depth::Replayed)? {
            return Ok(None);
        }
        Ok(Some(self.predict_torch(cell, Detail::Few)?.needed_bytes))
    }

    /// The shape of the cell's model; read once.
    ///
    /// # Errors
    /// It cannot be read, or the cell's stack cannot do it.
    pub fn model(&self, cell: &Cell) -> Result<Arc<ModelConfig>, ArchError> {
        self.inputs.model(cell)
    }

    /// The budget of `cell` in bytes: that of all cells, or its own.
    pub fn budget(&self, cell: &Cell) -> Option<u64> {
        self.options.budget.map(Budget::bytes).or_else(|| match cell.stack {
            Stack::Candle => cell.device_memory.map(|size| size.0),
            Stack::Torch => own_gpu(cell).map(|gpu| gpu.total_bytes),
        })
    }

    /// How long an optimizer step of `cell` takes on its GPU, if that can be told.
    pub fn speed(&self, cell: &Cell) -> Option<Speed> {
        speed(cell, &*self.inputs.model(cell).ok()?, self.gpu(cell))
    }

    /// Floating-point operations of the training of a cell with this prediction, if its steps are known.
    pub fn work(&self, cell: &Cell, prediction: &Prediction) -> Option<f64> {
        work(cell, &*self.inputs.model(cell).ok()?, prediction)
    }

    /// Bytes of the budget of `cell` that stay free; 0 without a budget.
    pub fn headroom(&self, cell: &Cell) -> u64 {
        let of = |budget| self.options.headroom.of(budget, cell.stack == Stack::Torch);
        self.budget(cell).map_or(0, of)
    }

    /// What searches fit `cell` into: its budget less the headroom.
    pub fn limit(&self, cell: &Cell) -> Option<u64> {
        Some(self.budget(cell)?.saturating_sub(self.headroom(cell)))
    }

    /// The GPU that `cell` is planned for.
    fn gpu(&self, cell: &Cell) -> Option<&'static Gpu> {
        match (cell.stack, self.options.budget) {
            (Stack::Candle, _) => None,
            (Stack::Torch, Some(Budget::Gpu(gpu))) => Some(gpu),
            (Stack::Torch, _) => own_gpu(cell),
        }
    }

    /// The shape of the model of a cell that can be planned with it.
    fn checked_model(&self, cell: &Cell) -> Result<Arc<ModelConfig>, PlanError> {
        is_closed(cell)?;
        let model = self.inputs.model(cell)?;
        let positions = fits_positions(cell, model.max_position_embeddings);
        if !is_trained_beyond(cell, &model) {
            positions?;
        }
        cell.check_names_in(&model)
            .map_err(|(key, mistake)| PlanError::Names(key, mistake))?;
        check_norms(cell, &model, self.inputs.roots())?;
        Ok(model)
    }

    /// Counts the plans that are begun, for a line that says so.
    pub fn begun(&self) -> Arc<AtomicUsize> {
        self.begun.clone()
    }

    fn predict_candle(&self, cell: &Cell) -> Result<Prediction, PlanError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        if cell.device().is_some_and(|device| device != options::Device::Cpu) {
            return Err(PlanError::Device(cell.device_name().to_owned()));
        }
        let config = self.checked_model(cell)?;
        let options = cell.train_options();
        let steps = batches::steps(&options.data, &config, || {
            self.inputs.sampler(cell, &options.data, &config)
        })?;
        let level = cell.instruction_set.level().or(self.options.instruction_set);
        let level = level.unwrap_or_else(|| kernels::resolve(cell.instruction_set));
        let planned = train::dry_run(&options, level, &config, &steps.steps)?;
        let account = Account::of(&planned.trace, 1, planned.measured_from);
        let host_peak = account.host_peak;
        let prediction = Prediction {
            host_allocated_peak_bytes: (host_peak > 0).then_some(host_peak),
            host_budget_bytes: cell.host_memory.map(|size| size.0),
            parameter_count: config.parameter_count(),
            trainable_count: planned.trainable_count,
            checkpoint_file_bytes: self.inputs.checkpoint_file_bytes(cell, &config),
            adapter_file_bytes: self.inputs.adapter_file_bytes(&options.model, &config)?,
            process_peak_bytes: Some(account.peak.bytes + host_peak + PROCESS),
            training_steps: steps.training_steps(),
            worst_batch: steps.worst(step_of_batch(&account.peak)),
            notes: config.remark().into_iter().collect(),
            ..prediction_from(&account)
        };
        // The trainer's own budgets are on allocated bytes too.
        let needed = Needed {
            training: prediction.allocated_peak_bytes,
            loading: account.in_phase[Phase::Load],
            context: 0,
        };
        let prediction = with_verdict(&needed, self.budget(cell), prediction);
        if prediction.past_host_budget().is_some() {
            return Ok(Prediction {
                verdict: Some(Verdict::Oversize),
                ..prediction
            });
        }
        Ok(prediction)
    }

    fn predict_torch(&self, cell: &Cell, detail: Detail) -> Result<Prediction, PlanError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let model = self.checked_model(cell)?;
        let gpu = self.gpu(cell);
        gpu.map_or(Ok(()), |gpu| cell.check_gpu(gpu))
            .map_err(|invalid| PlanError::Gpu(Box::new(invalid)))?;
        let configuration = torch_configuration(cell, (*model).clone(), gpu)?;
        let counts = self.inputs.torch_counts(cell, &configuration);
        if cell.method().is_some() && !counts.is_adapted {
            return Err(PlanError::NoModule(cell.model.clone()));
        }
        let options = cell.data_options();
        let depth = match detail {
            Detail::Live => Depth::Live(configuration.outputs),
            Detail::Few => Depth::Few,
            Detail::Reserved | Detail::Range => Depth::Replayed,
        };
        let loads = match detail {
            Detail::Range => ranges::other_loads(cell, &configuration),
            _ => OtherLoads::default(),
        };
        let (planned, load_traces) = rayon::join(
            || self.torch_trace(cell, &options, &configuration, depth),
            || {
                loads
                    .configurations
                    .par_iter()
                    .map(torch::load_trace)
                    .collect::<Vec<_>>()
            },
        );
        let (planned, trace) = planned?;
        let context = Context::of(gpu, cell.world_size);
        let device = match detail {
            Detail::Live => None,
            _ => Some(Device {
                settings: cell
                    .pytorch_allocator()
                    .map_err(|invalid| PlanError::Allocator(Box::new(invalid)))?,
                budget: self.budget(cell),
                taken: context.likely,
            }),
        };
        let (account, replayed) = rayon::join(
            || Account::of(&trace, GPU_GRANULARITY, 1),
            || device.as_ref().map(|device| device.replay(&trace, &load_traces)),
        );
        // What the allocator holds is at most a few times as much.
        if account.peak.bytes > DeviceMemory::UNLIMITED.total / 4 {
            return Err(PlanError::TooLarge(account.peak.bytes));
        }
        let mut prediction = Prediction {
            parameter_count: counts.parameters,
            trainable_count: counts.trainable,
            checkpoint_file_bytes: self.inputs.checkpoint_file_bytes(cell, &model),
            adapter_file_bytes: counts.adapter_file_bytes,
            allocated_peak_by_category: with_rounding(&account.peak.by_category, account.peak.bytes),
            planned_steps: Some(planned.steps.len() as u64),
            allocated_end_bytes: Some(account.at_end),
            notes: gpu.map_or_else(Vec::new, |gpu| cell.notes_on(gpu)),
            training_steps: planned.training_steps(),
            worst_batch: planned.worst(step_of_batch(&account.peak)),
            ..prediction_from(&account)
        };
        if let Err(PlanError::Positions { most, .. }) = fits_positions(cell, model.max_position_embeddings) {
            let most = format::number((most as f64).into(), 0);
            prediction.notes.push(format!(
                "the model has {most} positions (by its config.json): PyTorch trains it on longer samples, which it \
                 was not made for"
            ));
        }
        prediction.notes.extend(model.remark());
        if cell.torch.compile {
            let note = "the plan is of eager mode: torch.compile, which the cell asks for, is not modelled";
            prediction.notes.push(note.to_owned());
        }
        prediction.notes.extend(planned.rank().map(|rank| {
            format!(
                "rank {rank} of ranks 0 to {} has the largest micro-batch: its memory is planned",
                cell.world_size - 1
            )
        }));
        prediction.notes.extend(nearest_releases(cell, &model));
        let mut loading = account.in_phase[Phase::Load];
        if let (Some(device), Some(replayed)) = (device, replayed) {
            loading = replayed.reserved.in_phase[Phase::Load];
            prediction = with_reserved(prediction, &replayed.reserved, context.likely);
            prediction.reserved_with_room_bytes = replayed.with_room;
            prediction.notes.extend(replayed.failed.map(failure));
            prediction.widen(&replayed.after_other_loads, loads.reason);
            if let Some(other) = ranges::other_lead(&configuration).filter(|_| detail == Detail::Range) {
                let peaks = self.peaks_on(cell, &options, depth, &other.configuration, &device)?;
                prediction.widen(&[peaks.reserved], other.reason);
            }
            if let Some(lengths) = ranges::other_lengths(&options).filter(|_| detail == Detail::Range) {
                // What is generated finds other free blocks after other lengths. Equal ones and the plan itself show
                // that; a few steps are for the training alone.
                let training = Configuration {
                    generation: None,
                    ..configuration.clone()
                };
                for (data, depth) in &lengths.data {
                    let of = match depth {
                        Depth::Few => &training,
                        _ => &configuration,
                    };
                    let peaks = self.peaks_on(cell, data, *depth, of, &device)?;
                    prediction.widen(&[peaks.reserved], &lengths.reason);
                    prediction.widen_allocated(peaks.allocated);
                }
            }
        }
        prediction.context_bytes = Some(context.likely);
        prediction.context_low_bytes = Some(context.low);
        prediction.context_high_bytes = Some(context.high);
        let needed = Needed {
            training: prediction.held_in_training(),
            loading,
            context: context.likely,
        };
        Ok(with_verdict(&needed, self.budget(cell), prediction))
    }

    /// The steps of PyTorch's stack that decide the memory of training on `options`.
    fn torch_steps(
        &self,
        cell: &Cell,
        options: &DataOptions,
        model: &ModelConfig,
        generation: Option<Generation>,
        depth: Depth,
    ) -> Result<Planned<TorchStep>, DataError> {
        batches::torch_steps(
            &cell.of_all_ranks(options.clone()),
            cell.world_size,
            depth,
            BetweenSteps {
                eval_steps: generation.map(|generation| generation.eval_steps),
                empty_cache_steps: cell.empty_cache_steps,
            },
            cell.attn_implementation == Attention::FlashAttention2,
            || self.inputs.sampler(cell, options, model),
            || self.inputs.lengths(cell, options, model),
        )
    }

    /// The trace of a cell of PyTorch's stack: its load, and the steps that decide its live tensors.
    pub(super) fn live_trace(&self, cell: &Cell) -> Result<Trace, PlanError> {
        let model = self.checked_model(cell)?;
        let configuration = torch_configuration(cell, (*model).clone(), self.gpu(cell))?;
        let depth = Depth::Live(configuration.outputs);
        let (_, trace) = self.torch_trace(cell, &cell.data_options(), &configuration, depth)?;
        Ok(trace)
    }

    /// The steps of PyTorch's stack that decide the memory of training, with their trace.
    fn torch_trace(
        &self,
        cell: &Cell,
        options: &DataOptions,
        configuration: &Configuration,
        depth: Depth,
    ) -> Result<(Planned<TorchStep>, Trace), PlanError> {
        let planned = self.traceable_steps(cell, options, configuration, depth)?;
        let trace = trace_of(configuration, &planned);
        Ok((planned, trace))
    }

    /// The steps of PyTorch's stack, after one of which the model generates if it is to.
    fn traceable_steps(
        &self,
        cell: &Cell,
        options: &DataOptions,
        configuration: &Configuration,
        depth: Depth,
    ) -> Result<Planned<TorchStep>, PlanError> {
        let planned = self.torch_steps(cell, options, &configuration.model, configuration.generation, depth)?;
        let steps = &planned.steps;
        if configuration.generation.is_some() && !steps.iter().any(|step| step.generates) {
            let steps = planned.training_steps().unwrap_or(steps.len() as u64);
            return Err(PlanError::NeverGenerates(steps as usize));
        }
        Ok(planned)
    }

    /// The peaks of training on other data. Lengths that are all the same leave nothing to draw, so that cells which
    /// differ in their seed share theirs.
    fn peaks_on(
        &self,
        cell: &Cell,
        options: &DataOptions,
        depth: Depth,
        configuration: &Configuration,
        device: &Device,
    ) -> Result<OtherPeaks, PlanError> {
        let planned = self.traceable_steps(cell, options, configuration, depth)?;
        let key = Key::of(&(configuration, &planned.steps, planned.training_steps(), device));
        Ok(cached_apart(&self.other_peaks, &key, || {
            let replayed = device.replay(&trace_of(configuration, &planned), &[]).reserved;
            OtherPeaks {
                reserved: replayed.peak.bytes,
                allocated: replayed.allocated_peak.bytes,
            }
        }))
    }
}

/// The trace of planned steps.
fn trace_of(configuration: &Configuration, planned: &Planned<TorchStep>) -> Trace {
    torch::trace_parts(configuration, &batches::parts(&planned.steps))
}

/// The note on a replay that ran out of memory.
fn failure(failed: AllocationFailed) -> String {
    let AllocationFailed { error, moment } = failed;
    let [requested, allocated, reserved] =
        [error.requested, error.allocated, error.reserved].map(|bytes| format::bytes(bytes.into()));
    let phase = moment.phase.unwrap_or(Phase::Idle).name();
    let module = moment.module.map(|module| format!(", {module}")).unwrap_or_default();
    format!(
        "memory runs out in step {}, {phase}{module}: {requested} are asked for with {allocated} allocated and {reserved} \
         reserved",
        moment.step
    )
}

/// The planned step of a peak, if its batch decides it.
fn step_of_batch(peak: &Peak) -> Option<u32> {
    matches!(peak.phase, Some(Phase::Forward | Phase::Backward)).then_some(peak.step)
}

/// The part of a prediction of PyTorch's stack that is asked for; each has all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Live tensors.
    Live,
    /// What the allocator holds in a few steps.
    Few,
    /// What the allocator holds.
    Reserved,
    /// The range that this may be in.
    Range,
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

/// True if PyTorch's stack trains the model on samples longer than its positions: they are rotated, and looked up in no
/// table. Lengths of texts are known up to the positions alone.
pub(crate) fn is_trained_beyond(cell: &Cell, model: &ModelConfig) -> bool {
    cell.stack == Stack::Torch && !model.family.is_encoder() && matches!(cell.data, cell::Data::Synthetic(_))
}

/// What the releases stand for of which the cell asks for the nearest.
fn nearest_releases(cell: &Cell, model: &ModelConfig) -> Vec<String> {
    let torch = &cell.torch;
    let of = |key: &str, release: &Option<String>, planned: &dyn Fn(&str) -> Option<String>| {
        let release = release.as_deref()?;
        let planned = planned(release)?;
        Some(format!("`{key}: {release}`: {planned} is planned"))
    };
    let transformers = |release: &str| Transformers::planned(release, model.family);
    let notes = [
        of("transformers_version", &torch.transformers_version, &transformers),
        of("peft_version", &torch.peft_version, &Peft::planned),
        of("trl_version", &torch.trl_version, &Trl::planned),
        of(
            "bitsandbytes_version",
            &torch.bitsandbytes_version,
            &Bitsandbytes::planned,
        ),
        of("deepspeed_version", &torch.deepspeed_version, &Deepspeed::planned),
        of("torch_version", &torch.torch_version, &Pytorch::planned),
    ];
    notes.into_iter().flatten().collect()
}

fn fits_positions(cell: &Cell, most: usize) -> Result<(), PlanError> {
    let own = cell.model_options().virtual_tokens();
    let generated = |generation: Generation| generation.prompt_tokens + generation.max_new_tokens;
    for (tokens, asked_by) in [
        (cell.data_options().longest_sequence(), "max_seq_length"),
        (cell.torch.generation.map_or(0, generated), "torch.generation"),
    ] {
        if own + tokens > most {
            let model = cell.model.clone();
            return Err(PlanError::Positions {
                model,
                most,
                own,
                asked_by,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arch::check;
    use options::{Attention, Data, Dtype, Lengths, Padding, Synthetic};

    use super::*;

    /// Shapes that both stacks know are the same model's; in float32 PEFT's file is, too.
    #[test]
    fn shared_presets_have_the_same_parameters() {
        let planner = Planner::new("", Options::default());
        for preset in check::presets(Stack::Candle) {
            let (name, task) = (preset.name(), preset.config().task());
            let (model, dtype) = (name.into(), Dtype::Float32);
            let ours = Cell {
                model,
                dtype,
                task,
                max_steps: Some(1),
                // transformers has no other with soft caps.
                attn_implementation: Attention::Eager,
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

    /// A search leaves out what needs too much in few steps, which no plan of all steps may need less for.
    #[test]
    fn few_steps_of_uneven_data_show_what_all_need() {
        let planner = Planner::new("", Options::default());
        let cell = |lengths| Cell {
            stack: Stack::Torch,
            model: "tiny".into(),
            padding: Padding::Longest,
            batch_size: 1,
            gradient_accumulation_steps: 1,
            max_seq_length: 64,
            max_steps: Some(60),
            data: Data::Synthetic(Synthetic {
                lengths,
                ..Synthetic::default()
            }),
            ..Cell::default()
        };
        let uneven = cell(Lengths::List((0..60).map(|sample| 2 + sample * 37 % 61).collect()));
        let few = planner.needed_in_few_steps(&uneven).unwrap().unwrap();
        assert!(few <= planner.needed(&uneven).unwrap());
        assert!(few >= planner.needed_at_least(&uneven).unwrap());
        assert_eq!(planner.needed_in_few_steps(&cell(Lengths::Fixed)).unwrap(), None);
    }

    #[test]
    fn a_budget_is_judged_by_what_the_stack_counts() {
        let planned = |budget, cell: &Cell| {
            let planner = Planner::new(
                "",
                Options {
                    budget,
                    ..Options::default()
                },
            );
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

        // What the load takes counts too.
        let small = Cell {
            model: "tiny".into(),
            dtype: Dtype::Int4,
            rank: 2,
            batch_size: 1,
            max_seq_length: 4,
            max_steps: Some(1),
            ..Cell::default()
        };
        let loading = planned(None, &small);
        assert!(loading.needed_bytes > loading.allocated_peak_bytes);
        assert_eq!(loading.needed_bytes, loading.allocated_peak_in_phase["load"]);
        let less = planned(Some(Budget::Bytes(loading.needed_bytes - 1)), &small);
        assert_eq!(less.verdict, Some(Verdict::Oversize));

        let mut torch = Cell {
            stack: Stack::Torch,
            max_steps: Some(1),
            ..Cell::default()
        };
        let unnamed = planned(None, &torch);
        let context = Context::on(None).likely;
        assert_eq!(
            Some(unnamed.needed_bytes - context),
            unnamed.reserved_peak_bytes,
            "the context is an estimate"
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
