//! What plans are made from: models, data and counts, each read or computed once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use arch::{ArchError, ModelConfig};
use cell::{Cell, Data, Dtype, Stack};
use data::{DataError, Sampler, TextLengths, TrainingSamples};
use hub::Roots;
use options::{
    Attention, Autocast, DataOptions, Loss, ModelOptions, Packing, PackingAttention, PackingStrategy, Padding,
    TrainingLength,
};
use peft::FileDtype;
use train::TrainError;

use super::cache::{Key, cached, cached_last, lock};
use super::samples::{self, ReadApart};

/// The inputs of plans, each by a hash of the options that it is made from.
#[derive(Debug)]
pub(super) struct Inputs {
    /// Where the names in cells lead.
    roots: Roots,
    /// What reads samples; this process without one.
    apart: Option<Arc<dyn ReadApart>>,
    /// Shapes that were read.
    models: Mutex<HashMap<Key, Arc<ModelConfig>>>,
    /// The samples that were read last: cells of a study mostly share theirs.
    samples: Mutex<Option<(Key, Arc<TrainingSamples>)>>,
    /// The order of the last ones.
    sampler: Mutex<Option<(Key, Arc<Sampler>)>>,
    /// The lengths of a file's samples that were read last.
    lengths: Mutex<Option<(Key, Arc<TextLengths>)>>,
    /// Why samples were not read: those that ended the process that read them are not tried twice.
    ended: Mutex<HashMap<Key, String>>,
    /// Counts of the torch stack's models: most cells of a spec differ in batch and length alone.
    torch_counts: Mutex<HashMap<Key, torch::Counts>>,
    /// Sizes of adapters' files.
    adapter_files: Mutex<HashMap<Key, u64>>,
    /// Sizes of files with all weights.
    checkpoint_files: Mutex<HashMap<Key, u64>>,
}

impl Inputs {
    /// Nothing is read yet; the names in cells lead to `roots`.
    pub(super) fn new(roots: Roots, apart: Option<Arc<dyn ReadApart>>) -> Self {
        Self {
            roots,
            apart,
            models: Mutex::default(),
            samples: Mutex::default(),
            sampler: Mutex::default(),
            lengths: Mutex::default(),
            ended: Mutex::default(),
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
        let options = cell.model_options();
        cached(&self.models, Key::of(&(options.of_any_length(), cell.stack)), || {
            arch::open(&options, cell.stack, &self.roots).map(Arc::new)
        })
    }

    /// Where the names in cells lead.
    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The cell's samples in their order.
    pub(super) fn sampler(
        &self,
        cell: &Cell,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> Result<Arc<Sampler>, DataError> {
        cached_last(&self.sampler, Key::of(&(options, config)), || {
            let key = Key::of(&(of_any_order(options), config));
            let read = || samples::training(self.apart.as_deref(), cell, options, config, &self.roots);
            cached_last(&self.samples, key, || self.unless_ended(key, read))?.sampler(options)
        })
    }

    /// The lengths of the samples of the cell's file.
    pub(super) fn lengths(
        &self,
        cell: &Cell,
        options: &DataOptions,
        config: &ModelConfig,
    ) -> Result<Arc<TextLengths>, DataError> {
        let of_any_length = DataOptions {
            max_seq_length: 0,
            ..of_any_order(options)
        };
        let key = Key::of(&(of_any_length, config));
        let read = || samples::lengths(self.apart.as_deref(), cell, options, config, &self.roots);
        cached_last(&self.lengths, key, || self.unless_ended(key, read))
    }

    /// Reads samples, unless those of this key ended the process that read them.
    fn unless_ended<T>(&self, key: Key, read: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
        if let Some(reason) = lock(&self.ended).get(&key) {
            return Err(DataError::Ended(reason.clone()));
        }
        read().inspect_err(|error| {
            if let DataError::Ended(reason) = error {
                lock(&self.ended).insert(key, reason.clone());
            }
        })
    }

    /// The model's counts; taken once.
    pub(super) fn torch_counts(&self, cell: &Cell, configuration: &torch::Configuration) -> torch::Counts {
        let key = Key::of(&(of_weights(&cell.model_options()), &cell.torch));
        let Ok(counts) = cached(&self.torch_counts, key, || Ok::<_, Infallible>(configuration.counts()));
        counts
    }

    pub(super) fn adapter_file_bytes(
        &self,
        options: &ModelOptions,
        config: &ModelConfig,
    ) -> Result<Option<u64>, TrainError> {
        if options.adapter.is_none() {
            return Ok(None);
        }
        cached(&self.adapter_files, Key::of(&of_weights(options)), || {
            train::adapter_file_bytes(options, config)
        })
        .map(Some)
    }

    /// The size of the file with all weights in the format of those that are trained, which training without adapters
    /// saves. PyTorch's stack splits it into shards if it is large, which adds some kB.
    pub(super) fn checkpoint_file_bytes(&self, cell: &Cell, config: &ModelConfig) -> Option<u64> {
        let saves_quantised = cell.stack == Stack::Torch && cell.dtype.is_quantised();
        if cell.method().is_some() || saves_quantised {
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
        let Ok(bytes) = cached(&self.checkpoint_files, Key::of(&(config, format)), || {
            let weights = config.weights().into_iter();
            let weights = weights.map(|weight| (weight.name, dtype, weight.shape));
            Ok::<_, Infallible>(peft::safetensors_bytes(weights))
        });
        Some(bytes)
    }
}

/// The options of the model, but for what changes no weight.
fn of_weights(options: &ModelOptions) -> ModelOptions {
    ModelOptions {
        autocast: Autocast::None,
        attn_implementation: Attention::Sdpa,
        loss: Loss::Full,
        offloaded_blocks: None,
        offloads_embeddings: false,
        ..options.of_any_length()
    }
}

/// The options of the data, but for what only orders samples and lays them into batches.
fn of_any_order(options: &DataOptions) -> DataOptions {
    let is_drawn = matches!(options.data, Data::Synthetic(_));
    DataOptions {
        padding: Padding::Longest,
        pad_to_multiple_of: 1,
        packing: options.packing.map(|packing| Packing {
            separator: packing.separator,
            attention: PackingAttention::Full,
            strategy: PackingStrategy::Wrapped,
        }),
        batch_size: 1,
        gradient_accumulation_steps: 1,
        max_tokens_per_batch: None,
        length_groups: None,
        longest_first: false,
        holds_scores: false,
        length: TrainingLength::Steps(1),
        eval_fraction: 0.0,
        seed: if is_drawn { options.seed } else { 0 },
        ..options.clone()
    }
}
