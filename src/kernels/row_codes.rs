//! Rows of 8-bit codes, each with a scale: from values, and to values.

use super::{absmax::absmax, element::Element};

/// The largest code.
pub(super) const LARGEST: f32 = 127.0;

/// Writes the codes of a row, `round(value · (1 / absmax · 127))` with ties to even, and returns its scale, `absmax / 127`.
#[inline(always)]
pub fn encode(values: &[f32], codes: &mut [i8]) -> f32 {
    let absmax = absmax(values);
    let inverse = if absmax > 0.0 { 1.0 / absmax * LARGEST } else { 0.0 };
    for (code, value) in codes.iter_mut().zip(values) {
        *code = (value * inverse).round_ties_even() as i8;
    }
    absmax / LARGEST
}

/// Writes the scaled codes of a row or of a part of it, rounded to a format.
#[inline(always)]
pub fn decode<E: Element>(codes: &[i8], scale: f32, out: &mut [E]) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = E::narrow(f32::from(*code) * scale);
    }
}
