//! The door between a spec and what it configures: turns a cell into the options of each room.

use super::Cell;
use crate::options::{AdamwOptions, LoraOptions, LowRankOptions, ModelOptions, OptimizerOptions, ScheduleOptions};

impl Cell {
    /// The options that decide the model.
    pub fn model_options(&self) -> ModelOptions {
        ModelOptions {
            name: self.model.clone(),
            weights: self.weights(),
            task: self.task,
            num_labels: self.num_labels,
            dtype: self.dtype,
            bnb_4bit_use_double_quant: self.bnb_4bit_use_double_quant,
            lora: (self.rank > 0).then(|| LoraOptions {
                rank: self.rank,
                alpha: self.lora_alpha(),
                dropout: self.lora_dropout,
                target_modules: self.target_modules.clone(),
            }),
            max_seq_length: self.max_seq_length,
            seed: self.seed,
        }
    }

    /// The optimizer and its options.
    pub fn optimizer_options(&self) -> OptimizerOptions {
        OptimizerOptions {
            optimizer: self.optim,
            adamw: AdamwOptions {
                beta1: self.adam_beta1,
                beta2: self.adam_beta2,
                epsilon: self.adam_epsilon,
                weight_decay: self.weight_decay,
            },
            low_rank: LowRankOptions {
                rank: self.optim_rank(),
                update_proj_gap: self.update_proj_gap(),
                galore_scale: self.galore_scale(),
                seed: self.seed,
            },
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
}
