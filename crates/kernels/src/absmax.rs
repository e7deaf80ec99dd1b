//! The absolute maximum of a block or row, which its scale is computed from.

/// The largest magnitude. Magnitudes of floats have the order of their bits. Infinities and NaNs come above all others,
/// so neither is lost.
#[inline(always)]
pub fn absmax(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |max, value| max.max(value.abs().to_bits())))
}
