//! One cell: a full configuration of one training run. Every key has a default; a key does what it says or is an error.

mod allocator;
mod check;
mod configuration;
mod defaults;
mod floating;
mod heeds;
mod ia3;
mod id;
pub mod keys;
mod lora;
mod miss;
mod options;
mod paths;
mod prefix_tuning;
mod prompt_tuning;
mod stacks;
mod torch;
mod vera;

pub use ::options::{
    Adapter, AllocatorBackend, Attention, Autocast, Checkpointing, Data, DataFile, DataFormat, Device, Dtype,
    Generation, InstructionSet, InstructionSetChoice, Lengths, LoraATraining, Loss, LossScaling, LrScheduler, Measure,
    Offload, OffloadedBlocks, Optimizer, OutputLifetime, PackingAttention, PackingSeparator, PackingStrategy, Padding,
    QuantType, Stack, Synthetic, TargetModules, Task, Upcast, Weights, ZeroGrad,
};
pub use allocator::Allocator;
pub use check::{Invalid, InvalidCell};
pub use configuration::Cell;
pub use heeds::DECIDING;
pub use ia3::Ia3;
pub use keys::is_size;
pub use lora::Lora;
pub use miss::Miss;
pub use paths::path_keys;
pub use prefix_tuning::PrefixTuning;
pub use prompt_tuning::PromptTuning;
pub use stacks::stacks;
pub use torch::Torch;
pub use vera::Vera;
