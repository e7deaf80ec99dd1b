//! One cell: a full configuration of one training run. Every key has a default; a key does what it says or is an error.

mod allocator;
mod check;
mod configuration;
mod heeds;
mod id;
mod lora;
mod options;
mod stacks;
pub mod techniques;
mod torch;

pub use crate::options::{
    Adapter, AllocatorBackend, Attention, Autocast, Checkpointing, Data, DataFile, DataFormat, Device, Dtype,
    InstructionSet, InstructionSetChoice, Lengths, LoraATraining, Loss, LossScaling, LrScheduler, Measure, Offload,
    OffloadedBlocks, Optimizer, OutputLifetime, PackingAttention, PackingSeparator, PackingStrategy, Padding,
    QuantType, Stack, Synthetic, TargetModules, Task, Upcast, Weights, ZeroGrad,
};
pub use allocator::Allocator;
pub use check::{Invalid, InvalidCell};
pub use configuration::Cell;
pub use lora::Lora;
pub use stacks::stacks;
pub use torch::Torch;
