//! The memory of transformers, PEFT and bitsandbytes on a GPU, from shapes alone.
//!
//! No arithmetic is done and no formula is kept: the modelling code of each family runs on fake tensors, so that what
//! is alive follows from who holds it, as in Python. [`tape`] counts the holders, [`autograd`] keeps what each
//! operation saves and walks it backward in PyTorch's order, [`ops`] say what each operation allocates, [`models`] are
//! the families, and [`peft`], [`bitsandbytes`], [`checkpoint`], [`optimizer`], [`ddp`], [`fsdp`] and [`zero`] are what the
//! names say.

mod adafactor;
mod adapter_file;
mod autocast;
mod autograd;
mod bitsandbytes;
pub mod caching_allocator;
mod checkpoint;
mod configuration;
mod counts;
mod ddp;
mod dtype;
mod frames;
mod fsdp;
pub mod gpu;
mod graph;
mod groups;
mod layout;
mod loading;
mod low_rank;
mod model;
mod models;
mod ops;
mod optimizer;
mod packing;
mod peft;
mod reentrant;
mod sampler;
mod slots;
mod tape;
mod training;
mod versions;
mod view;
mod workspaces;
mod zero;

pub use configuration::{Backend, Configuration, Ddp, Fsdp, MicroBatchShape, Offload, Ranks, Zero};
pub use counts::Counts;
pub use dtype::Dtype;
pub use loading::{LoadOrder, WarmUp};
pub use packing::{PackedRow, best_fit_decreasing, wrapped};
pub use sampler::{GlobalOrders, epoch_order, epoch_steps};
pub use training::{Step, load_trace, trace, trace_parts};
pub use versions::{
    AttentionWeights, Bitsandbytes, Deepspeed, Peft, Pytorch, RotaryTables, TODAY_SINCE, Transformers, Trl, WindowMasks,
};
