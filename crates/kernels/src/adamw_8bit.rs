//! AdamW's update with moments of 8 bits (Dettmers et al. 2022, arXiv:2110.02861), in one pass over a parameter. A
//! block's moments are float32 while it is updated. Sums are fused and rounded as torch rounds them for bitsandbytes on
//! a CPU with fused products.

use rayon::prelude::*;

use super::{Element, InstructionSet, absmax::absmax, arithmetic::Arithmetic, codebook::Codebook8, rows::PART};
use crate::Dispatch as _;

/// Elements that share a scale.
pub const BLOCK: usize = 256;

/// The least divisor: bitsandbytes replaces a smaller absolute maximum by it.
const SMALLEST_ABSMAX: f32 = 1e-38;

/// The numbers that all elements of a step share.
#[derive(Debug, Clone, Copy)]
pub struct Coefficients {
    /// Decay of the first moment, and 1 less it.
    pub beta1: [f32; 2],
    /// Decay of the second moment, and 1 less it.
    pub beta2: [f32; 2],
    /// Added to the root of the corrected second moment.
    pub epsilon: f32,
    /// `1 - learning_rate · weight_decay`.
    pub decay: f32,
    /// `learning_rate / (1 - beta1^t)`.
    pub rate: f32,
    /// `sqrt(1 - beta2^t)`.
    pub root_correction: f32,
}

/// A moment in codes, with a scale for each block.
#[derive(Debug)]
pub struct Moment<'a> {
    /// One code for each element.
    pub codes: &'a mut [u8],
    /// The largest magnitude of each block.
    pub absmax: &'a mut [f32],
    /// The meaning of the codes.
    pub codebook: &'a Codebook8,
}

/// Moves `values` by `gradients` and updates both moments.
pub fn step<E: Element>(values: &mut [E], gradients: &[E], m: Moment, v: Moment, c: Coefficients) {
    assert!(values.len() == gradients.len() && values.len() == m.codes.len() && values.len() == v.codes.len());
    let level = InstructionSet::current();
    let books = [m.codebook, v.codebook];
    let codes = m.codes.par_chunks_mut(PART).zip(v.codes.par_chunks_mut(PART));
    let absmax = m
        .absmax
        .par_chunks_mut(PART / BLOCK)
        .zip(v.absmax.par_chunks_mut(PART / BLOCK));
    let parts = values.par_chunks_mut(PART).zip(gradients.par_chunks(PART));
    parts
        .zip(codes.zip(absmax))
        .for_each(|((values, gradients), (codes, absmax))| {
            level.compute(
                #[inline(always)]
                |arithmetic| step_part(arithmetic, values, gradients, codes, absmax, books, c),
            );
        });
}

/// Some whole blocks, and perhaps a last one that is short.
#[inline(always)]
fn step_part<E: Element>(
    arithmetic: Arithmetic,
    values: &mut [E],
    gradients: &[E],
    (m_codes, v_codes): (&mut [u8], &mut [u8]),
    (m_absmax, v_absmax): (&mut [f32], &mut [f32]),
    [m_book, v_book]: [&Codebook8; 2],
    c: Coefficients,
) {
    let blocks = values.chunks_mut(BLOCK).zip(gradients.chunks(BLOCK));
    let codes = m_codes.chunks_mut(BLOCK).zip(v_codes.chunks_mut(BLOCK));
    let moments = codes.zip(m_absmax.iter_mut().zip(v_absmax));
    let (mut m, mut v) = ([0f32; BLOCK], [0f32; BLOCK]);
    for ((values, gradients), ((m_codes, v_codes), (m_absmax, v_absmax))) in blocks.zip(moments) {
        let (m, v) = (&mut m[..values.len()], &mut v[..values.len()]);
        read(m_codes, *m_absmax, m_book, m);
        read(v_codes, *v_absmax, v_book, v);
        for (((value, gradient), m), v) in values.iter_mut().zip(gradients).zip(&mut *m).zip(&mut *v) {
            let gradient = gradient.widen();
            *m = arithmetic.mul_add(gradient, c.beta1[1], *m * c.beta1[0]);
            *v = arithmetic.mul_add(gradient * c.beta2[1], gradient, *v * c.beta2[0]);
            let change = *m * c.rate / (v.sqrt() / c.root_correction + c.epsilon);
            *value = E::narrow(value.widen() * c.decay - change);
        }
        *m_absmax = write(m, m_book, m_codes);
        *v_absmax = write(v, v_book, v_codes);
    }
}

/// The values of a block's codes.
#[inline(always)]
fn read(codes: &[u8], absmax: f32, book: &Codebook8, out: &mut [f32]) {
    for (value, code) in out.iter_mut().zip(codes) {
        *value = book.values()[usize::from(*code)] * absmax;
    }
}

