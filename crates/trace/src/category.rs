//! The categories of memory, and the phases of training.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The purpose of an allocation. All but `Host` and `Offloaded` are tensors of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Everything that is not a tensor: tokenizer, strings, JSON, kernels' scratch.
    Host,
    /// The model's weights.
    Parameter,
    /// The adapters' weights.
    Adapter,
    /// The optimizer's moments and projections.
    OptimizerState,
    /// Gradients of what is trained.
    Gradient,
    /// Tensors that the forward pass keeps for the backward pass.
    Activation,
    /// Token ids, labels and masks of a batch.
    Input,
    /// Every other tensor: it lives within a pass.
    Temporary,
    /// Tensors of any purpose that wait in the host's tier of memory.
    Offloaded,
}

impl Category {
    /// All categories, by their number.
    pub const ALL: [Self; 9] = [
        Self::Host,
        Self::Parameter,
        Self::Adapter,
        Self::OptimizerState,
        Self::Gradient,
        Self::Activation,
        Self::Input,
        Self::Temporary,
        Self::Offloaded,
    ];

    /// The name in records and frames, such as `optimizer_state`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Parameter => "parameter",
            Self::Adapter => "adapter",
            Self::OptimizerState => "optimizer_state",
            Self::Gradient => "gradient",
            Self::Activation => "activation",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Offloaded => "offloaded",
        }
    }

    /// True if its bytes count as `allocated`: those of tensors in the device's tier.
    pub fn is_tensor(self) -> bool {
        !matches!(self, Self::Host | Self::Offloaded)
    }
}

/// The phase that the trainer is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Reading weights and building the model.
    Load,
    /// The forward pass of a micro-batch.
    Forward,
    /// The backward pass of a micro-batch.
    Backward,
    /// The optimizer's update.
    Optimizer,
    /// Before loading, between steps, and after training.
    Idle,
}

impl Phase {
    /// All phases, by their number.
    pub const ALL: [Self; 5] = [Self::Load, Self::Forward, Self::Backward, Self::Optimizer, Self::Idle];

    /// The name in records and frames, such as `forward`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Idle => "idle",
        }
    }
}

/// Bytes for each category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByCategory([u64; Category::ALL.len()]);

impl ByCategory {
    /// No bytes.
    pub const ZERO: Self = Self([0; Category::ALL.len()]);

    /// Every category with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (Category, u64)> + '_ {
        Category::ALL.into_iter().map(|category| (category, self[category]))
    }
}

impl Index<Category> for ByCategory {
    type Output = u64;

    fn index(&self, category: Category) -> &u64 {
        &self.0[category as usize]
    }
}

impl IndexMut<Category> for ByCategory {
    fn index_mut(&mut self, category: Category) -> &mut u64 {
        &mut self.0[category as usize]
    }
}

/// Bytes for each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByPhase([u64; Phase::ALL.len()]);

impl ByPhase {
    /// No bytes.
    pub const ZERO: Self = Self([0; Phase::ALL.len()]);

    /// Every phase with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, u64)> + '_ {
        Phase::ALL.into_iter().map(|phase| (phase, self[phase]))
    }

    /// The bytes by the phases' names, as in records.
    pub fn named(&self) -> BTreeMap<String, u64> {
        self.iter()
            .map(|(phase, bytes)| (phase.name().to_owned(), bytes))
            .collect()
    }
}

impl Index<Phase> for ByPhase {
    type Output = u64;

    fn index(&self, phase: Phase) -> &u64 {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for ByPhase {
    fn index_mut(&mut self, phase: Phase) -> &mut u64 {
        &mut self.0[phase as usize]
    }
}
