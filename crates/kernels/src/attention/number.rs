//! Formats that attention is computed in.

use half::bf16;

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::{
    stats::{BackwardStats, ForwardStats},
    weights,
};
use crate::{
    InstructionSet,
    gemm::{
        block::{BLOCK, Block, TILE},
        multiply::{Multiply, Session},
    },
};

/// A format of products, with what lies between them.
pub trait Number: Multiply {
    /// `out (+)= left · right` over some blocks of 32 places, how many comes third: the left ones
    /// `[32 rows][32 places]` each, the right ones consecutive in a panel.
    fn multiply_blocks(
        session: &Session,
        factors: (&[Self], &[Self], usize),
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    );

    /// Adds the products of two rows' elements to 16 sums.
    fn add_products(level: InstructionSet, a: &[Self], b: &[Self], sums: &mut [f32; 16]) {
        weights::add_products(level, a, b, sums);
    }

    /// From the scores of 32 queries (the rows) with 32 keys to their weights, see `weights::softmax_block`.
    fn softmax_block(level: InstructionSet, scores: &Block, round: &mut ForwardStats, out: &mut [Self; BLOCK]) {
        weights::softmax_block(level, scores, round, out);
    }

    /// From the scores of 32 keys (the rows) with 32 queries to weights and gradients, see
    /// `weights::softmax_block_backward`.
    fn softmax_block_backward(
        level: InstructionSet,
        scores: &Block,
        d_weights: &Block,
        stats: &BackwardStats,
        out: [&mut [Self; BLOCK]; 3],
    ) {
        weights::softmax_block_backward(level, scores, d_weights, stats, out);
    }
}

impl Number for f32 {
    #[inline]
    fn multiply_blocks(
        session: &Session,
        (left, right, blocks): (&[Self], &[Self], usize),
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        let pairs = left.as_chunks::<BLOCK>().0.iter().zip(right.as_chunks::<BLOCK>().0);
        for (at, (left, right)) in pairs.take(blocks).enumerate() {
            Self::multiply(session, left, right, TILE, shape, out, accumulate || at > 0);
        }
    }
}

impl Number for bf16 {
    #[inline]
    fn multiply_blocks(
        session: &Session,
        (left, right, blocks): (&[Self], &[Self], usize),
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        // A step of a packed operand is a block.
        Self::multiply(session, left, right, blocks * TILE, shape, out, accumulate);
    }

    fn add_products(level: InstructionSet, a: &[Self], b: &[Self], sums: &mut [f32; 16]) {
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 {
            // SAFETY: the level is only in use where the CPU has its instructions.
            return unsafe { avx512::add_products(a, b, sums) };
        }
        weights::add_products(level, a, b, sums);
    }

    fn softmax_block(level: InstructionSet, scores: &Block, round: &mut ForwardStats, out: &mut [Self; BLOCK]) {
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 {
            // SAFETY: the level is only in use where the CPU has its instructions.
            return unsafe { avx512::softmax_block(scores, round, out) };
        }
        weights::softmax_block(level, scores, round, out);
    }

    fn softmax_block_backward(
        level: InstructionSet,
        scores: &Block,
        d_weights: &Block,
        stats: &BackwardStats,
        out: [&mut [Self; BLOCK]; 3],
    ) {
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 {
            // SAFETY: the level is only in use where the CPU has its instructions.
            return unsafe { avx512::softmax_block_backward(scores, d_weights, stats, out) };
        }
        weights::softmax_block_backward(level, scores, d_weights, stats, out);
    }
}
