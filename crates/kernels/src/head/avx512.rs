//! [`one_pass`](super::one_pass) by AVX-512: a row of 32 is two vectors.

use std::{arch::x86_64::*, f32::consts::LOG2_E};

use crate::{
    avx512::{exp2, halves},
    gemm::block::Block,
};

/// Writes `exp(logit - base)` and the rows' sums, of as many rows as there are bases. True if a logit lies further than
/// `headroom` above its base.
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exponentials(
    block: &Block,
    bases: &[f32],
    headroom: f32,
    exps: &mut Block,
    sums: &mut [f32],
) -> bool {
    let (log2_e, headroom) = (_mm512_set1_ps(LOG2_E), _mm512_set1_ps(headroom));
    let mut too_high = 0;
    for (row, (base, sum)) in bases.iter().zip(sums).enumerate() {
        let base = _mm512_set1_ps(*base);
        let [first, second] = halves(block.row(row)).map(|logits| {
            let above = _mm512_sub_ps(logits, base);
            too_high |= _mm512_cmp_ps_mask::<_CMP_GT_OQ>(above, headroom);
            exp2(_mm512_mul_ps(above, log2_e))
        });
        *sum = _mm512_reduce_add_ps(_mm512_add_ps(first, second));
        let out = exps.row_mut(row).as_mut_ptr();
        // SAFETY: a row has 32 elements.
        unsafe {
            _mm512_storeu_ps(out, first);
            _mm512_storeu_ps(out.add(16), second);
        }
    }
    too_high != 0
}
