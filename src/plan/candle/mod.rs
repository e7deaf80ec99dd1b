//! Our own trainer: what it allocates on the CPU, followed function by function.
//!
//! Each file mirrors the layers it names, in their order, and nothing else decides a size: the trainer's ledger is the truth,
//! and `tests/plan` compares the two. [`held::Held`] is freed where a tensor of the trainer's would be, so that lifetimes
//! are Rust's here as there.

mod attention;
mod decoder;
mod encoder;
mod held;
mod linear;
mod load;
mod optimizer;
mod param;
mod segments;
mod trainer;

pub use trainer::{Planned, adapter_file_bytes, plan, process_bytes};
