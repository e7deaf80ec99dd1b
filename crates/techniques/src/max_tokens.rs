//! Micro-batches of at most so many tokens.

use cell::Cell;
use options::Stack;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

pub(super) const MAX_TOKENS: Technique = Technique {
    key: "max_tokens_per_batch",
    does: "Cuts the samples of a step into micro-batches of at most so many tokens, padding included.",
    avoid: "Where all samples have one length: a smaller batch_size then does the same.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        if cell.stack != Stack::Candle || cell.data.is_even() {
            return Vec::new();
        }
        let one = cell.data_options().longest_sequence();
        let all = one.saturating_mul(cell.batch_size);
        let halves = std::iter::successors(Some(all / 2), |tokens| Some(tokens / 2));
        halves
            .take_while(|&tokens| tokens >= one)
            .filter(|&tokens| cell.max_tokens_per_batch.is_none_or(|given| tokens < given))
            .map(|tokens| Cell {
                max_tokens_per_batch: Some(tokens),
                ..cell.clone()
            })
            .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.max_tokens_per_batch = from.max_tokens_per_batch,
    price: |change| {
        let all = change.from.max_seq_length as f64 * change.from.batch_size as f64;
        let most = |cell: &Cell| cell.max_tokens_per_batch.map_or(all, |tokens| tokens as f64);
        Price::new(Harm::SmallerProducts, 1.0 - most(change.to) / most(change.from))
    },
    meaning: |change| match change.to.max_tokens_per_batch {
        Some(tokens) => format!("micro-batches of at most {tokens} tokens, and more of them"),
        None => "micro-batches of any number of tokens".into(),
    },
};
