//! [`weights`](super::weights) for bfloat16, by AVX-512: a row of 32 is two vectors.

use std::{arch::x86_64::*, f32::consts::LOG2_E, mem::transmute};

use half::bf16;

use super::{
    pattern::Hidden,
    stats::{BackwardStats, ForwardStats, RowPartials},
};
use crate::{
    avx512::{exp2, halves, interleaved, narrow},
    gemm::block::{BLOCK, Block, TILE},
};

/// See [`softmax_block`](super::weights::softmax_block).
///
/// # Safety
/// The CPU has AVX-512 with BW and bfloat16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn softmax_block(scores: &Block, round: &mut ForwardStats, out: &mut [bf16; BLOCK]) {
    let scale = _mm512_set1_ps(round.scale * LOG2_E);
    let rows = out.as_chunks_mut::<TILE>().0.iter_mut().zip(&mut round.sums);
    for (row, ((out, sums), shift)) in rows.zip(&round.shifts).enumerate() {
        let shift = _mm512_set1_ps(shift * LOG2_E);
        // SAFETY: a row has 32 elements, and so has that of the output; there are 16 sums.
        unsafe {
            let scores = scores.row(row).as_ptr();
            let first = exp2(_mm512_fmsub_ps(_mm512_load_ps(scores), scale, shift));
            let second = exp2(_mm512_fmsub_ps(_mm512_load_ps(scores.add(16)), scale, shift));
            let sum = _mm512_add_ps(_mm512_loadu_ps(sums.as_ptr()), _mm512_add_ps(first, second));
            _mm512_storeu_ps(sums.as_mut_ptr(), sum);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), narrow(first, second));
        }
    }
}

/// See [`softmax_block_backward`](super::weights::softmax_block_backward).
///
/// # Safety
/// The CPU has AVX-512 with BW and bfloat16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn softmax_block_backward(
    scores: &Block,
    d_weights: &Block,
    stats: &BackwardStats,
    [weights, d_scores, d_scores_right]: [&mut [bf16; BLOCK]; 3],
) {
    let scale = _mm512_set1_ps(stats.scale * LOG2_E);
    // SAFETY: every row has 32 elements, every block 1024: the last pair of rows lies at 480 and at 992 on the right.
    unsafe {
        let [log_first, log_second] = halves(stats.lse).map(|half| _mm512_mul_ps(half, _mm512_set1_ps(LOG2_E)));
        let [delta_first, delta_second] = halves(stats.delta);
        for pair in 0..TILE / 2 {
            let mut rows = [_mm512_setzero_si512(); 2];
            for (at, d_row) in rows.iter_mut().enumerate() {
                let key = 2 * pair + at;
                let [first, second] = halves(scores.row(key));
                let [d_first, d_second] = halves(d_weights.row(key));
                let first = exp2(_mm512_fmsub_ps(first, scale, log_first));
                let second = exp2(_mm512_fmsub_ps(second, scale, log_second));
                let d_first = _mm512_mul_ps(first, _mm512_sub_ps(d_first, delta_first));
                let d_second = _mm512_mul_ps(second, _mm512_sub_ps(d_second, delta_second));
                let (d_first, d_second) = match stats.slopes {
                    Some(slopes) => {
                        let [slope_first, slope_second] = halves(slopes.row(key));
                        (
                            _mm512_mul_ps(d_first, slope_first),
                            _mm512_mul_ps(d_second, slope_second),
                        )
                    }
                    None => (d_first, d_second),
                };
                let (mut row, mut d) = (narrow(first, second), narrow(d_first, d_second));
                if stats.hidden != Hidden::Nothing {
                    let seeing = stats.hidden.seeing_queries(key);
                    let below = |place: usize| ((1u64 << place) - 1) as u32;
                    let seen = below(seeing.end) & !below(seeing.start);
                    (row, d) = (_mm512_maskz_mov_epi16(seen, row), _mm512_maskz_mov_epi16(seen, d));
                }
                _mm512_storeu_si512(weights.as_mut_ptr().add(key * TILE).cast(), row);
                _mm512_storeu_si512(d_scores.as_mut_ptr().add(key * TILE).cast(), d);
                *d_row = d;
            }
            let right = d_scores_right.as_mut_ptr().add(pair * 32);
            let [low, high] = interleaved(rows);
            _mm512_storeu_si512(right.cast(), low);
            _mm512_storeu_si512(right.add(512).cast(), high);
        }
    }
}

/// See [`add_products`](super::weights::add_products).
///
/// # Safety
/// The CPU has AVX-512 with BW and bfloat16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn add_products(a: &[bf16], b: &[bf16], sums: &mut [f32; 16]) {
    // SAFETY: no more is read of either row than it has; every pattern of bits is a value; there are 16 sums.
    unsafe {
        let mut total = _mm512_loadu_ps(sums.as_ptr());
        for (a, b) in a.chunks(TILE).zip(b.chunks(TILE)) {
            let there = u32::MAX >> (TILE - a.len().min(b.len()));
            let [a, b] = [a, b].map(|row| transmute(_mm512_maskz_loadu_epi16(there, row.as_ptr().cast())));
            total = _mm512_dpbf16_ps(total, a, b);
        }
        _mm512_storeu_ps(sums.as_mut_ptr(), total);
    }
}

/// See [`update_max`](super::weights::update_max).
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn update_max(maxima: &mut RowPartials, scores: &Block) {
    for (row, maxima) in maxima.iter_mut().enumerate() {
        let [first, second] = halves(scores.row(row));
        // SAFETY: there are 16 parts.
        unsafe {
            // Of two numbers one of which is none, it is the second.
            let max = _mm512_max_ps(second, _mm512_loadu_ps(maxima.as_ptr()));
            _mm512_storeu_ps(maxima.as_mut_ptr(), _mm512_max_ps(first, max));
        }
    }
}

/// See [`largest`](super::weights::largest).
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn largest(parts: &RowPartials) -> [f32; TILE] {
    // SAFETY: there are 16 parts.
    parts
        .each_ref()
        .map(|parts| _mm512_reduce_max_ps(unsafe { _mm512_loadu_ps(parts.as_ptr()) }))
}

/// See [`totals`](super::weights::totals).
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn totals(parts: &RowPartials) -> [f32; TILE] {
    // SAFETY: there are 16 parts.
    parts
        .each_ref()
        .map(|parts| _mm512_reduce_add_ps(unsafe { _mm512_loadu_ps(parts.as_ptr()) }))
}
