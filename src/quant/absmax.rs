//! The magnitude that scales are made of.

/// The largest magnitude. Magnitudes of floats are ordered as their bits are, infinities and NaNs above all others, so
/// neither is lost.
pub(super) fn absmax(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |max, value| max.max(value.abs().to_bits())))
}
