//! The keys that a cell heeds. One that it does not heed changes nothing in it.

use super::stacks::stacks;
use super::{Cell, Dtype, Measure, Stack, Task};

/// The keys of an adapter, which a cell of rank 0 does not have.
pub(super) const ADAPTER: [&str; 16] = [
    "adapter",
    "adapter_config",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "layers_to_transform",
    "modules_to_save",
    "init_adapter",
    "lora_fa",
    "lora",
    "ia3",
    "miss",
    "vera",
    "prompt_tuning",
    "prefix_tuning",
    "adapter_dtype",
];

/// The keys that decide which others a cell heeds.
pub const DECIDING: [&str; 8] = [
    "stack", "task", "measure", "packing", "dtype", "rank", "optim", "adapter",
];

/// True for a key of an adapter, or one below it.
fn is_of_adapter(path: &str) -> bool {
    ADAPTER.contains(&path.split('.').next().unwrap_or(path))
}

impl Cell {
    /// True if the key `path`, such as `rank` or `torch.use_cache`, can change anything in this cell.
    pub fn heeds(&self, path: &str) -> bool {
        if !stacks(path).contains(&self.stack) {
            return false;
        }
        match path {
            "weights" => self.stack == Stack::Candle,
            "num_labels" => self.task != Task::CausalLm,
            "loss" => self.task == Task::CausalLm,
            "padding" | "pad_to_multiple_of" => !self.packing,
            "packing_separator" | "packing_attention" | "torch.packing_strategy" => self.packing,
            "trainable" => self.rank == 0,
            "max_steps" | "num_train_epochs" => self.measure == Measure::Epoch,
            // Codes, blocks, scales of scales, and the formats of 4-bit products.
            path if path.starts_with("bnb_4bit_") => self.dtype == Dtype::Int4,
            "llm_int8_threshold" => self.dtype == Dtype::Int8,
            // PEFT's k-bit preparation.
            "upcast" => self.dtype.is_quantised(),
            path if self.rank == 0 => self.optim.heeds(path) && !is_of_adapter(path),
            path => self.optim.heeds(path) && self.adapter.heeds(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Optimizer;

    #[test]
    fn a_cell_heeds_what_its_stack_and_its_method_have() {
        let cell = |change: fn(&mut Cell)| {
            let mut cell = Cell::default();
            change(&mut cell);
            cell
        };
        let full = cell(|cell| cell.rank = 0);
        assert!(ADAPTER.iter().all(|key| !full.heeds(key)));
        assert!(full.heeds("rank") && full.heeds("dtype") && full.heeds("measure"));
        let torch = cell(|cell| (cell.stack, cell.dtype) = (Stack::Torch, Dtype::Int4));
        assert!(torch.heeds("bnb_4bit_blocksize") && torch.heeds("upcast") && torch.heeds("torch.use_cache"));
        assert!(!torch.heeds("allocator.backend") && torch.heeds("allocator.env.PYTORCH_ALLOC_CONF"));
        assert!(!torch.heeds("measure") && !torch.heeds("optim_rank"));
        let int4 = cell(|cell| cell.dtype = Dtype::Int4);
        assert!(int4.heeds("bnb_4bit_use_double_quant") && int4.heeds("bnb_4bit_quant_type"));
        let profile = cell(|cell| cell.measure = Measure::Profile);
        assert!(!profile.heeds("max_steps") && profile.heeds("batch_size"));
    }

    #[test]
    fn every_key_of_the_rules_is_a_key() {
        let keys = Cell::default().to_map();
        let named = [
            "num_labels",
            "max_steps",
            "num_train_epochs",
            "upcast",
            "llm_int8_threshold",
        ];
        let named = named
            .into_iter()
            .chain(["padding", "packing_separator", "packing_attention"]);
        for key in ADAPTER
            .into_iter()
            .chain(DECIDING)
            .chain(named)
            .chain(Optimizer::own_keys())
        {
            assert!(keys.contains_key(key), "{key}");
        }
    }
}
