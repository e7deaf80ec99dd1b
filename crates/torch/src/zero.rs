//! DeepSpeed's ZeRO: what a rank holds of a training that several share (`deepspeed/runtime/zero`).
//!
//! With stages 1 and 2 ([`flat`]) a rank has all parameters, laid one after the other, and shares of the master weights
//! and of the optimizer's states; with stage 2 it keeps its share of the gradients alone. With stage 3 ([`partitioned`])
//! it has its part of each parameter, which is gathered for each module that uses it ([`coordinator`]).

mod bucket;
mod coordinator;
mod flat;
mod gather;
mod hooks;
mod partitioned;
mod state;
mod step;
#[cfg(test)]
mod tests;

use self::state::{Flat, Partitioned};

/// Streams beside that of computation (`overlap_comm`).
mod stream {
    pub(super) const COMPUTE: u8 = 0;
    pub(super) const GATHER: u8 = 1;
    pub(super) const REDUCE: u8 = 2;
}

/// A training that ZeRO shares.
pub(super) enum Sharing {
    Flat(Box<Flat>),
    Partitioned(Box<Partitioned>),
}
