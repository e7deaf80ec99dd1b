//! The door between a spec and what it configures: turns a cell into the options of each crate.

use options::{
    AdamwOptions, Adapter, AdapterMethod, AdapterOptions, Attention, DataOptions, Ia3Options, LengthGroups,
    LoraATraining, LoraOptions, LowRankOptions, MissInit, MissOptions, ModelOptions, OptimizerOptions, Packing,
    PrefixTuningOptions, PromptInit, PromptTuningOptions, ScheduleOptions, TrainOptions, TrainingLength, VeraOptions,
};

use super::Cell;
use super::{Ia3, Lora, Miss, PrefixTuning, PromptTuning, Vera};

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
            bnb_4bit_compute_dtype: self.bnb_4bit_compute_dtype,
            llm_int8_threshold: self.llm_int8_threshold.map(|threshold| threshold as f32),
            upcast: self.upcast,
            autocast: self.autocast,
            attn_implementation: self.attn_implementation,
            loss: self.loss(),
            adapter: (self.rank > 0).then(|| AdapterOptions {
                method: match self.adapter {
                    Adapter::Lora => AdapterMethod::Lora(self.lora_options()),
                    Adapter::Dora => AdapterMethod::Dora(self.lora_options()),
                    Adapter::Ia3 => AdapterMethod::Ia3(Ia3Options {
                        feedforward_modules: self.ia3.feedforward_modules.clone(),
                    }),
                    Adapter::Miss => AdapterMethod::Miss(MissOptions {
                        rank: self.rank,
                        dropout: self.miss.miss_dropout,
                        mini_r: (self.miss.init_weights == MissInit::Mini).then(|| self.miss.mini_r.unwrap_or(1)),
                    }),
                    Adapter::Vera => AdapterMethod::Vera(VeraOptions {
                        rank: self.rank,
                        dropout: self.vera.vera_dropout,
                        d_initial: self.vera.d_initial,
                        projection_prng_key: self.vera.projection_prng_key,
                        save_projection: self.vera.save_projection,
                    }),
                    Adapter::PrefixTuning => AdapterMethod::PrefixTuning(PrefixTuningOptions {
                        num_virtual_tokens: self.prefix_tuning.num_virtual_tokens,
                    }),
                    Adapter::LnTuning => AdapterMethod::LnTuning,
                    Adapter::PromptTuning => AdapterMethod::PromptTuning(PromptTuningOptions {
                        num_virtual_tokens: self.prompt_tuning.num_virtual_tokens,
                        init_text: match self.prompt_tuning.init {
                            PromptInit::Random => None,
                            PromptInit::Text => self.prompt_tuning.init_text.clone(),
                        },
                    }),
                },
                target_modules: self.target_modules(),
                layers_to_transform: self.layers_to_transform.clone(),
                modules_to_save: self.modules_to_save.clone().unwrap_or_default(),
                dtype: self.adapter_dtype,
            }),
            trainable: self.trainable.clone(),
            offloaded_blocks: self.offload.weights.clone(),
            offloads_embeddings: self.offload.embeddings,
            max_seq_length: self.data_options().longest_sequence(),
            seed: self.seed,
        }
    }

    /// The cell that has these options of its adapters, and the defaults else.
    pub fn of_adapter(adapter: &AdapterOptions) -> Self {
        let method = adapter.method.adapter();
        let saved = &adapter.modules_to_save;
        let cell = Self {
            adapter: method,
            target_modules: adapter.target_modules.clone().filter(|_| method.is_of_layers()),
            layers_to_transform: adapter.layers_to_transform.clone(),
            modules_to_save: (!saved.is_empty()).then(|| saved.clone()),
            ..Self::default()
        };
        match &adapter.method {
            AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => Self {
                rank: lora.rank,
                lora_alpha: Some(lora.alpha),
                lora_dropout: lora.dropout,
                lora: Lora {
                    use_rslora: lora.use_rslora,
                    init_lora_weights: lora.init,
                    rank_pattern: lora.rank_pattern.clone(),
                    alpha_pattern: lora.alpha_pattern.clone(),
                    bias: lora.bias,
                    ..Lora::default()
                },
                ..cell
            },
            AdapterMethod::Ia3(ia3) => Self {
                ia3: Ia3 {
                    feedforward_modules: ia3.feedforward_modules.clone(),
                },
                ..cell
            },
            AdapterMethod::Miss(miss) => Self {
                rank: miss.rank,
                miss: Miss {
                    init_weights: if miss.mini_r.is_some() {
                        MissInit::Mini
                    } else {
                        MissInit::Default
                    },
                    mini_r: miss.mini_r,
                    miss_dropout: miss.dropout,
                },
                ..cell
            },
            AdapterMethod::Vera(vera) => Self {
                rank: vera.rank,
                vera: Vera {
                    d_initial: vera.d_initial,
                    projection_prng_key: vera.projection_prng_key,
                    save_projection: vera.save_projection,
                    vera_dropout: vera.dropout,
                },
                ..cell
            },
            AdapterMethod::PromptTuning(prompt) => Self {
                prompt_tuning: PromptTuning {
                    num_virtual_tokens: prompt.num_virtual_tokens,
                    init: if prompt.init_text.is_some() {
                        PromptInit::Text
                    } else {
                        PromptInit::Random
                    },
                    init_text: prompt.init_text.clone(),
                },
                ..cell
            },
            AdapterMethod::PrefixTuning(prefix) => Self {
                prefix_tuning: PrefixTuning {
                    num_virtual_tokens: prefix.num_virtual_tokens,
                },
                ..cell
            },
            AdapterMethod::LnTuning => cell,
        }
    }

    fn lora_options(&self) -> LoraOptions {
        LoraOptions {
            rank: self.rank,
            alpha: self.lora_alpha(),
            dropout: self.lora_dropout,
            trains_a: self.lora_fa == LoraATraining::Trained,
            use_rslora: self.lora.use_rslora,
            init: self.lora.init_lora_weights,
            rank_pattern: self.lora.rank_pattern.clone(),
            alpha_pattern: self.lora.alpha_pattern.clone(),
            lr_ratio: self.lora.loraplus_lr_ratio(),
            bias: self.lora.bias,
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
