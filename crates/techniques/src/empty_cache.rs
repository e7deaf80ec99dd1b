//! The allocator's cache, returned to the device after each step.

use cell::Cell;
use options::{AllocatorBackend, Stack};

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const EMPTY_CACHE: Technique = Technique {
    key: "empty_cache_steps",
    does: "Returns the memory that the allocator keeps for later to the system after every so many steps.",
    avoid: "To lower a peak within a step: it only empties the cache between steps.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: false,
    steps: |cell, _| {
        // An allocator that keeps its pages on purpose has no cache to return.
        let keeps_pages = cell.stack == Stack::Candle && cell.backend() == AllocatorBackend::Retain;
        match cell.empty_cache_steps {
            0 | 2.. if !keeps_pages => vec![Cell {
                empty_cache_steps: 1,
                ..cell.clone()
            }],
            _ => Vec::new(),
        }
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.empty_cache_steps = from.empty_cache_steps,
    // All of the cache is requested again.
    price: |_| Price::new(Harm::Transfers, 1.0),
    meaning: |_| "the cache is returned to the device after each step, and requested again".into(),
};
