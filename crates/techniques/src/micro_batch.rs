//! Fewer samples at once, and as many more micro-batches.

use cell::Cell;

use super::price::{Harm, Price};
use super::technique::{Change, Technique};

pub(super) const MICRO_BATCH: Technique = Technique {
    key: "batch_size",
    does: "Splits the effective batch into smaller micro-batches and adds up their gradients.",
    avoid: "Where products are small already: time per token rises, and memory falls by activations alone.",
    follows: &["gradient_accumulation_steps"],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        let effective = effective_batch_size(cell);
        let smaller = (1..cell.batch_size)
            .rev()
            .filter(|&size| effective.is_multiple_of(size));
        smaller
            .map(|batch_size| Cell {
                batch_size,
                ..cell.clone()
            })
            .collect()
    },
    settle: |from, to| {
        to.gradient_accumulation_steps = effective_batch_size(from).div_ceil(to.batch_size.max(1));
    },
    copy: |from: &Cell, to: &mut Cell| {
        to.batch_size = from.batch_size;
        to.gradient_accumulation_steps = from.gradient_accumulation_steps;
    },
    price: |change| {
        let smaller = 1.0 - change.to.batch_size as f64 / change.from.batch_size as f64;
        let effective = effective_batch_size(change.to) as f64 / effective_batch_size(change.from) as f64;
        Price::new(Harm::SmallerProducts, smaller) + Price::new(Harm::Data, (effective - 1.0).abs())
    },
    meaning: |change: &Change<'_>| {
        let (before, after) = (effective_batch_size(change.from), effective_batch_size(change.to));
        let parts = match change.to.gradient_accumulation_steps {
            1 => "1 micro-batch".to_owned(),
            parts => format!("{parts} micro-batches"),
        };
        match before == after {
            true => format!("the same effective batch in {parts}"),
            false => format!("an effective batch of {after} instead of {before}, in {parts}"),
        }
    },
};

fn effective_batch_size(cell: &Cell) -> usize {
    cell.batch_size * cell.gradient_accumulation_steps
}
