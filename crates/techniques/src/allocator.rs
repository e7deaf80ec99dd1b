//! Segments of PyTorch's allocator that grow, so that gaps between blocks are used.

use cell::Cell;
use options::Stack;

use super::price::Price;
use super::technique::{Technique, nothing_follows};

/// PyTorch reads the second name too.
const VARIABLES: [&str; 2] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

pub(super) const EXPANDABLE_SEGMENTS: Technique = Technique {
    key: "allocator.env.PYTORCH_CUDA_ALLOC_CONF",
    does: "Lets segments of PyTorch's allocator grow, so that gaps between blocks are used.",
    avoid: "Where batches have one length: then there are few gaps to use.",
    follows: &[],
    is_ordered: false,
    is_of_tensors: false,
    steps: |cell, _| {
        // Settings that somebody chose are not replaced.
        let is_set = VARIABLES.iter().any(|&name| cell.allocator.env.contains_key(name));
        if cell.stack != Stack::Torch || is_set {
            return Vec::new();
        }
        let mut changed = cell.clone();
        let value = Some("expandable_segments:True".to_owned());
        changed.allocator.env.insert(VARIABLES[0].to_owned(), value);
        vec![changed]
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.allocator.env.clone_from(&from.allocator.env),
    price: |_| Price::free(),
    meaning: |_| "segments that grow, so that less lies idle between blocks".into(),
};
