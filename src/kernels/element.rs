//! Number formats of activations and weights.

use half::{bf16, f16};

use super::InstructionSet;

/// A format that values are kept in; arithmetic is float32.
pub trait Element: Copy + Send + Sync + 'static {
    /// The value in float32, exactly.
    fn widen(self) -> f32;
    /// The nearest value of the format, ties to even.
    fn narrow(value: f32) -> Self;

    /// Writes the nearest values of `factor · values`.
    ///
    /// # Panics
    /// If the slices differ in length.
    fn narrow_products(values: &[f32], factor: f32, out: &mut [Self]) {
        narrow_one_by_one(InstructionSet::current(), values, factor, out);
    }
}

/// [`Element::narrow_products`] in a loop.
fn narrow_one_by_one<E: Element>(level: InstructionSet, values: &[f32], factor: f32, out: &mut [E]) {
    assert_eq!(values.len(), out.len());
    level.run(
        #[inline(always)]
        || {
            for (out, value) in out.iter_mut().zip(values) {
                *out = E::narrow(value * factor);
            }
        },
    );
}

impl Element for f32 {
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

    fn narrow_products(values: &[f32], factor: f32, out: &mut [Self]) {
        let level = InstructionSet::current();
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512Bf16 {
            // SAFETY: the level is only in use where the CPU has its instructions.
            unsafe { super::avx512::narrow_products(values, factor, out) };
            return;
        }
        narrow_one_by_one(level, values, factor, out);
    }
}
