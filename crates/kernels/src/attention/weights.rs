//! From scores to weights and back, a block at a time, for any format and instruction set.

use super::avx512;
use super::stats::{BackwardStats, ForwardStats, RowPartials};
#[cfg(target_arch = "x86_64")]
use crate::Dispatch as _;
use crate::{
    Element, InstructionSet,
    gemm::{
        block::{BLOCK, Block, TILE},
        pack::Packed,
    },
};

/// Writes `exp(scale · score - shift)` as a left block (rows are queries, places keys), and adds it to the sums.
pub(super) fn softmax_block<P: Element>(
    level: InstructionSet,
    scores: &Block,
    round: &mut ForwardStats,
    out: &mut [P; BLOCK],
) {
    level.compute(
        #[inline(always)]
        |arithmetic| {
            let ForwardStats { scale, shifts, sums } = round;
            for (row, out) in out.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
                let (shift, scores) = (shifts[row], scores.row(row));
                let mut weights = [0f32; TILE];
                for (weight, score) in weights.iter_mut().zip(scores) {
                    *weight = arithmetic.exp(arithmetic.mul_add(*score, *scale, -shift));
                }
                for (key, sum) in sums[row].iter_mut().enumerate() {
                    *sum += weights[key] + weights[key + 16];
                }
                for (out, weight) in out.iter_mut().zip(weights) {
                    *out = P::narrow(weight);
                }
            }
        },
    );
}

/// Takes 32 queries' scores (the rows) into their largest.
pub(super) fn update_max(level: InstructionSet, maxima: &mut RowPartials, scores: &Block) {
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        // SAFETY: the level is only in use where the CPU has its instructions.
        return unsafe { avx512::update_max(maxima, scores) };
    }
    level.run(
        #[inline(always)]
        || {
            for (row, maxima) in maxima.iter_mut().enumerate() {
                let (first, second) = scores.row(row).split_at(16);
                for ((max, first), second) in maxima.iter_mut().zip(first).zip(second) {
                    *max = larger(larger(*first, *second), *max);
                }
            }
        },
    );
}

/// Each query's largest part.
pub(super) fn largest(level: InstructionSet, parts: &RowPartials) -> [f32; TILE] {
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        // SAFETY: the level is only in use where the CPU has its instructions.
        return unsafe { avx512::largest(parts) };
    }
    let _ = level;
    parts.map(|parts| parts.into_iter().fold(f32::NEG_INFINITY, larger))
}

/// Each query's sum.
pub(super) fn totals(level: InstructionSet, parts: &RowPartials) -> [f32; TILE] {
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 {
        // SAFETY: the level is only in use where the CPU has its instructions.
        return unsafe { avx512::totals(parts) };
    }
    let _ = level;
    parts.map(|parts| parts.into_iter().sum())
}

/// The larger number, the second where either is none.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Adds the products of two rows' elements to 16 sums.
pub(super) fn add_products<P: Element>(level: InstructionSet, a: &[P], b: &[P], sums: &mut [f32; 16]) {
    level.run(
        #[inline(always)]
        || {
            for (a, b) in a.chunks(16).zip(b.chunks(16)) {
                for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                    *sum += a.widen() * b.widen();
                }
            }
        },
    );
}

/// From scores and gradients of weights (rows are keys) to the weights `p = exp(scale · score - lse)`, as a left block
/// (rows are keys, places queries), and the gradients of the scaled products, `p (d_weight - delta)` times the slope of
/// a cap, as a left block and as a right one (places are keys).
pub(super) fn softmax_block_backward<P: Packed>(
    level: InstructionSet,
    scores: &Block,
    d_weights: &Block,
    stats: &BackwardStats,
    [weights, d_scores, d_scores_right]: [&mut [P; BLOCK]; 3],
) {
    level.compute(
        #[inline(always)]
        |arithmetic| {
            let BackwardStats { scale, lse, delta, .. } = *stats;
            let rows = weights.as_chunks_mut::<TILE>().0.iter_mut();
            for (key, (weights, d_scores)) in rows.zip(d_scores.as_chunks_mut::<TILE>().0).enumerate() {
                let seeing = stats.hidden.seeing_queries(key);
                let (scores, d_weights) = (scores.row(key), d_weights.row(key));
                let (mut of_key, mut d_of_key) = ([0f32; TILE], [0f32; TILE]);
                for ((weight, score), lse) in of_key.iter_mut().zip(scores).zip(lse) {
                    *weight = arithmetic.exp(arithmetic.mul_add(*score, scale, -lse));
                }
                for (((d_score, weight), d_weight), delta) in d_of_key.iter_mut().zip(&of_key).zip(d_weights).zip(delta)
                {
                    *d_score = weight * (d_weight - delta);
                }
                if let Some(slopes) = stats.slopes {
                    for (d_score, slope) in d_of_key.iter_mut().zip(slopes.row(key)) {
                        *d_score *= slope;
                    }
                }
                for values in [&mut of_key, &mut d_of_key] {
                    values[..seeing.start].fill(0.0);
                    values[seeing.end..].fill(0.0);
                }
                for (to, values) in [(weights, &of_key), (d_scores, &d_of_key)] {
                    for (to, value) in to.iter_mut().zip(values) {
                        *to = P::narrow(*value);
                    }
                }
            }
            for (pair, rows) in d_scores.as_chunks::<{ 2 * TILE }>().0.iter().enumerate() {
                let (first, second) = rows.split_at(TILE);
                P::put_right_places(level, d_scores_right, 2 * pair, first, second);
            }
        },
    );
}
