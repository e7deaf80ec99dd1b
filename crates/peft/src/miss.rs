//! `adapter_config.json` of MiSS.

use options::{Bias, MissOptions};
use serde::{Deserialize, Serialize};

use super::formats::SavedTensor;

/// MiSS's block, `[rank, output features]`, or fewer columns.
pub const MISS: &str = "miss_block";

/// The keys of PEFT's `MissConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissConfig {
    /// Features of a shard.
    pub r: usize,
    /// Dropout on the adapter's input while it was trained.
    pub miss_dropout: f64,
    /// Columns of the block of the variant `mini`.
    pub mini_r: usize,
    /// The variant.
    pub init_weights: MissVariant,
    pub(super) bias: Bias,
}

/// PEFT's `init_weights`: a word, or true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected true or mini")]
pub enum MissVariant {
    /// A column for each output.
    Usual(bool),
    /// `mini` or `bat`.
    Named(String),
}

/// PEFT's defaults.
impl Default for MissConfig {
    fn default() -> Self {
        Self::new(&MissOptions {
            rank: 64,
            dropout: 0.0,
            mini_r: None,
        })
    }
}

impl MissConfig {
    pub(super) fn new(miss: &MissOptions) -> Self {
        Self {
            r: miss.rank,
            miss_dropout: miss.dropout,
            mini_r: miss.mini_r.unwrap_or(1),
            init_weights: match miss.mini_r {
                Some(_) => MissVariant::Named("mini".into()),
                None => MissVariant::Usual(true),
            },
            bias: Bias::None,
        }
    }

    /// Columns of the block if they are repeated.
    pub fn repeated(&self) -> Option<usize> {
        (self.init_weights == MissVariant::Named("mini".into())).then_some(self.mini_r)
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors() -> &'static [SavedTensor] {
        &[SavedTensor {
            name: MISS,
            dims: 2,
            rank_at: Some(0),
        }]
    }
}
