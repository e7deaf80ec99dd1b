//! What memory is held for, and when.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// What an allocation is held for. All but `Host` are tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Whatever is not a tensor: tokenizer, strings, JSON.
    Host,
    Parameter,
    Adapter,
    OptimizerState,
    Gradient,
    Activation,
    Input,
    Temporary,
}

impl Category {
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Parameter,
        Self::Adapter,
        Self::OptimizerState,
        Self::Gradient,
        Self::Activation,
        Self::Input,
        Self::Temporary,
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
        }
    }

    /// Whether its bytes are part of `allocated`.
    pub fn is_tensor(self) -> bool {
        self != Self::Host
    }
}

/// What the trainer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    Load,
    Forward,
    Backward,
    Optimizer,
    /// None of the others: before loading, between steps, after training.
    Idle,
}

impl Phase {
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
    pub(super) const ZERO: Self = Self([0; Category::ALL.len()]);

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
    pub(super) const ZERO: Self = Self([0; Phase::ALL.len()]);

    pub fn iter(&self) -> impl Iterator<Item = (Phase, u64)> + '_ {
        Phase::ALL.into_iter().map(|phase| (phase, self[phase]))
    }

    /// By the phases' names, as records have it.
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
