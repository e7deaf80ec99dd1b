//! The door between a spec and what it configures: turns a cell into the options of each room.

use super::Cell;
use crate::options::{LoraOptions, ModelOptions};

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
}
