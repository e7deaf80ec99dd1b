//! Number formats of activations and weights.

use half::{bf16, f16};

use crate::Dispatch as _;

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::{
    InstructionSet,
    gemm::block::{Combination, TILE},
};

/// A function that writes as [`Element::write`].
#[cfg(target_arch = "x86_64")]
type Write<E> = unsafe fn(&[[f32; TILE]], usize, &Combination<E>, *mut E, usize);

/// A format that values are kept in; arithmetic is float32.
pub trait Element: Copy + Send + Sync + 'static {
    /// The least level that has vectors for the format, and [`Self::write`] by them.
    #[cfg(target_arch = "x86_64")]
    const VECTORS: (InstructionSet, Write<Self>);

    /// The value in float32, exactly.
    fn widen(self) -> f32;
    /// The nearest value of the format, ties to even.
    fn narrow(value: f32) -> Self;

    /// Writes the nearest values of the format. Where the instruction set converts to bfloat16, what is below that
    /// format's normal numbers becomes 0; so it does in [`Self::write`].
    ///
    /// # Panics
    /// If the slices differ in length.
    fn narrow_all(level: InstructionSet, values: &[f32], out: &mut [Self]) {
        narrow_one_by_one(level, values, out);
    }

    /// Writes rows of sums, as [`Combination`] says, to rows `stride` elements apart; of each, the first `cols` count,
    /// at most 32.
    ///
    /// # Panics
    /// If the residual is smaller.
    ///
    /// # Safety
    /// Nobody else has these elements, and there are as many.
    unsafe fn write(sums: &[[f32; TILE]], cols: usize, combination: &Combination<Self>, out: *mut Self, stride: usize) {
        let level = InstructionSet::current();
        // SAFETY: the caller's promise; the level is only in use where the CPU has its instructions.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if level >= Self::VECTORS.0 {
                return (Self::VECTORS.1)(sums, cols, combination, out, stride);
            }
            write_one_by_one(level, sums, cols, combination, out, stride);
        }
    }
}

/// [`Element::narrow_all`] in a loop.
fn narrow_one_by_one<E: Element>(level: InstructionSet, values: &[f32], out: &mut [E]) {
    assert_eq!(values.len(), out.len());
    level.run(
        #[inline(always)]
        || narrow(values, out),
    );
}

/// [`Element::write`] in a loop.
///
/// # Safety
/// As there.
unsafe fn write_one_by_one<E: Element>(
    level: InstructionSet,
    sums: &[[f32; TILE]],
    cols: usize,
    combination: &Combination<E>,
    out: *mut E,
    stride: usize,
) {
    let Combination {
        row_scale,
        scale,
        bias,
        residual,
    } = combination;
    level.run(
        #[inline(always)]
        || {
            for (row, sums) in sums.iter().enumerate() {
                let mut sums = *sums;
                if let Some(row_scale) = row_scale {
                    sums = sums.map(|sum| sum * row_scale[row]);
                }
                if let Some(scale) = scale {
                    for (sum, scale) in sums.iter_mut().zip(scale) {
                        *sum *= scale;
                    }
                }
                if let Some(bias) = bias {
                    for (sum, bias) in sums.iter_mut().zip(bias) {
                        *sum += bias;
                    }
                }
                // SAFETY: the caller's promise.
                let out = unsafe { std::slice::from_raw_parts_mut(out.add(row * stride), cols) };
                if let Some((residual, stride)) = residual {
                    let residual = &residual[row * stride..][..cols];
                    add(&mut sums, residual);
                }
                narrow(&sums, out);
            }
        },
    );
}

#[inline(always)]
fn add<E: Element>(sums: &mut [f32; TILE], values: &[E]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value.widen();
    }
}

#[inline(always)]
fn narrow<E: Element>(values: &[f32], out: &mut [E]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = E::narrow(*value);
    }
}

impl Element for f32 {
    #[cfg(target_arch = "x86_64")]
    const VECTORS: (InstructionSet, Write<Self>) = (InstructionSet::Avx512, avx512::write);

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }
}

/// Without branches or calls, so that loops over it vectorise (after F. Giesen's `half_to_float_fast` and
/// `float_to_half_fast3_rtne`).
impl Element for f16 {
    #[cfg(target_arch = "x86_64")]
    const VECTORS: (InstructionSet, Write<Self>) = (InstructionSet::Avx512, avx512::write);

    #[inline(always)]
    fn widen(self) -> f32 {
        const INFINITE: u32 = 0x7c00 << 13;
        const SMALLEST_NORMAL: u32 = 1 << 23;
        let bits = u32::from(self.to_bits());
        // In float32's places, but with an exponent that is 112 too small.
        let magnitude = (bits & 0x7fff) << 13;
        let normal = magnitude + (112 << 23);
        let subnormal = (f32::from_bits(normal + SMALLEST_NORMAL) - f32::from_bits(113 << 23)).to_bits();
        let value = if magnitude >= INFINITE {
            normal + (112 << 23)
        } else if magnitude < SMALLEST_NORMAL {
            subnormal
        } else {
            normal
        };
        f32::from_bits(value | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        const INFINITE: u32 = 0xff << 23;
        const PAST_LARGEST: u32 = (127 + 16) << 23;
        const SMALLEST_NORMAL: u32 = 113 << 23;
        // Adding it leaves a subnormal's bits, rounded, at the end of the sum's.
        const SUBNORMAL: u32 = (127 - 15 + 23 - 10 + 1) << 23;
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let odd = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(SUBNORMAL))
            .to_bits()
            .wrapping_sub(SUBNORMAL);
        let rounded = if magnitude > INFINITE {
            0x7e00
        } else if magnitude >= PAST_LARGEST {
            0x7c00
        } else if magnitude < SMALLEST_NORMAL {
            subnormal
        } else {
            normal
        };
        Self::from_bits((rounded | (bits >> 16) & 0x8000) as u16)
    }
}

