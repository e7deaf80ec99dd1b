//! The keys that a cell heeds. One that it does not heed changes nothing in it.

use super::stacks::stacks;
use super::{Adapter, Cell, Dtype, Measure, Stack, Task};

/// The keys that decide which others a cell heeds.
pub const DECIDING: [&str; 8] = [
    "stack", "task", "measure", "packing", "dtype", "rank", "optim", "adapter",
];

/// The keys of adapters that every method has.
const OF_ALL: [&str; 3] = ["adapter", "adapter_config", "init_adapter"];

/// The keys of adapters, which a cell that trains the model's own weights does not have.
pub(super) fn of_adapters() -> impl Iterator<Item = &'static str> {
    OF_ALL
        .into_iter()
        .chain(Adapter::own_keys().filter(|key| *key != "rank"))
}

/// True for a key of adapters, or one below it.
fn is_of_adapter(path: &str) -> bool {
    let top = path.split('.').next().unwrap_or(path);
    OF_ALL.contains(&top) || top != "rank" && Adapter::is_own_key(top)
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
            "trainable" => self.method().is_none(),
            "max_steps" | "num_train_epochs" => self.measure == Measure::Epoch,
            // Codes, blocks, scales of scales, and the formats of 4-bit products.
            path if path.starts_with("bnb_4bit_") => self.dtype == Dtype::Int4,
            "llm_int8_threshold" => self.dtype == Dtype::Int8,
            // PEFT's k-bit preparation.
            "upcast" => self.dtype.is_quantised(),
            path => {
                let method = self.method();
                self.optim.heeds(path) && method.map_or(!is_of_adapter(path), |method| method.heeds(path))
            }
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
        assert!(of_adapters().all(|key| !full.heeds(key)));
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
        for key in of_adapters().chain(DECIDING).chain(named).chain(Optimizer::own_keys()) {
            assert!(keys.contains_key(key), "{key}");
        }
    }
}
