//! Smaller adapters, or adapters in place of training every weight.

use base::text::format;
use cell::Cell;

use super::price::{Harm, Price};
use super::technique::Technique;
use super::trainable::trainable_share;

/// Ranks to try where every weight is trained.
const ADAPTERS: [usize; 4] = [64, 32, 16, 8];

pub(super) const RANK: Technique = Technique {
    key: "rank",
    does: "Trains smaller adapters, or adapters in place of every weight.",
    avoid: "Where the adapter cannot learn the task any more; adapters are mostly a small part of the peak.",
    follows: &["lora_alpha"],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        let with = |rank| Cell { rank, ..cell.clone() };
        let halved = |rank: &usize| (*rank > 1).then_some(rank / 2);
        let has_patterns = !(cell.lora.rank_pattern.is_empty() && cell.lora.alpha_pattern.is_empty());
        match cell.rank {
            // Ranks by pattern would stay, with another scale; an adapter on disk has its rank.
            _ if has_patterns || cell.init_adapter.is_some() => Vec::new(),
            // Adapters in place of some weights are another study.
            0 if cell.trainable.is_some() => Vec::new(),
            0 => ADAPTERS.into_iter().map(with).collect(),
            // The rank of another method means something else.
            _ if !cell.adapter.heeds("lora_alpha") => Vec::new(),
            rank => std::iter::successors(Some(rank), halved).skip(1).map(with).collect(),
        }
    },
    settle: |from, to| {
        // The adapter's scale stays.
        if from.rank > 0 {
            to.lora_alpha = from.alpha_at_rank(to.rank);
        }
    },
    copy: |from: &Cell, to: &mut Cell| {
        to.rank = from.rank;
        to.lora_alpha = from.lora_alpha;
    },
    price: |change| Price::new(Harm::Capacity, 1.0 - trainable_share(change)),
    meaning: |change| match change.from.rank {
        0 => format!(
            "adapters, which train {} of the weights",
            format::percent(trainable_share(change).into())
        ),
        _ => "a smaller adapter".into(),
    },
};
