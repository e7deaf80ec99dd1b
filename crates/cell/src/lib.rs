//! One cell: a full configuration of one training run. Every key has a default; a key does what it says or is an error.

pub mod acts;
mod allocator;
mod check;
mod configuration;
mod defaults;
mod facts;
mod fsdp;
mod heeds;
mod id;
pub mod keys;
mod map;
mod of_data;
mod of_methods;
mod of_schedules;
mod options;
mod paths;
mod plain;
mod stacks;
mod table;
mod torch;
mod zero;

pub use ::options::methods::*;
pub use ::options::{
    AllocatorBackend, Attention, AutoWrapPolicy, Autocast, BackwardPrefetch, Checkpointing, Data, DataFile, DataFormat,
    Device, Distributed, Dtype, Elements, Engine, FloatDtype, Generation, InstructionSet, InstructionSetChoice,
    Invalid, Lengths, LoraATraining, Loss, LossScaling, LrScheduler, LrSchedulerKwargs, Measure, Offload,
    OffloadDevice, OffloadedBlocks, Optimizer, OutputLifetime, PackingAttention, PackingSeparator, PackingStrategy,
    Padding, QuantType, ShardingStrategy, Stack, StepsOrRatio, Synthetic, TargetModules, Task, Upcast, Weights,
    ZeroGrad,
};
pub use allocator::Allocator;
pub use check::InvalidCell;
pub use configuration::Cell;
pub use facts::{Deciding, Facts, Idle};
pub use fsdp::FsdpConfig;
pub use heeds::of_trainings;
pub use keys::is_size;
pub use paths::path_keys;
pub use stacks::{mark_stacks, stacks};
pub use table::aliases;
pub use torch::Torch;
pub use zero::ZeroOptimization;
