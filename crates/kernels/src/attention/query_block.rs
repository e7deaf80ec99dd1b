//! Some queries of a head with some keys, for the gradients of both.
//!
//! Blocks are transposed, 32 keys by 32 queries: the gradients of keys and values are sums over the queries, and so
//! have the weights on their left as they come. They stay in the first-level cache, a block of keys with all queries of
//! the round.

use std::ops::Range;

use super::{
    masked::{Masked, is_finite, multiply_masked},
    number::Number,
    pattern::{self, SequencePattern},
    shape::SequenceShape,
    stats::BackwardStats,
};
use crate::gemm::{
    block::{BLOCK, Block, TILE},
    multiply::Session,
    scratch::Buffer,
};

/// Queries and keys of a round, multiples of a block's.
pub(super) const QUERIES: usize = 256;
pub(super) const KEYS: usize = 512;

/// A thread's memory, kept from call to call.
#[derive(Default)]
pub(super) struct Scratch {
    /// Of the head of keys and values, packed on the left: rows of keys, rows of values, and the keys' columns in
    /// blocks of 32 places.
    pub(super) k_rows: Buffer,
    pub(super) v_rows: Buffer,
    pub(super) k_columns: Buffer,
    /// Of a round's queries, packed on the right: along the dimensions, and along the queries.
    pub(super) q: Both,
    pub(super) d_out: Both,
    /// Of a block of keys with a round's queries, on the left: probabilities, and gradients of scores.
    pub(super) weights: Buffer,
    pub(super) d_scores: Buffer,
    /// Gradients of a round's scores on the right, a panel of keys for each block of queries.
    pub(super) d_scores_right: Buffer,
    pub(super) lse: Vec<f32>,
    /// FlashAttention's `delta`: rowsum(dO ∘ O), one value per query.
    pub(super) delta: Vec<f32>,
    /// `[block of keys][panel]`, `[block of keys][panel]`, and transposed, `[panel][block of queries]`.
    pub(super) dk: Vec<Block>,
    pub(super) dv: Vec<Block>,
    pub(super) dq: Vec<Block>,
    /// A block of queries of that, a block a panel.
    pub(super) transposed: Vec<Block>,
}

/// A right operand in both orders.
#[derive(Default)]
pub(super) struct Both {
    pub(super) dimensions: Buffer,
    pub(super) queries: Buffer,
}

/// Queries of a head, with what is packed of them.
pub(super) struct QueryBlock<'a> {
    pub(super) session: &'a Session,
    pub(super) shape: SequenceShape,
    pub(super) pattern: SequencePattern,
    pub(super) head: usize,
    pub(super) queries: Range<usize>,
    /// True if gradients that are not finite are looked for.
    pub(super) checks_finite: bool,
}

