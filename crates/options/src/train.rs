//! The options of a training run.

use super::{
    Checkpointing, DataOptions, Device, LossScaling, Measure, ModelOptions, OptimizerOptions, ScheduleOptions,
};

/// Everything that a training run heeds.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// The model and its adapters.
    pub model: ModelOptions,
    /// The folder of an adapter that training goes on from.
    pub init_adapter: Option<String>,
    /// The samples and their batches.
    pub data: DataOptions,
    /// The optimizer.
    pub optimizer: OptimizerOptions,
    /// The learning rate over the steps.
    pub schedule: ScheduleOptions,
    /// Upper limit of the gradients' global L2 norm; 0 switches clipping off.
    pub max_grad_norm: f64,
    /// The scale of the loss in the backward pass.
    pub loss_scaling: LossScaling,
    /// The blocks that recompute their forward pass.
    pub gradient_checkpointing: Checkpointing,
    /// Steps after which the allocator's cache is returned to the system; 0 never does.
    pub empty_cache_steps: usize,
    /// True if the inputs of those blocks wait in the host's memory.
    pub offloads_checkpoints: bool,
    /// The part of training that the memory figures describe.
    pub measure: Measure,
    /// The device that computes.
    pub device: Device,
}
