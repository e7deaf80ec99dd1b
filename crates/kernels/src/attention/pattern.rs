//! Which keys a query sees, and which of its weights are dropped.

use std::ops::Range;

use crate::Dispatch as _;
use crate::{
    InstructionSet, Sequences,
    dropout::Mask,
    gemm::{
        block::{BLOCK, Block, TILE},
        operand::Number,
    },
};

/// The keys that a query sees.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// Those up to its own position.
    Causal,
    /// The last ones up to its own position, at most this many; at least one.
    Window(usize),
    /// The first ones of its sequence: a count for each sequence, at least 1.
    First(&'a [u32]),
}

/// What attention leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Pattern<'a> {
    /// The keys that each query sees.
    pub keys: Keys<'a>,
    /// A mask a sequence, over [`Pattern::index`].
    pub dropout: Option<&'a [Mask]>,
}

impl Pattern<'_> {
    /// Every weight up to the query's own position.
    pub const CAUSAL: Self = Self {
        keys: Keys::Causal,
        dropout: None,
    };

    /// The place of a weight in its sequence's mask: the same however long the sequence is padded. Every one of the
    /// three is less than 2^24, heads less than 2^16.
    #[inline(always)]
    pub fn index(head: usize, query: usize, key: usize) -> u64 {
        (head as u64) << 48 | (query as u64) << 24 | key as u64
    }

    /// The keys that a query of a sequence sees.
    #[inline(always)]
    pub fn seen(&self, sequence: usize, query: usize) -> Range<usize> {
        match self.keys {
            Keys::Causal => 0..query + 1,
            Keys::Window(window) => (query + 1).saturating_sub(window)..query + 1,
            Keys::First(lengths) => 0..lengths[sequence] as usize,
        }
    }

    /// Whether this fits these sequences.
    pub(super) fn fits(&self, sequences: &Sequences) -> bool {
        let lengths = match self.keys {
            Keys::Causal => true,
            Keys::Window(window) => window > 0,
            Keys::First(lengths) => {
                let mut pairs = lengths.iter().zip(sequences.iter());
                lengths.len() == sequences.count()
                    && pairs.all(|(&length, tokens)| (1..=tokens.len()).contains(&(length as usize)))
            }
        };
        lengths && self.dropout.is_none_or(|masks| masks.len() == sequences.count())
    }

    /// The pattern of one sequence.
    pub(super) fn of_sequence(&self, index: usize) -> SequencePattern {
        SequencePattern {
            seen: match self.keys {
                Keys::Causal => Seen::Causal,
                Keys::Window(window) => Seen::Window(window),
                Keys::First(lengths) => Seen::First(lengths[index] as usize),
            },
            mask: self.dropout.map(|masks| masks[index]),
        }
    }
}

/// The keys that a query of one sequence sees.
#[derive(Debug, Clone, Copy)]
enum Seen {
    Causal,
    Window(usize),
    First(usize),
}

/// What attention leaves out of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequencePattern {
    seen: Seen,
    mask: Option<Mask>,
}

impl SequencePattern {
    /// Positions that are keys to any query, of `len`.
    pub(super) fn key_positions(&self, len: usize) -> usize {
        match self.seen {
            Seen::Causal | Seen::Window(_) => len,
            Seen::First(keys) => keys,
        }
    }

    /// Start of the key blocks that the block of queries from `first` on can see.
    pub(super) fn start(&self, first: usize) -> usize {
        match self.seen {
            Seen::Window(window) => (first + 1).saturating_sub(window) / TILE * TILE,
            Seen::Causal | Seen::First(_) => 0,
        }
    }

    /// End of the key blocks that the block of queries from `first` on can see.
    pub(super) fn end(&self, first: usize) -> usize {
        match self.seen {
            Seen::Causal | Seen::Window(_) => first + TILE,
            Seen::First(keys) => keys.next_multiple_of(TILE),
        }
    }

    /// The first query that sees the block of keys from `first` on.
    pub(super) fn first_query(&self, first: usize) -> usize {
        match self.seen {
            Seen::Causal | Seen::Window(_) => first,
            Seen::First(_) => 0,
        }
    }

    /// End of the query blocks that can see the block of keys from `first` on, at most `end`.
    pub(super) fn query_end(&self, first: usize, end: usize) -> usize {
        match self.seen {
            // The block's last key, and as many queries from its own on.
            Seen::Window(window) => end.min((first + TILE - 1 + window).next_multiple_of(TILE)),
            Seen::Causal | Seen::First(_) => end,
        }
    }

