//! Functions of AVX-512's vectors that kernels share.

use std::{arch::x86_64::*, f32::consts::LN_2, mem::transmute};

use half::{bf16, f16};

use super::gemm::block::{Combination, TILE};

/// A format whose rows of 32 are read and written as two vectors of float32.
pub(super) trait Rows: Sized {
    /// Reads the elements that are `there`, a bit for each; zeros for the others.
    ///
    /// # Safety
    /// These elements can be read, and the CPU has AVX-512 with BW.
    unsafe fn load(row: *const Self, there: u32) -> [__m512; 2];

    /// Writes the elements that are `there`, rounded.
    ///
    /// # Safety
    /// These elements can be written; the CPU has AVX-512 with BW, and for bfloat16 its conversion.
    unsafe fn store(row: *mut Self, there: u32, values: [__m512; 2]);
}

impl Rows for bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(row: *const Self, there: u32) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        widen(unsafe { _mm512_maskz_loadu_epi16(there, row.cast()) })
    }

    /// What is below the format's normal numbers becomes 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn store(row: *mut Self, there: u32, [first, second]: [__m512; 2]) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_epi16(row.cast(), there, narrow(first, second)) };
    }
}

impl Rows for f16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(row: *const Self, there: u32) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        let values = unsafe { _mm512_maskz_loadu_epi16(there, row.cast()) };
        [
            _mm512_cvtph_ps(_mm512_castsi512_si256(values)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(values)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn store(row: *mut Self, there: u32, values: [__m512; 2]) {
        let [first, second] = values.map(|values| _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values));
        let values = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second);
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_epi16(row.cast(), there, values) };
    }
}

impl Rows for f32 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(row: *const Self, there: u32) -> [__m512; 2] {
        // SAFETY: the caller's promise; nothing is read of what is not there.
        unsafe {
            [
                _mm512_maskz_loadu_ps(there as u16, row),
                _mm512_maskz_loadu_ps((there >> 16) as u16, row.wrapping_add(16)),
            ]
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(row: *mut Self, there: u32, [first, second]: [__m512; 2]) {
        // SAFETY: the caller's promise; nothing is written of what is not there.
        unsafe {
            _mm512_mask_storeu_ps(row, there as u16, first);
            _mm512_mask_storeu_ps(row.wrapping_add(16), (there >> 16) as u16, second);
        }
    }
}

/// [`write`] of bfloat16. What it calls is inlined only where the caller has its features.
///
/// # Safety
/// As there; the CPU has bfloat16, too.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn write_bf16(
    sums: &[[f32; TILE]],
    cols: usize,
    combination: &Combination<bf16>,
    out: *mut bf16,
    stride: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { write(sums, cols, combination, out, stride) };
}

/// [`Element::write`](super::Element::write) of a format that has vectors.
///
/// # Safety
/// As there; the CPU has AVX-512 with BW, and what the format needs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn write<E: Rows>(
    sums: &[[f32; TILE]],
    cols: usize,
    combination: &Combination<E>,
    out: *mut E,
    stride: usize,
) {
    let [scale, bias] = [combination.scale, combination.bias].map(|columns| columns.map(|columns| halves(&columns)));
    if let Some((residual, stride)) = combination.residual {
        assert!(sums.is_empty() || (sums.len() - 1) * stride + cols <= residual.len());
    }
    let there = ((1u64 << cols) - 1) as u32;
    for (row, sums) in sums.iter().enumerate() {
        let mut both = halves(sums);
        if let Some(row_scale) = combination.row_scale {
            both = both.map(|half| _mm512_mul_ps(half, _mm512_set1_ps(row_scale[row])));
        }
        if let Some(scale) = scale {
            both = [_mm512_mul_ps(both[0], scale[0]), _mm512_mul_ps(both[1], scale[1])];
        }
        if let Some(bias) = bias {
            both = [_mm512_add_ps(both[0], bias[0]), _mm512_add_ps(both[1], bias[1])];
        }
        // SAFETY: the caller's promise, and the assertion.
        unsafe {
            if let Some((residual, stride)) = combination.residual {
                let [first, second] = E::load(residual.as_ptr().add(row * stride), there);
                both = [_mm512_add_ps(both[0], first), _mm512_add_ps(both[1], second)];
            }
            E::store(out.add(row * stride), there, both);
        }
    }
}

/// Writes the nearest values; those below bfloat16's normal numbers become 0.
///
/// # Safety
/// The CPU has AVX-512 with BW and bfloat16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn narrow_all(values: &[f32], out: &mut [bf16]) {
    assert_eq!(values.len(), out.len());
    let (whole, rest) = values.as_chunks::<TILE>();
    let (whole_out, rest_out) = out.as_chunks_mut::<TILE>();
    for (values, out) in whole.iter().zip(whole_out) {
        let [first, second] = halves(values);
        // SAFETY: there are 32 elements.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), narrow(first, second)) };
    }
    if !rest.is_empty() {
        let mut last = [0.0; TILE];
        last[..rest.len()].copy_from_slice(rest);
        let [first, second] = halves(&last);
        let there = (1 << rest.len()) - 1;
        // SAFETY: no more is written than there is.
        unsafe { _mm512_mask_storeu_epi16(rest_out.as_mut_ptr().cast(), there, narrow(first, second)) };
    }
}

/// The two vectors of a row.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn halves(row: &[f32; TILE]) -> [__m512; 2] {
    // SAFETY: there are 32 elements.
    unsafe { [_mm512_loadu_ps(row.as_ptr()), _mm512_loadu_ps(row.as_ptr().add(16))] }
}

/// 32 values of bfloat16, the lower half first.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen(values: __m512i) -> [__m512; 2] {
    let halves = [_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64::<1>(values)];
    halves.map(|half| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half))))
}

/// Both vectors in bfloat16, the first in the lower half.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn narrow(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both are 64 bytes of which every pattern is a value.
    unsafe { transmute(_mm512_cvtne2ps_pbh(second, first)) }
}

/// The pairs of 32 columns of two rows, 16 in a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn interleaved([first, second]: [__m512i; 2]) -> [__m512i; 2] {
    const fn order(start: u16) -> [u16; 32] {
        let mut order = [0; 32];
        let mut column = 0;
        while column < 16 {
            order[2 * column as usize] = start + column;
            order[2 * column as usize + 1] = 32 + start + column;
            column += 1;
        }
        order
    }
    static ORDERS: [[u16; 32]; 2] = [order(0), order(16)];
    ORDERS.each_ref().map(|order| {
        // SAFETY: an order has 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        _mm512_permutex2var_epi16(first, order, second)
    })
}

/// `2^x` by a polynomial on [-1/2, 1/2] whose relative error is at most 1.1e-7 (fitted by Lawson's method); 0 where it
/// is less than 2^-126, NaN for NaN.
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
