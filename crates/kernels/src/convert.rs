//! Conversions between number formats, and sums and multiples that are rounded to one.

use rayon::prelude::*;

use super::{
    InstructionSet,
    element::Element,
    rows::{PART, for_rows},
};
use crate::Dispatch as _;

/// Converts to float32.
pub fn widen<E: Element>(values: &[E], out: &mut [f32]) {
    assert_eq!(values.len(), out.len());
    for_rows(
        out,
        1,
        #[inline(always)]
        |start, part| {
            for (to, from) in part.iter_mut().zip(&values[start..]) {
                *to = from.widen();
            }
        },
    );
}

/// Rounds to the format.
pub fn narrow<E: Element>(values: &[f32], out: &mut [E]) {
    assert_eq!(values.len(), out.len());
    for_rows(
        out,
        1,
        #[inline(always)]
        |start, part| {
            for (to, from) in part.iter_mut().zip(&values[start..]) {
                *to = E::narrow(*from);
            }
        },
    );
}

/// The index of the first infinity or NaN.
pub fn first_not_finite<E: Element>(values: &[E]) -> Option<usize> {
    let level = InstructionSet::current();
    values.par_chunks(PART).enumerate().find_map_first(|(index, part)| {
        // Without a branch, so that the loop vectorises.
        let finite = level.run(
            #[inline(always)]
            || {
                part.iter()
                    .map(|value| u32::from(value.widen().is_finite()))
                    .sum::<u32>()
            },
        );
        if finite as usize == part.len() {
            return None;
        }
        let at = part.iter().position(|value| !value.widen().is_finite())?;
        Some(index * PART + at)
    })
}

/// Rounds float32 values to what the format can hold, in place.
pub fn round<E: Element>(values: &mut [f32]) {
    for_rows(
        values,
        1,
        #[inline(always)]
        |_, part| {
            for value in part {
                *value = E::narrow(*value).widen();
            }
        },
    );
}

/// `a += b`, rounded to the format of `a`.
pub fn accumulate<E: Element>(a: &mut [E], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for_rows(
        a,
        1,
        #[inline(always)]
        |start, part| {
            for (a, b) in part.iter_mut().zip(&b[start..]) {
                *a = E::narrow(a.widen() + b);
            }
        },
    );
}

/// Multiplies each element by `factor`.
pub fn scale<E: Element>(values: &mut [E], factor: f32) {
    for_rows(
        values,
        1,
        #[inline(always)]
        |_, part| scale_part(part, factor),
    );
}

/// A function of its own, so that it is given a copy of the factor: what is behind a reference might change with the
/// values, for all that the compiler knows.
#[inline(always)]
fn scale_part<E: Element>(values: &mut [E], factor: f32) {
    for value in values {
        *value = E::narrow(value.widen() * factor);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, narrowed, values},
    };

    /// Values from all over float32, around the formats' ends, and of every kind of not a number.
    fn patterns() -> Vec<f32> {
        let infinite = [0x7f80_0000, 0x7f80_0001, 0x7fbf_ffff, 0x7fc0_0000, 0x7fff_ffff];
        let ties = [0x3f80_8000, 0x3f81_8000, 0x3f80_1000, 0x3f80_3000];
        let largest = [
            0x7f7f_7fff,
            0x7f7f_8000,
            0x7f7f_ffff,
            0x477f_efff,
            0x477f_f000,
            0x4780_0000,
        ];
        let smallest = [
            0,
            1,
            0x007f_ffff,
            0x3300_0000,
            0x3300_0001,
            0x33c0_0000,
            0x387f_efff,
            0x387f_f000,
            0x3880_0000,
        ];
        let ends = infinite.into_iter().chain(ties).chain(largest).chain(smallest);
        ends.flat_map(|bits: u32| [bits, bits | 1 << 31])
            .chain((0..=u32::MAX).step_by(65_521))
            .map(f32::from_bits)
            .collect()
    }

    /// Compares conversions of whole slices, at each level, with those of `half`.
    fn check<E: Element>(all: Vec<E>, bits: fn(E) -> u16, from_f32: fn(f32) -> E, to_f32: fn(E) -> f32) {
        let patterns = patterns();
        at_each_level(|level| {
            let mut narrowed = vec![all[0]; patterns.len()];
            narrow(&patterns, &mut narrowed);
            for (value, ours) in patterns.iter().zip(&narrowed) {
                let (ours, want) = (*ours, from_f32(*value));
                let same = bits(ours) == bits(want) || value.is_nan() && to_f32(ours).is_nan();
                assert!(same, "{level:?}: {:#x} to {:#x}", value.to_bits(), bits(ours));
            }
            let mut widened = vec![0.0; all.len()];
            widen(&all, &mut widened);
            for (value, ours) in all.iter().zip(&widened) {
                let want = to_f32(*value);
                let same = ours.to_bits() == want.to_bits() || ours.is_nan() && want.is_nan();
                assert!(same, "{level:?}: {:#x} to {ours}", bits(*value));
            }
        });
    }

    #[test]
    fn the_first_value_that_is_not_finite_is_found() {
        at_each_level(|_| {
            let mut values = vec![1f32; 3 * PART + 5];
            assert_eq!(first_not_finite(&values), None);
            for (at, value) in [
                (3 * PART + 4, f32::NAN),
                (2 * PART + 7, f32::INFINITY),
                (PART, f32::NEG_INFINITY),
            ] {
                values[at] = value;
                assert_eq!(first_not_finite(&values), Some(at));
            }
        });
    }

    #[test]
    fn formats_convert_as_half_does() {
        let all = || 0..=u16::MAX;
        check(
            all().map(bf16::from_bits).collect(),
            bf16::to_bits,
            bf16::from_f32,
            bf16::to_f32,
        );
        check(
            all().map(f16::from_bits).collect(),
            f16::to_bits,
            f16::from_f32,
            f16::to_f32,
        );
    }

    #[test]
    fn sums_are_rounded_once() {
        at_each_level(|level| {
            for count in COUNTS {
                let (a, b) = (narrowed::<bf16>(&values(count, 1)), values(count, 2));
                let want =
                    |b: &[f32]| -> Vec<bf16> { a.iter().zip(b).map(|(a, b)| bf16::from_f32(a.to_f32() + b)).collect() };
                let mut sum = a.clone();
                accumulate(&mut sum, &b);
                assert_eq!(sum, want(&b), "{level:?}, {count}");

                let mut wide: Vec<f32> = a.iter().map(|a| a.to_f32()).collect();
                accumulate(&mut wide, &b);
                round::<bf16>(&mut wide);
                assert_eq!(narrowed::<bf16>(&wide), sum, "{level:?}, {count}");
            }
        });
    }

    #[test]
    fn what_is_not_a_number_stays_in_its_element() {
        at_each_level(|_| {
            let (mut a, mut b) = (vec![bf16::ONE; 33], vec![1.0; 33]);
            (a[3], b[32]) = (bf16::NAN, f32::NAN);
            accumulate(&mut a, &b);
            for (at, value) in a.iter().enumerate() {
                assert_eq!(value.is_nan(), at == 3 || at == 32, "{at}");
            }
        });
    }

    #[test]
    fn elements_are_scaled() {
        at_each_level(|_| {
            for count in COUNTS {
                let before = values(count, 1);
                let mut after = narrowed::<half::bf16>(&before);
                scale(&mut after, 0.5);
                let want: Vec<f32> = before.iter().map(|value| value * 0.5).collect();
                assert_eq!(after, narrowed::<half::bf16>(&want));
            }
        });
    }
}
