//! What plans are made from: models, data and counts, each read or computed once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use arch::{ArchError, ModelConfig};
use cell::{Cell, Data, Dtype, LoraATraining, Stack, Task, Upcast, Weights};
use data::{DataError, Sampler, TextLengths, TrainingSamples};
use hub::Roots;
use options::{Adapter, DataOptions, ModelOptions, PackingSeparator};
use peft::FileDtype;
use train::TrainError;

use super::cache::{cached, cached_last};

/// The inputs of plans.
#[derive(Debug)]
pub(super) struct Inputs {
    /// Where the names in cells lead.
    roots: Roots,
    /// Shapes that were read, by what decides them and whether the cell's stack can use them.
    models: Mutex<HashMap<ConfigKey, Arc<ModelConfig>>>,
    /// The samples that were read last: cells of a study mostly share theirs.
    samples: Mutex<Option<(SamplesKey, Arc<TrainingSamples>)>>,
    /// The order of the last ones.
    sampler: Mutex<Option<(OrderKey, Arc<Sampler>)>>,
    /// The lengths of a file's samples that were read last.
    lengths: Mutex<Option<(LengthsKey, Arc<TextLengths>)>>,
    /// Counts of the torch stack's models by what decides them: most cells of a spec differ in batch and length alone.
    torch_counts: Mutex<HashMap<CountsKey, torch::Counts>>,
    /// Sizes of adapters' files, by model, adapter, rank and trained modules.
    adapter_files: Mutex<HashMap<AdapterKey, u64>>,
    /// Sizes of files with all weights, by model and format.
    checkpoint_files: Mutex<HashMap<(ModelKey, Dtype), u64>>,
}

/// The keys that decide a cell's samples: model, data, length, the token between them, and the seed of synthetic ones.
type SamplesKey = (ModelKey, Data, usize, Option<PackingSeparator>, Option<u64>);

/// The keys that decide their order: the seed, the held-out part, and how many it needs.
type OrderKey = (SamplesKey, u64, u64, usize);

/// The keys that decide the size of an adapter's file: model, adapter, rank, and the trained modules.
type AdapterKey = (ModelKey, Adapter, usize, Option<String>);

/// The keys that decide the lengths of a file's samples before they are cut.
type LengthsKey = (ModelKey, Data);

/// The cell's keys that decide a model's shape.
type ModelKey = (String, Task, usize);

/// The keys that decide whether it can be used: the stack, the origin of the weights, and the modules that are trained.
type ConfigKey = (ModelKey, Stack, Weights, Option<String>);

/// The keys that decide its counts: dtype, compute dtype, upcast, rank, trained modules, adapter, lora_fa, adapter dtype.
type CountsKey = (
    ModelKey,
    Dtype,
    Dtype,
    Upcast,
    usize,
    Option<String>,
    (Adapter, LoraATraining),
    Dtype,
);

impl Inputs {
    /// Nothing is read yet; the names in cells lead to `roots`.
    pub(super) fn new(roots: Roots) -> Self {
        Self {
            roots,
            models: Mutex::default(),
            samples: Mutex::default(),
            sampler: Mutex::default(),
            lengths: Mutex::default(),
            torch_counts: Mutex::default(),
            adapter_files: Mutex::default(),
            checkpoint_files: Mutex::default(),
        }
    }

    /// The shape of the cell's model; read once.
    ///
    /// # Errors
    /// It cannot be read, or the cell's stack cannot do it.
    pub(super) fn model(&self, cell: &Cell) -> Result<Arc<ModelConfig>, ArchError> {
        let key = (model_key(cell), cell.stack, cell.weights(), cell.trained_modules());
        cached(&self.models, key, || {
            arch::open(&cell.model_options(), cell.stack, &self.roots).map(Arc::new)
        })
    }

    /// The cell's samples.
    pub(super) fn sampler(
        &self,
        cell: &Cell,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> Result<Arc<Sampler>, DataError> {
        let samples_key = (
            model_key(cell),
            options.data.clone(),
            options.max_seq_length,
            options.packing.map(|packing| packing.separator),
            matches!(options.data, Data::Synthetic(_)).then_some(options.seed),
        );
        let order_key = (
            samples_key.clone(),
            options.seed,
            options.eval_fraction.to_bits(),
            options.effective_batch_size(),
        );
        cached_last(&self.sampler, order_key, || {
            let read = || TrainingSamples::read(options, config, &self.roots);
            cached_last(&self.samples, samples_key, read)?.sampler(options)
        })
    }

    /// The lengths of the samples of the cell's file.
    pub(super) fn lengths(
        &self,
        cell: &Cell,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> Result<Arc<TextLengths>, DataError> {
        let key = (model_key(cell), options.data.clone());
        cached_last(&self.lengths, key, || data::lengths(options, config, &self.roots))
    }

    /// The model's counts; taken once.
    pub(super) fn torch_counts(&self, cell: &Cell, configuration: &torch::Configuration) -> torch::Counts {
        let key = (
            model_key(cell),
            cell.dtype,
            cell.bnb_4bit_compute_dtype,
            cell.upcast,
            cell.rank,
            cell.trained_modules(),
            (cell.adapter, cell.lora_fa),
            cell.adapter_dtype,
        );
        let Ok(counts) = cached(&self.torch_counts, key, || Ok::<_, Infallible>(configuration.counts()));
        counts
    }

    pub(super) fn adapter_file_bytes(
        &self,
        cell: &Cell,
        options: &ModelOptions,
        config: &ModelConfig,
    ) -> Result<Option<u64>, TrainError> {
        let Some(adapter) = &options.adapter else {
            return Ok(None);
        };
        let key = (
            model_key(cell),
            adapter.method.adapter(),
            cell.rank,
            cell.trained_modules(),
        );
        cached(&self.adapter_files, key, || train::adapter_file_bytes(options, config)).map(Some)
    }

    /// The size of the file with all weights in the format of those that are trained, which training without adapters saves. PyTorch's stack splits it into shards if it is
    /// large, which adds some kB.
    pub(super) fn checkpoint_file_bytes(&self, cell: &Cell, config: &ModelConfig) -> Option<u64> {
        let saves_quantised = cell.stack == Stack::Torch && cell.dtype.is_quantised();
        if cell.rank > 0 || saves_quantised {
            return None;
        }
        let format = cell.model_options().hidden_dtype();
        let dtype = match format {
            Dtype::Float32 => FileDtype::F32,
            Dtype::Float16 => FileDtype::F16,
            Dtype::Bfloat16 => FileDtype::Bf16,
            // No weight beside quantised ones is.
            Dtype::Int8 | Dtype::Int4 => return None,
        };
        let Ok(bytes) = cached(&self.checkpoint_files, (model_key(cell), format), || {
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
