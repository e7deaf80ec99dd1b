//! What transformers, PEFT and bitsandbytes would allocate on a GPU, from shapes alone.
//!
//! No arithmetic is done and no formula is kept: the modelling code of each family runs on fake tensors, so that what is
//! alive follows from who holds it, as in Python. [`tensor`] and [`tape`] count the holders, [`autograd`] keeps what each
//! operation saves and walks it backward in PyTorch's order, [`ops`] say what each operation allocates, [`models`] are the
//! families, and [`peft`], [`bitsandbytes`], [`checkpoint`] and [`optimizer`] are what the names say.

mod adapter_file;
mod autograd;
mod bitsandbytes;
pub mod caching_allocator;
mod checkpoint;
mod config;
pub mod gpu;
mod layout;
mod models;
mod ops;
mod optimizer;
mod peft;
mod presets;
mod reentrant;
mod slots;
mod tape;
mod tensor;
mod training;
mod versions;

pub use config::{ConfigError, Family, ModelConfig};
pub use tensor::Dtype;
pub use training::{
    Attention, Backend, BaseDtype, Checkpointing, Configuration, Counts, Gpu, Kernel, LoraA, Micro, Optimizer, Outputs,
    Targets, Upcast, Way, ZeroGrad, trace,
};
pub use versions::{Angles, Bitsandbytes, Transformers, VersionError, ties};