impl QueryBlock<'_> {
    pub(super) fn blocks(&self) -> usize {
        self.queries.len() / TILE
    }

    /// The product of 32 keys or values and 32 queries, over the dimensions.
    fn multiply<P: Number>(&self, rows: &[P], panel: &[P], out: &mut Block) {
        let depth = self.shape.head_dim;
        P::multiply(self.session, rows, panel, depth, (TILE, TILE), out, false);
    }

    /// Adds what the queries give to the gradients of some keys and values, and keeps the gradients of the scores.
    /// Calls `between` for each pair of blocks.
    pub(super) fn take_keys<P: Number>(&self, keys: Range<usize>, scratch: &mut Scratch, mut between: impl FnMut()) {
        let (shape, blocks) = (self.shape, self.blocks());
        let (panels, len) = (shape.panels(), P::packed_len(shape.head_dim));
        let [q, d_out] = [&scratch.q, &scratch.d_out].map(|both| both.dimensions.get::<P>());
        let [k_rows, v_rows] = [&scratch.k_rows, &scratch.v_rows].map(|rows| rows.get::<P>());
        let [weights, d_scores] =
            [&mut scratch.weights, &mut scratch.d_scores].map(|buffer| blocks_of(buffer.of::<P>(blocks * BLOCK)));
        let d_scores_right = blocks_of(scratch.d_scores_right.of::<P>(blocks * KEYS * TILE));
        let (lse, delta) = (scratch.lse.as_chunks().0, scratch.delta.as_chunks().0);
        let (mut products, mut d_weights) = (Block::ZERO, Block::ZERO);
        let dropped = self.pattern.dropped(self.head);
        let (level, mut factors) = (self.session.level(), Block::ZERO);
        let mut slopes = Block::ZERO;

        for (at, key) in keys.step_by(TILE).enumerate() {
            let first_query = self.pattern.first_query(key);
            let (block_of_keys, first) = (key / TILE, first_query.saturating_sub(self.queries.start) / TILE);
            let query_end = self.pattern.query_end(key, self.queries.end);
            let end = query_end.saturating_sub(self.queries.start) / TILE;
            if first >= end {
                continue;
            }
            let hidden = self.pattern.hidden(self.queries.start + first * TILE, key);
            for block in first..end {
                self.multiply(&k_rows[block_of_keys * len..], &q[block * len..], &mut products);
                self.multiply(&v_rows[block_of_keys * len..], &d_out[block * len..], &mut d_weights);
                let query = self.queries.start + block * TILE;
                shape.scores.cap(level, &mut products);
                if let Some(dropped) = dropped {
                    dropped.factors(level, query, key, &mut factors);
                    pattern::multiply(level, &mut d_weights, &factors);
                }
                let stats = BackwardStats {
                    scale: shape.scores.scale,
                    lse: &lse[block],
                    delta: &delta[block],
                    hidden: self.pattern.hidden(query, key),
                    slopes: shape.scores.slopes(level, &products, &mut slopes),
                };
                let out = [
                    &mut weights[block - first],
                    &mut d_scores[block - first],
                    &mut d_scores_right[block * (KEYS / TILE) + at],
                ];
                P::softmax_block_backward(level, &products, &d_weights, &stats, out);
                if dropped.is_some() {
                    pattern::zero(level, &mut weights[block - first], &factors);
                }
                between();
            }
            for (left, right, sums) in [
                (&*weights, &scratch.d_out, &mut scratch.dv),
                (&*d_scores, &scratch.q, &mut scratch.dk),
            ] {
                let sums = &mut sums[block_of_keys * panels..][..panels];
                for (panel, sum) in sums.iter_mut().enumerate() {
                    let right = &right.queries.get::<P>()[(panel * blocks + first) * BLOCK..];
                    let masked =
                        (self.checks_finite && hidden.hides_later() && !is_finite(&right[..BLOCK])).then_some(Masked {
                            block: 0,
                            counts: |key, query, _| query >= key,
                        });
                    let factors = (left.as_flattened(), right, end - first);
                    let size = (TILE, shape.panel(panel).len());
                    multiply_masked(self.session, factors, masked, size, sum, true);
                }
            }
        }
    }

    /// Adds what the gradients of these keys' scores give to those of the queries.
    pub(super) fn finish_keys<P: Number>(&self, keys: Range<usize>, scratch: &mut Scratch) {
        let (shape, blocks) = (self.shape, self.blocks());
        let k_columns = scratch.k_columns.get::<P>();
        let d_scores = scratch.d_scores_right.get::<P>();
        let len = (shape.panels() * blocks).max(scratch.dq.len());
        scratch.dq.resize(len, Block::ZERO);
        for (block, query) in self.queries.clone().step_by(TILE).enumerate() {
            let (start, end) = (self.pattern.start(query), self.pattern.end(query));
            let first = start.max(keys.start);
            let seen = keys.end.min(end).saturating_sub(first) / TILE;
            if seen == 0 {
                continue;
            }
            let right = &d_scores[(block * KEYS + first - keys.start) * TILE..];
            for panel in 0..shape.panels() {
                let left = &k_columns[(panel * shape.padded() + first) * TILE..];
                let last = &left[(seen - 1) * BLOCK..][..BLOCK];
                let hidden = self.pattern.hidden(query, first + (seen - 1) * TILE);
                let masked = (self.checks_finite && hidden.hides_later() && !is_finite(last)).then_some(Masked {
                    block: seen - 1,
                    counts: |_, key, query| key <= query,
                });
                let size = (shape.panel(panel).len(), TILE);
                let sum = &mut scratch.dq[panel * blocks + block];
                multiply_masked(self.session, (left, right, seen), masked, size, sum, keys.start > start);
            }
        }
    }
}

fn blocks_of<P>(values: &mut [P]) -> &mut [[P; BLOCK]] {
    values.as_chunks_mut().0
}
