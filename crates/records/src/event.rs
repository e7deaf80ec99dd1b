//! What a worker tells its run while it trains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::provenance::Found;
use super::record::{nan_where_null, number_or_null};

/// A line of JSON that a worker prints to its stdout. Lines that are no event come from libraries, and are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The process is ready; the first event.
    Started(Box<Found>),
    /// The model is being built.
    Loading,
    /// Training starts.
    Training {
        /// Steps of the whole training.
        steps: usize,
        /// Tokens of a full step, padding included.
        tokens_per_step: usize,
    },
    /// A step is done.
    Step {
        /// Steps of the whole training.
        steps: usize,
        /// The step's figures.
        #[serde(flatten)]
        step: StepEvent,
    },
    /// Something that the user should know.
    Remark {
        /// A sentence.
        text: String,
    },
    /// Held-out data is being evaluated.
    Evaluating,
    /// The cell is done.
    Done,
}

/// The part of a step that progress shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepEvent {
    /// From 1.
    pub step: usize,
    /// The loss.
    #[serde(deserialize_with = "nan_where_null")]
    #[schemars(schema_with = "number_or_null")]
    pub loss: f64,
    /// The duration.
    pub seconds: f64,
    /// Tokens, padding included.
    pub tokens: usize,
    /// Live tensor bytes at the step's end.
    pub allocated_bytes: Option<u64>,
    /// Memory that the allocator holds.
    pub reserved_bytes: Option<u64>,
    /// Used part of the system's memory, of all processes, in percent.
    pub system_used_percent: Option<f64>,
}