impl Element for bf16 {
    #[cfg(target_arch = "x86_64")]
    const VECTORS: (InstructionSet, Write<Self>) = (InstructionSet::Avx512Bf16, avx512::write_bf16);

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// Without a branch, so that loops over it vectorise.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        Self::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
    }

    fn narrow_all(level: InstructionSet, values: &[f32], out: &mut [Self]) {
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 {
            // SAFETY: the level is only in use where the CPU has its instructions.
            unsafe { avx512::narrow_all(values, out) };
            return;
        }
        narrow_one_by_one(level, values, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::forced::at_each_level;

    /// Halves, which every format holds exactly.
    fn values<E: Element>(count: usize) -> Vec<E> {
        (0..count)
            .map(|at| E::narrow((at * 37 % 61) as f32 / 2.0 - 15.0))
            .collect()
    }

    fn sums_are_combined<E: Element + PartialEq + std::fmt::Debug>() {
        const STRIDE: usize = 40;
        let sums: [[f32; TILE]; 3] = std::array::from_fn(|row| std::array::from_fn(|col| (row * 9 + col * 5) as f32));
        let columns: [f32; TILE] = std::array::from_fn(|col| col as f32 / 4.0);
        let residual = values::<E>(3 * STRIDE);
        for cols in [0, 1, 16, 31, 32] {
            for has in 0..16 {
                let combination = Combination {
                    row_scale: (has & 8 != 0).then_some(&columns),
                    scale: (has & 1 != 0).then_some(columns),
                    bias: (has & 2 != 0).then_some(columns),
                    residual: (has & 4 != 0).then_some((&residual[..], STRIDE)),
                };
                let before = values::<E>(3 * STRIDE);
                let mut out = before.clone();
                // SAFETY: there are three rows, and the residual has as many.
                unsafe { E::write(&sums, cols, &combination, out.as_mut_ptr(), STRIDE) };
                for (at, got) in out.iter().enumerate() {
                    let (row, col) = (at / STRIDE, at % STRIDE);
                    let want = if col < cols {
                        let of_row = combination.row_scale.map_or(1.0, |scale| scale[row]);
                        let scaled = sums[row][col] * of_row * combination.scale.map_or(1.0, |scale| scale[col]);
                        let moved = scaled + combination.bias.map_or(0.0, |bias| bias[col]);
                        E::narrow(moved + combination.residual.map_or(0.0, |(values, _)| values[at].widen()))
                    } else {
                        before[at]
                    };
                    assert_eq!(*got, want, "row {row}, column {col} of {cols}, {has}");
                }
            }
        }
    }

    /// Sums that are rounded to all kinds of numbers of float16, which are then read as residuals.
    fn half_rounds_alike(level: InstructionSet) {
        let bits = [
            0,
            0x8000_0000,
            0x7f80_0000,
            0xff80_0000,
            0x477f_efff,
            0x477f_f000,
            0x3300_0000,
            0x3300_0001,
        ];
        let numbers = bits.into_iter().chain((0x3280_0000..0x4790_0000).step_by(99_991));
        let numbers: Vec<f32> = numbers.map(f32::from_bits).collect();
        for numbers in numbers.as_chunks::<TILE>().0 {
            for sign in [1.0, -1.0] {
                let sums = numbers.map(|number| sign * number);
                let mut out = [f16::ZERO; TILE];
                // SAFETY: there is a row.
                unsafe { f16::write(&[sums], TILE, &Combination::SUMS, out.as_mut_ptr(), TILE) };
                let expected = sums.map(|sum| f16::from_f32(sum).to_bits());
                assert_eq!(out.map(f16::to_bits), expected, "{level:?} {sums:?}");
                let combination = Combination {
                    residual: Some((&out[..], TILE)),
                    ..Combination::SUMS
                };
                let mut again = [f16::ZERO; TILE];
                // SAFETY: as above.
                unsafe { f16::write(&[[0.0; TILE]], TILE, &combination, again.as_mut_ptr(), TILE) };
                let expected = out.map(|value| f16::from_f32(0.0 + value.to_f32()).to_bits());
                assert_eq!(again.map(f16::to_bits), expected, "{level:?} {sums:?}");
            }
        }
    }

    #[test]
    fn sums_are_combined_and_rounded_once() {
        at_each_level(|level| {
            sums_are_combined::<f32>();
            sums_are_combined::<f16>();
            sums_are_combined::<bf16>();
            half_rounds_alike(level);
            for count in [0, 1, 31, 32, 33, 100] {
                let wide: Vec<f32> = (0..count).map(|at| at as f32 * 1.37 - 40.0).collect();
                let mut out = vec![bf16::NAN; count];
                bf16::narrow_all(level, &wide, &mut out);
                assert!(out.iter().zip(&wide).all(|(out, value)| *out == bf16::from_f32(*value)));
            }
        });
    }
}
