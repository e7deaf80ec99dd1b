//! The search for the micro-batch that the memory has room for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A micro-batch that is searched before a cell gets its id. The cell that runs has a fixed `batch_size`.
///
/// The budget is the cell's `device_memory` or `gpu`. With `keep_effective_batch` the effective batch is `start` x
/// `gradient_accumulation_steps`, and the micro-batch divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoBatchSize {
    /// The first micro-batch that halve_and_grow tries; with gradient_accumulation_steps it gives the effective batch that
    /// keep_effective_batch keeps.
    #[serde(default = "one")]
    #[schemars(with = "Option<usize>", range(min = 1))]
    pub start: usize,
    /// The smallest micro-batch. It is taken if nothing fits.
    #[serde(default = "one")]
    #[schemars(with = "Option<usize>", range(min = 1))]
    pub min: usize,
    /// The largest micro-batch.
    #[schemars(range(min = 1))]
    pub max: usize,
    /// How it is searched. keep_effective_batch: the largest that fits and divides the effective batch, with the
    /// accumulation that keeps it. largest: the largest that fits; the accumulation stays. halve_and_grow: try start, one
    /// more while it fits, and half after the first out-of-memory, as training guides write it. The first two predict, and
    /// then take one real step on the longest samples; the last one takes a real step for each size. Default:
    /// keep_effective_batch.
    #[serde(default)]
    #[schemars(with = "Option<BatchSearch>")]
    pub search: BatchSearch,
}

/// The ways to search a micro-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchSearch {
    /// The largest that fits and divides the effective batch.
    #[default]
    KeepEffectiveBatch,
    /// The largest that fits.
    Largest,
    /// One more while it fits, and half after the first out-of-memory.
    HalveAndGrow,
}

fn one() -> usize {
    1
}
