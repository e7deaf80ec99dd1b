//! The keys that a cell heeds. One that it does not heed changes nothing in it.

use super::stacks::stacks;
use super::{Adapter, Cell, Deciding, Facts, Measure};

/// The keys that a whole training heeds, and a profile does not.
pub fn of_trainings() -> impl Iterator<Item = &'static str> {
    let cell = |measure| {
        Cell {
            measure,
            ..Cell::default()
        }
        .deciding()
    };
    let (training, profile) = (cell(Measure::Epoch), cell(Measure::Profile));
    let is_of_training = move |facts: &Facts| (facts.heeded)(&training) && !(facts.heeded)(&profile);
    let of = Cell::FACTS.iter().filter(move |(_, facts)| is_of_training(facts));
    of.map(|(key, _)| *key)
}

/// The keys of adapters, which a cell that trains the model's own weights does not have.
pub(super) fn of_adapters() -> impl Iterator<Item = &'static str> {
    let of_all = Cell::FACTS.iter().filter(|(_, facts)| facts.of_adapters);
    of_all
        .map(|(key, _)| *key)
        .chain(Adapter::own_keys().filter(|key| *key != "rank"))
}

impl Cell {
    /// True if the key `path`, such as `rank` or `torch.use_cache`, can change anything in this cell.
    pub fn heeds(&self, path: &str) -> bool {
        self.deciding().heeds(path)
    }

    /// The part that decides which keys it heeds.
    pub fn deciding(&self) -> Deciding {
        Deciding {
            stack: self.stack,
            engine: self.engine(),
            task: self.task,
            measure: self.measure,
            packing: self.packing,
            dtype: self.dtype,
            upcast: self.upcast,
            autocast: self.autocast,
            attn_implementation: self.attn_implementation,
            rank: self.rank,
            optim: self.optim,
            lr_scheduler_type: self.lr_scheduler_type,
            adapter: self.adapter,
            world_size: self.world_size,
            distributed: self.distributed,
        }
    }
}

impl Deciding {
    /// True if the key `path` can change anything in such a cell.
    pub fn heeds(&self, path: &str) -> bool {
        let top = path.split('.').next().unwrap_or(path);
        let of_method = || match self.method() {
            Some(method) => method.heeds(path),
            None => !of_adapters().any(|key| key == top),
        };
        stacks(path).contains(&self.stack)
            && Facts::of(path).iter().all(|facts| (facts.heeded)(self))
            && self.optim.heeds(path)
            && of_method()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, Optimizer, Stack};

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
        assert!(!profile.heeds("warmup_ratio") && !profile.heeds("empty_cache_steps"));
    }

    #[test]
    fn the_keys_of_methods_and_optimizers_are_keys() {
        let keys = Cell::default().to_map();
        let deciding = Deciding::KEYS.iter().copied();
        for key in of_adapters().chain(deciding).chain(Optimizer::own_keys()) {
            assert!(keys.contains_key(key), "{key}");
        }
    }
}
