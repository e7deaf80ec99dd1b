//! Rows of 8-bit codes, each with a scale: from values, and to values.

use super::{absmax::absmax, element::Element};

/// The largest code.
const LARGEST: f32 = 127.0;

/// Writes the codes of a row, `round(value · (1 / absmax · 127))` with ties to even, and returns its scale,
/// `absmax / 127`.
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

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use half::{bf16, f16};

    use super::*;
    use crate::Dispatch as _;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, values},
    };

    fn decoded<E: Element + PartialEq + Debug>(codes: &[i8], scale: f32, plain: fn(f32) -> E) {
        let want: Vec<E> = codes.iter().map(|code| plain(f32::from(*code) * scale)).collect();
        at_each_level(|level| {
            let mut out = vec![E::narrow(f32::NAN); codes.len()];
            level.run(
                #[inline(always)]
                || decode(codes, scale, &mut out),
            );
            assert_eq!(out, want, "{level:?}");
        });
    }

    #[test]
    fn rows_are_encoded_and_decoded_as_one_by_one() {
        for count in COUNTS {
            for values in [values(count, 1), vec![0.0; count]] {
                let absmax = values.iter().fold(0f32, |absmax, value| absmax.max(value.abs()));
                let inverse = if absmax > 0.0 { 1.0 / absmax * 127.0 } else { 0.0 };
                let want: Vec<i8> = values
                    .iter()
                    .map(|value| (value * inverse).round_ties_even() as i8)
                    .collect();
                at_each_level(|level| {
                    let mut codes = vec![1; count];
                    let scale = level.run(
                        #[inline(always)]
                        || encode(&values, &mut codes),
                    );
                    assert_eq!((scale, &codes), (absmax / 127.0, &want), "{level:?}");
                });
                decoded(&want, absmax / 127.0, |value| value);
                decoded(&want, absmax / 127.0, f16::from_f32);
                decoded(&want, absmax / 127.0, bf16::from_f32);
            }
        }
    }
}