/// Writes a block's codes and returns its scale. A short block is divided by it, as by bitsandbytes.
#[inline(always)]
fn write(values: &[f32], book: &Codebook8, codes: &mut [u8]) -> f32 {
    let absmax = absmax(values);
    let divisor = absmax.max(SMALLEST_ABSMAX);
    if values.len() < BLOCK {
        for (code, value) in codes.iter_mut().zip(values) {
            *code = book.nearest(value / divisor);
        }
        return divisor;
    }
    let inverse = 1.0 / divisor;
    for (code, value) in codes.iter_mut().zip(values) {
        *code = book.nearest(value * inverse);
    }
    absmax
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    const COEFFICIENTS: Coefficients = Coefficients {
        beta1: [0.9, 0.1],
        beta2: [0.99, 0.01],
        epsilon: 1e-3,
        decay: 0.98,
        rate: 0.1,
        root_correction: 0.7,
    };

    /// Even steps from the least to the most.
    fn codebook(least: f32) -> Codebook8 {
        Codebook8::new(std::array::from_fn(|code| least + (1.0 - least) * code as f32 / 255.0))
    }

    /// Value and both moments after a step, in double precision.
    fn step_plain([value, gradient, m, v]: [f64; 4]) -> [f64; 3] {
        let c = COEFFICIENTS;
        let [epsilon, decay, rate, root] = [c.epsilon, c.decay, c.rate, c.root_correction].map(f64::from);
        let average = |moment: f64, [beta, rest]: [f32; 2], of: f64| moment * f64::from(beta) + of * f64::from(rest);
        let (m, v) = (average(m, c.beta1, gradient), average(v, c.beta2, gradient * gradient));
        [value * decay - m / (v.sqrt() / root + epsilon) * rate, m, v]
    }

    /// Moments are within half a step of the codebook of what double precision gives.
    fn check<E: Element>(tolerance: f64) {
        let books = [codebook(-1.0), codebook(0.0)];
        at_each_level(|level| {
            for count in COUNTS.into_iter().chain([255, 256, 257, 3 * BLOCK]) {
                let what = format!("{level:?}, {count}");
                let (mut value, gradient) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let blocks = count.div_ceil(BLOCK);
                let mut codes =
                    [3, 4].map(|seed| values(count, seed).iter().map(|x| (x * 31.0 + 128.0) as u8).collect());
                let mut absmax = [vec![2f32; blocks], vec![3f32; blocks]];
                let read = |codes: &[Vec<u8>; 2], absmax: &[Vec<f32>; 2], which: usize, at: usize| {
                    let value = books[which].values()[usize::from(codes[which][at])];
                    f64::from(value * absmax[which][at / BLOCK])
                };
                let want: Vec<[f64; 3]> = (0..count)
                    .map(|at| {
                        let [value, gradient] = [value[at], gradient[at]].map(|value| f64::from(value.widen()));
                        step_plain([
                            value,
                            gradient,
                            read(&codes, &absmax, 0, at),
                            read(&codes, &absmax, 1, at),
                        ])
                    })
                    .collect();
                let ([m, v], [of_m, of_v]) = (&mut codes, &mut absmax);
                let moment = |codes, absmax, codebook| Moment {
                    codes,
                    absmax,
                    codebook,
                };
                let [first, second] = &books;
                step(
                    &mut value,
                    &gradient,
                    moment(m, of_m, first),
                    moment(v, of_v, second),
                    COEFFICIENTS,
                );
                let got = value.iter().map(|value| value.widen());
                assert_close(
                    got,
                    &want.iter().map(|want| want[0]).collect::<Vec<_>>(),
                    tolerance,
                    &what,
                );
                for at in 0..count {
                    for (which, width) in [(0, 2.0), (1, 1.0)] {
                        let difference = (read(&codes, &absmax, which, at) - want[at][1 + which]).abs();
                        let half = 0.51 * width / 255.0 * f64::from(absmax[which][at / BLOCK]);
                        assert!(difference <= half, "{what}, moment {which} of {at}: {difference}");
                    }
                }
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-5);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }

    #[test]
    fn what_is_not_a_number_stays_in_its_block() {
        let books = [codebook(-1.0), codebook(0.0)];
        let (mut value, mut gradient) = (values(600, 1), values(600, 2));
        gradient[300] = f32::NAN;
        let (mut m, mut v) = (vec![0; 600], vec![0; 600]);
        let (mut of_m, mut of_v) = (vec![0.0; 3], vec![0.0; 3]);
        for _ in 0..2 {
            let [first, second] = &books;
            let m = Moment {
                codes: &mut m,
                absmax: &mut of_m,
                codebook: first,
            };
            let v = Moment {
                codes: &mut v,
                absmax: &mut of_v,
                codebook: second,
            };
            step(&mut value, &gradient, m, v, COEFFICIENTS);
        }
        for (at, value) in value.iter().enumerate() {
            assert_eq!(value.is_nan(), at / BLOCK == 1, "{at}");
        }
    }
}
