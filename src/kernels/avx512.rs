//! Functions of AVX-512's vectors that kernels share.

use std::{arch::x86_64::*, f32::consts::LN_2, mem::transmute};

use half::bf16;

use super::gemm::block::TILE;

/// Writes the nearest values of `factor · values`; those below bfloat16's normal numbers become 0.
///
/// # Safety
/// The CPU has AVX-512 with BW and bfloat16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn narrow_products(values: &[f32], factor: f32, out: &mut [bf16]) {
    assert_eq!(values.len(), out.len());
    let factor = _mm512_set1_ps(factor);
    for (values, out) in values.chunks(TILE).zip(out.chunks_mut(TILE)) {
        let there = u32::MAX >> (TILE - values.len());
        // SAFETY: no more is read or written than there is.
        unsafe {
            let first = _mm512_maskz_loadu_ps(there as u16, values.as_ptr());
            let second = _mm512_maskz_loadu_ps((there >> 16) as u16, values.as_ptr().wrapping_add(16));
            let both = narrow(_mm512_mul_ps(first, factor), _mm512_mul_ps(second, factor));
            _mm512_mask_storeu_epi16(out.as_mut_ptr().cast(), there, both);
        }
    }
}

/// The two vectors of a row.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn halves(row: &[f32; TILE]) -> [__m512; 2] {
    // SAFETY: there are 32 elements.
    unsafe { [_mm512_loadu_ps(row.as_ptr()), _mm512_loadu_ps(row.as_ptr().add(16))] }
}

/// Both vectors in bfloat16, the first in the lower half.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn narrow(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both are 64 bytes of which every pattern is a value.
    unsafe { transmute(_mm512_cvtne2ps_pbh(second, first)) }
}

/// `2^x` by a polynomial on [-1/2, 1/2] whose relative error is at most 1.1e-7 (fitted by Lawson's method); 0 where it is
/// less than 2^-126, NaN for NaN.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp2(x: __m512) -> __m512 {
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    let r = _mm512_sub_ps(x, whole);
    let mut power = _mm512_set1_ps(1.330_060_5e-3);
    for coefficient in [9.669_691e-3, 5.550_558_5e-2, 0.240_222_83, LN_2, 1.0] {
        power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(coefficient));
    }
    let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(-126.0));
    _mm512_maskz_scalef_ps(there, power, whole)
}
