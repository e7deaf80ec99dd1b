//! The door between a spec and what it configures: turns a cell into the options of each crate.

use options::{
    AdamwOptions, AdapterOptions, Attention, DataOptions, LengthGroups, LoraATraining, LowRankOptions, ModelOptions,
    OptimizerOptions, Packing, ScheduleOptions, TrainOptions, TrainingLength,
};

use super::Cell;

impl Cell {
    /// The options that decide the model.
    pub fn model_options(&self) -> ModelOptions {
        ModelOptions {
            name: self.model.clone(),
            weights: self.weights(),
            task: self.task,
            num_labels: self.num_labels,
            dtype: self.dtype,
            bnb_4bit_quant_type: self.bnb_4bit_quant_type,
            bnb_4bit_blocksize: self.bnb_4bit_blocksize,
            bnb_4bit_use_double_quant: self.bnb_4bit_use_double_quant,
            bnb_4bit_compute_dtype: self.bnb_4bit_compute_dtype.into(),
            llm_int8_threshold: self.llm_int8_threshold.map(|threshold| threshold as f32),
            upcast: self.upcast,
            autocast: self.autocast,
            attn_implementation: self.attn_implementation,
            loss: self.loss(),
            adapter: self.adapter_options(),
            trainable: self.trainable.clone(),
            offloaded_blocks: self.offload.weights.clone(),
            offloads_embeddings: self.offload.embeddings,
            max_seq_length: self.data_options().longest_sequence(),
            seed: self.seed,
        }
    }

    /// The adapters; `None` if the model's own weights are trained.
    pub fn adapter_options(&self) -> Option<AdapterOptions> {
        let adapter = self.method()?;
        let is_lora = adapter.heeds("lora");
        Some(AdapterOptions {
            method: self.method_options(),
            rank: if adapter.has_rank() { self.rank } else { 0 },
            lora_alpha: if is_lora { self.lora_alpha() } else { 0.0 },
            lora_dropout: if is_lora { self.lora_dropout } else { 0.0 },
            lora_fa: if is_lora { self.lora_fa } else { LoraATraining::Trained },
            target_modules: self.target_modules(),
            exclude_modules: self.exclude_modules.clone(),
            layers_to_transform: self.layers_to_transform.clone(),
            modules_to_save: self.modules_to_save.clone().unwrap_or_default(),
            dtype: match self.is_deepspeed() {
                true => self.float_dtype(),
                false => self.adapter_dtype.into(),
            },
        })
    }

    /// Options of one rank's data as those of all ranks together, whose step has the micro-batches of each.
    pub fn of_all_ranks(&self, options: DataOptions) -> DataOptions {
        DataOptions {
            gradient_accumulation_steps: options.gradient_accumulation_steps.saturating_mul(self.world_size),
            ..options
        }
    }

    /// The samples and their batches.
    pub fn data_options(&self) -> DataOptions {
        let epochs = || TrainingLength::Epochs(self.num_train_epochs.unwrap_or(1.0));
        DataOptions {
            data: self.data.clone(),
            model: self.model.clone(),
            max_seq_length: self.max_seq_length,
            padding: self.padding,
            pad_to_multiple_of: self.pad_to_multiple_of.unwrap_or(1),
            packing: self.packing.then_some(Packing {
                separator: self.packing_separator,
                attention: self.packing_attention,
                strategy: self.torch.packing_strategy,
            }),
            batch_size: self.batch_size,
            gradient_accumulation_steps: self.gradient_accumulation_steps,
            max_tokens_per_batch: self.max_tokens_per_batch,
            length_groups: match self.length_buckets {
                Some(steps) => Some(LengthGroups::Buckets(steps)),
                None => self.group_by_length.then_some(LengthGroups::MegaBatches),
            },
            longest_first: self.longest_first,
            holds_scores: self.attn_implementation == Attention::Eager,
            length: self.max_steps().map_or_else(epochs, TrainingLength::Steps),
            eval_fraction: self.eval_fraction,
            seed: self.seed,
        }
    }

    /// The optimizer and its options.
    pub fn optimizer_options(&self) -> OptimizerOptions {
        OptimizerOptions {
            optimizer: self.optim,
            adamw: AdamwOptions {
                beta1: self.adam_beta1,
                beta2: self.adam_beta2(),
                epsilon: self.adam_epsilon,
                weight_decay: self.weight_decay,
            },
            low_rank: LowRankOptions {
                rank: self.optim_rank(),
                update_proj_gap: self.update_proj_gap(),
                galore_scale: self.galore_scale(),
                seed: self.seed,
            },
            is_offloaded: self.offload.optimizer,
        }
    }

    /// The learning rate over the steps.
    pub fn schedule_options(&self) -> ScheduleOptions {
        ScheduleOptions {
            learning_rate: self.learning_rate,
            scheduler: self.lr_scheduler_type,
            warmup_ratio: self.warmup_ratio,
            warmup_steps: self.warmup_steps,
            kwargs: self.lr_scheduler_kwargs,
        }
    }

    /// Everything that a training run of our own trainer heeds.
    ///
    /// # Panics
    /// If the device is not one, which [`Cell::validate`] refuses.
    #[expect(clippy::expect_used, reason = "a cell is validated before it is trained")]
    pub fn train_options(&self) -> TrainOptions {
        TrainOptions {
            model: self.model_options(),
            init_adapter: self.init_adapter.clone(),
            data: self.data_options(),
            optimizer: self.optimizer_options(),
            schedule: self.schedule_options(),
            max_grad_norm: self.max_grad_norm,
            loss_scaling: self.loss_scaling(),
            gradient_checkpointing: self.gradient_checkpointing.clone(),
            empty_cache_steps: self.empty_cache_steps,
            offloads_checkpoints: self.offload.checkpoints,
            measure: self.measure,
            device: self.device().expect("a validated cell has a device"),
        }
    }
}

#[cfg(test)]
mod tests {
    use options::Measure;

    use super::*;

    #[test]
    fn training_ends_after_steps_or_epochs() {
        let length = |max_steps, num_train_epochs, measure| {
            let cell = Cell {
                max_steps,
                num_train_epochs,
                measure,
                ..Cell::default()
            };
            cell.data_options().length
        };
        assert_eq!(length(None, None, Measure::Epoch), TrainingLength::Steps(10));
        assert_eq!(length(Some(4), None, Measure::Epoch), TrainingLength::Steps(4));
        assert_eq!(length(None, Some(2.5), Measure::Epoch), TrainingLength::Epochs(2.5));
        assert_eq!(length(None, Some(2.5), Measure::Profile), TrainingLength::Steps(1));
    }

    #[test]
    fn rank_zero_has_no_adapters() {
        let cell = Cell {
            rank: 0,
            ..Cell::default()
        };
        assert_eq!(cell.model_options().adapter, None);
    }
}