    /// What is hidden in the block of queries from `query` and keys from `key` on.
    pub(super) fn hidden(&self, query: usize, key: usize) -> Hidden {
        match self.seen {
            Seen::Causal if query == key => Hidden::Later,
            Seen::Causal => Hidden::Nothing,
            Seen::Window(window) => match query - key {
                // The block's last query still sees its first key.
                ahead if ahead + TILE <= window => match ahead {
                    0 => Hidden::Later,
                    _ => Hidden::Nothing,
                },
                ahead => Hidden::OutsideWindow { ahead, window },
            },
            Seen::First(keys) => match keys.saturating_sub(key) {
                TILE.. => Hidden::Nothing,
                seen => Hidden::From(seen),
            },
        }
    }

    /// The mask of a head's weights.
    pub(super) fn dropped(&self, head: usize) -> Option<Dropped> {
        Some(Dropped { mask: self.mask?, head })
    }
}

/// The keys of a block that its queries do not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    Nothing,
    /// Those after the query's own place in the block.
    Later,
    /// Those from this place on.
    From(usize),
    /// Those after the query, and those behind its window. The block of queries begins `ahead` positions after that of
    /// keys.
    OutsideWindow {
        ahead: usize,
        window: usize,
    },
}

impl Hidden {
    /// True if each query sees no key after its own place in the block.
    pub fn hides_later(self) -> bool {
        matches!(self, Self::Later | Self::OutsideWindow { ahead: 0, .. })
    }

    /// The keys of the block that its query `query` sees.
    #[inline(always)]
    pub fn seen_keys(self, query: usize) -> Range<usize> {
        match self {
            Self::Nothing => 0..TILE,
            Self::Later => 0..query + 1,
            Self::From(place) => 0..place,
            Self::OutsideWindow { ahead, window } => {
                let end = ahead + query + 1;
                end.saturating_sub(window).min(TILE)..end.min(TILE)
            }
        }
    }

    /// The queries of the block that see its key `key`.
    #[inline(always)]
    pub fn seeing_queries(self, key: usize) -> Range<usize> {
        match self {
            Self::Nothing => 0..TILE,
            Self::Later => key..TILE,
            Self::From(place) if key < place => 0..TILE,
            Self::From(_) => 0..0,
            Self::OutsideWindow { ahead, window } => {
                let start = key.saturating_sub(ahead);
                start..(key + window).saturating_sub(ahead).clamp(start, TILE)
            }
        }
    }
}

/// Which weights of a head are dropped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dropped {
    mask: Mask,
    head: usize,
}

impl Dropped {
    /// What the weights that stay are multiplied by, which is left to the sums of their products.
    pub(super) fn keep(&self) -> f32 {
        self.mask.keep()
    }

    /// Makes the dropped weights of a left block zero: 32 queries (rows) from `query` on, 32 keys from `key` on.
    pub(super) fn drop_weights<P: Number>(
        &self,
        level: InstructionSet,
        query: usize,
        key: usize,
        weights: &mut [P; BLOCK],
    ) {
        let Self { mask, head } = *self;
        level.run(
            #[inline(always)]
            || {
                for (row, weights) in weights.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
                    let first = Pattern::index(head, query + row, key);
                    for (at, weight) in weights.iter_mut().enumerate() {
                        let kept = mask.factor(first + at as u64) != 0.0;
                        *weight = std::hint::select_unpredictable(kept, *weight, P::ZERO);
                    }
                }
            },
        );
    }

    /// The factors of 32 keys (rows) by 32 queries.
    pub(super) fn factors(&self, level: InstructionSet, query: usize, key: usize, factors: &mut Block) {
        let Self { mask, head } = *self;
        level.run(
            #[inline(always)]
            || {
                for row in 0..TILE {
                    let first = Pattern::index(head, query, key + row);
                    for (at, factor) in factors.row_mut(row).iter_mut().enumerate() {
                        *factor = mask.factor(first + ((at as u64) << 24));
                    }
                }
            },
        );
    }
}

/// Multiplies a block by the factors of dropout.
pub(super) fn multiply(level: InstructionSet, block: &mut Block, factors: &Block) {
    level.run(
        #[inline(always)]
        || {
            for (value, factor) in block.0.iter_mut().zip(&factors.0) {
                *value *= factor;
            }
        },
    );
}

/// Makes the weights zero whose factors are.
pub(super) fn zero<P: Number>(level: InstructionSet, weights: &mut [P; BLOCK], factors: &Block) {
    level.run(
        #[inline(always)]
        || {
            for (weight, factor) in weights.iter_mut().zip(&factors.0) {
                *weight = std::hint::select_unpredictable(*factor != 0.0, *weight, P::ZERO);
            }
        },
    );
}
