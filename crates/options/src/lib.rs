//! The vocabulary of a configuration: every choice of names, each declared once, for the spec, the trainer and the
//! plans.

mod adapter;
mod allocator_backend;
mod auto_batch_size;
mod byte_size;
mod checkpointing;
mod choices;
mod data;
mod data_file;
mod dataset;
mod device;
mod elements;
mod engine;
mod excluded_modules;
mod generation;
mod instruction_set;
pub mod invalid;
pub mod methods;
mod model;
mod offload;
mod optimizer;
mod optimizer_name;
mod packing;
mod pattern;
mod prompt_template;
mod schedule;
mod steps_or_ratio;
mod target_modules;
mod train;

pub use adapter::{AdapterOptions, is_in, saves_whole};
pub use allocator_backend::AllocatorBackend;
pub use auto_batch_size::{AutoBatchSize, BatchSearch};
pub use byte_size::ByteSize;
pub use checkpointing::Checkpointing;
pub use choices::{
    Attention, AutoWrapPolicy, Autocast, BLOCK_SIZES, BackwardPrefetch, Bias, DEFAULT_BLOCK_SIZE, Distributed, Dtype,
    FloatDtype, LoraATraining, Loss, LossScaling, Measure, OffloadDevice, OutputLifetime, Padding, QuantType,
    ShardingStrategy, Stack, Task, Upcast, Weights, ZeroGrad,
};
pub use data::{Data, Lengths, LogNormal, Synthetic};
pub use data_file::{
    ALPACA, CHAT_TEMPLATES, DEFAULT_LABEL_COLUMN, DataFile, DataFormat, DataPart, OWN_TEMPLATE, Paths, SampleBy,
};
pub use dataset::{DataOptions, LengthGroups, TrainingLength};
pub use device::{Device, NoCuda};
pub use elements::Elements;
pub use engine::Engine;
pub use excluded_modules::ExcludedModules;
pub use generation::Generation;
pub use instruction_set::{InstructionSet, InstructionSetChoice};
pub use invalid::Invalid;
pub use methods::*;
pub use model::{DEFAULT_LABELS, ModelOptions, is_trainable};
pub use offload::{Offload, OffloadedBlocks};
pub use optimizer::{AdamwOptions, LowRankOptions, OptimizerOptions};
pub use optimizer_name::{Optimizer, UpdateRule, has_8bit_states};
pub use packing::{Packing, PackingAttention, PackingSeparator, PackingStrategy};
pub use pattern::{NamePattern, Patterns, matching};
pub use prompt_template::{PromptPart, PromptTemplate};
pub use schedule::{Kwarg, LrScheduler, LrSchedulerKwargs, Ramp, ScheduleOptions};
pub use steps_or_ratio::StepsOrRatio;
pub use target_modules::{TargetModules, ends_in};
pub use train::TrainOptions;
