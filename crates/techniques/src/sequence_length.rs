//! Samples cut to fewer tokens.

use cell::Cell;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

/// The shortest samples worth training on, in tokens.
const LEAST: usize = 32;

pub(super) const SEQUENCE_LENGTH: Technique = Technique {
    key: "max_seq_length",
    does: "Cuts samples to fewer tokens.",
    avoid: "Where the end of long samples matters to the task.",
    follows: &[],
    is_ordered: true,
    is_of_tensors: true,
    steps: |cell, _| {
        // 3/4, 1/2, 3/8, 1/4, …
        let halves = std::iter::successors(Some(cell.max_seq_length), |length| Some(length / 2));
        let lengths = halves
            .take_while(|&length| length >= LEAST)
            .flat_map(|length| [length, length / 4 * 3]);
        let shorter = lengths.filter(|&length| (LEAST..cell.max_seq_length).contains(&length));
        shorter
            .map(|max_seq_length| Cell {
                max_seq_length,
                ..cell.clone()
            })
            .collect()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.max_seq_length = from.max_seq_length,
    price: |change| {
        let kept = change.to.max_seq_length as f64 / change.from.max_seq_length as f64;
        Price::new(Harm::Data, 1.0 - kept)
    },
    meaning: |change| format!("samples are cut to {} tokens", change.to.max_seq_length),
};
