//! Keys of PyTorch's training loop with one value that saves memory and costs nothing.

/// A technique that sets one key of `torch` to the value that saves.
macro_rules! toggle {
    ($key:literal, $field:ident: $value:expr, does: $does:literal, avoid: $avoid:literal, meaning: $meaning:literal) => {
        $crate::Technique {
            key: $key,
            does: $does,
            avoid: $avoid,
            follows: &[],
            is_ordered: true,
            is_of_tensors: true,
            steps: |cell, _| {
                if cell.stack != ::options::Stack::Torch || cell.torch.$field == $value {
                    return Vec::new();
                }
                let mut changed = cell.clone();
                changed.torch.$field = $value;
                vec![changed]
            },
            settle: $crate::technique::nothing_follows,
            copy: |from, to| to.torch.$field = from.torch.$field,
            price: |_| $crate::Price::free(),
            meaning: |_| $meaning.into(),
        }
    };
}

pub(super) use toggle;
