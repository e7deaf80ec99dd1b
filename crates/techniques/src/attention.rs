//! A kernel that does not hold the scores of attention.

use cell::Cell;
use options::{Attention, Stack};

use super::price::Price;
use super::technique::{Change, Technique, nothing_follows};

pub(super) const ATTENTION: Technique = Technique {
    key: "attn_implementation",
    does: "Computes attention in one kernel that never holds the score matrix.",
    avoid: "Where the attention weights themselves are wanted as an output.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        let kernels: &[Attention] = match (cell.stack, cell.attn_implementation) {
            (Stack::Torch, Attention::Eager) => &[Attention::Sdpa, Attention::FlashAttention2],
            (Stack::Torch, Attention::Sdpa) => &[Attention::FlashAttention2],
            (Stack::Candle, Attention::Eager) => &[Attention::Sdpa],
            _ => &[],
        };
        let with = |&attn_implementation: &Attention| Cell {
            attn_implementation,
            ..cell.clone()
        };
        kernels.iter().map(with).collect()
    },
    settle: nothing_follows,
    copy: |from, to| to.attn_implementation = from.attn_implementation,
    price: |_| Price::free(),
    meaning: |change: &Change<'_>| match change.to.attn_implementation {
        Attention::Eager => "the score matrix is held".into(),
        Attention::Sdpa => "the scores are not held".into(),
        Attention::FlashAttention2 => "the flash-attn package".into(),
    },
};
