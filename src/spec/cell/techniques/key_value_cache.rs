//! Training without a key-value cache, which only generation needs.

use super::price::Price;
use super::technique::{Technique, nothing_follows};
use crate::options::Stack;
use crate::spec::cell::Cell;

pub(super) const KEY_VALUE_CACHE: Technique = Technique {
    key: "torch.use_cache",
    does: "Does not build the key-value cache of generation in training.",
    avoid: "Never: training does not read the cache.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        if cell.stack != Stack::Torch || !cell.torch.use_cache {
            return Vec::new();
        }
        let mut changed = cell.clone();
        changed.torch.use_cache = false;
        vec![changed]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.torch.use_cache = from.torch.use_cache,
    price: |_| Price::free(),
    meaning: |_| "no key-value cache, which training does not need".into(),
};
