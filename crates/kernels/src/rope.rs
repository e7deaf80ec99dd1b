//! Rotary embedding over `[tokens, heads, head_dim]`, whose positions restart in each sequence.

use super::{Element, Sequences, rows::for_rows};

/// The shape of what is rotated.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    /// The sequences, in which positions restart.
    pub sequences: &'a Sequences,
    /// Heads of a position.
    pub heads: usize,
    /// Dimensions of a head.
    pub head_dim: usize,
    /// The first dimensions of each head that are rotated, an even number; those behind them stay.
    pub rotary_dim: usize,
}

/// Rotates the halves of each head's first `rotary_dim` dimensions by its position's angles (`cos`, `sin`:
/// `[positions, rotary_dim / 2]`); `direction` is 1, or -1 to rotate back.
pub fn rotate<A: Element, B: Element>(x: &[A], cos: &[f32], sin: &[f32], shape: Heads, direction: f32, out: &mut [B]) {
    assert_eq!(x.len(), out.len());
    let Heads {
        head_dim, rotary_dim, ..
    } = shape;
    for_positions(
        out,
        (cos, sin),
        shape,
        #[inline(always)]
        |start, out, (cos, sin)| {
            let x = &x[start..][..out.len()];
            for (x, out) in x.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
                let ((x, x_still), (out, out_still)) = (x.split_at(rotary_dim), out.split_at_mut(rotary_dim));
                for (out, x) in out_still.iter_mut().zip(x_still) {
                    *out = B::narrow(x.widen());
                }
                let ((x1, x2), (out1, out2)) = (x.split_at(rotary_dim / 2), out.split_at_mut(rotary_dim / 2));
                let (x1, x1_rest) = x1.as_chunks();
                let (x2, x2_rest) = x2.as_chunks();
                let (out1, out1_rest) = out1.as_chunks_mut();
                let (out2, out2_rest) = out2.as_chunks_mut();
                let pairs = x1.iter().zip(x2).zip(out1.iter_mut().zip(out2));
                for (((x1, x2), (out1, out2)), (cos, sin)) in pairs.zip(cos.blocks.iter().zip(sin.blocks)) {
                    (*out1, *out2) = turn_block(x1, x2, cos, sin, direction);
                }
                let pairs = x1_rest.iter().zip(x2_rest).zip(out1_rest.iter_mut().zip(out2_rest));
                for (((x1, x2), (out1, out2)), (cos, sin)) in pairs.zip(cos.rest.iter().zip(sin.rest)) {
                    (*out1, *out2) = turn(*x1, *x2, *cos, *sin, direction);
                }
            }
        },
    );
}

/// [`rotate`], in place.
pub fn rotate_in_place<E: Element>(x: &mut [E], cos: &[f32], sin: &[f32], shape: Heads, direction: f32) {
    let Heads {
        head_dim, rotary_dim, ..
    } = shape;
    for_positions(
        x,
        (cos, sin),
        shape,
        #[inline(always)]
        |_, x, angles| {
            for x in x.chunks_exact_mut(head_dim) {
                turn_head(&mut x[..rotary_dim], angles, direction);
            }
        },
    );
}

/// Rotates the halves of one head's rotated dimensions; to be called in [`super::InstructionSet::run`].
#[inline(always)]
pub(super) fn turn_head<E: Element>(x: &mut [E], (cos, sin): (Angles, Angles), direction: f32) {
    let (x1, x2) = x.split_at_mut(x.len() / 2);
    let (x1, x1_rest) = x1.as_chunks_mut();
    let (x2, x2_rest) = x2.as_chunks_mut();
    for ((x1, x2), (cos, sin)) in x1.iter_mut().zip(x2).zip(cos.blocks.iter().zip(sin.blocks)) {
        (*x1, *x2) = turn_block(x1, x2, cos, sin, direction);
    }
    for ((x1, x2), (cos, sin)) in x1_rest.iter_mut().zip(x2_rest).zip(cos.rest.iter().zip(sin.rest)) {
        (*x1, *x2) = turn(*x1, *x2, *cos, *sin, direction);
    }
}

/// Pairs that are turned at a time: halves are short, and what is short is vectorised only where its length is known.
const BLOCK: usize = 16;

/// A position's cosines or sines.
#[derive(Clone, Copy)]
pub(super) struct Angles<'a> {
    blocks: &'a [[f32; BLOCK]],
    rest: &'a [f32],
}

impl<'a> Angles<'a> {
    #[inline(always)]
    fn new(values: &'a [f32]) -> Self {
        let (blocks, rest) = values.as_chunks();
        Self { blocks, rest }
    }
}

/// Calls `compute(first element, the position's heads, (cosines, sines))` for each position of each sequence.
pub(super) fn for_positions<T: Send>(
    values: &mut [T],
    (cos, sin): (&[f32], &[f32]),
    shape: Heads,
    compute: impl Fn(usize, &mut [T], (Angles, Angles)) + Sync,
) {
    let (sequences, half, row) = (shape.sequences, shape.rotary_dim / 2, shape.heads * shape.head_dim);
    assert!(shape.rotary_dim.is_multiple_of(2) && shape.rotary_dim <= shape.head_dim);
    let angles = sequences.longest() * half;
    assert!(values.len() == sequences.tokens() * row && cos.len() >= angles && sin.len() >= angles);
    for_rows(
        values,
        row,
        #[inline(always)]
        |start, part| {
            for (index, values) in part.chunks_exact_mut(row).enumerate() {
                let start = start + index * row;
                let angles = sequences.locate(start / row).1 * half..;
                let (cos, sin) = (&cos[angles.clone()][..half], &sin[angles][..half]);
                compute(start, values, (Angles::new(cos), Angles::new(sin)));
            }
        },
    );
}

#[inline(always)]
fn turn_block<A: Element, B: Element>(
    x1: &[A; BLOCK],
    x2: &[A; BLOCK],
    cos: &[f32; BLOCK],
    sin: &[f32; BLOCK],
    direction: f32,
) -> ([B; BLOCK], [B; BLOCK]) {
    let mut turned = ([B::narrow(0.0); BLOCK], [B::narrow(0.0); BLOCK]);
    for i in 0..BLOCK {
        (turned.0[i], turned.1[i]) = turn(x1[i], x2[i], cos[i], sin[i], direction);
    }
    turned
}

#[inline(always)]
fn turn<A: Element, B: Element>(x1: A, x2: A, cos: f32, sin: f32, direction: f32) -> (B, B) {
    let (x1, x2, sin) = (x1.widen(), x2.widen(), sin * direction);
    (B::narrow(x1 * cos - x2 * sin), B::narrow(x2 * cos + x1 * sin))
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{assert_close, narrowed, values},
    };

    /// In double precision.
    fn rotate_plain(x: &[f32], cos: &[f32], sin: &[f32], shape: Heads, direction: f64) -> Vec<f64> {
        let Heads {
            sequences,
            heads,
            head_dim,
            rotary_dim,
        } = shape;
        let half = rotary_dim / 2;
        (0..x.len())
            .map(|at| {
                let (i, position) = (at % head_dim, sequences.locate(at / (heads * head_dim)).1);
                if i >= rotary_dim {
                    return f64::from(x[at]);
                }
                let angle = position * half + i % half;
                let (cos, sin) = (f64::from(cos[angle]), f64::from(sin[angle]) * direction);
                if i < half {
                    f64::from(x[at]) * cos - f64::from(x[at + half]) * sin
                } else {
                    f64::from(x[at]) * cos + f64::from(x[at - half]) * sin
                }
            })
            .collect()
    }

    #[test]
    fn both_variants_agree_with_double_precision() {
        at_each_level(|level| {
            for (batch, len, heads, head_dim, rotary_dim) in [
                (1, 1, 1, 2, 2),
                (2, 3, 5, 6, 6),
                (1, 17, 3, 30, 30),
                (2, 15, 2, 66, 66),
                (3, 31, 9, 64, 64),
                (1, 3, 2, 128, 128),
                (2, 3, 5, 6, 2),
                (1, 5, 2, 7, 4),
                (2, 17, 3, 96, 72),
                (1, 3, 2, 128, 96),
                (1, 2, 3, 4, 0),
            ] {
                // Besides samples of one length, one that is shorter.
                let sequences = Sequences::of(std::iter::repeat_n(len, batch).chain([1 + len / 2]));
                let shape = Heads {
                    sequences: &sequences,
                    heads,
                    head_dim,
                    rotary_dim,
                };
                let x = values(sequences.tokens() * heads * head_dim, 1);
                let (cos, sin) = (values(len * rotary_dim / 2, 2), values(len * rotary_dim / 2, 3));
                let what = format!("{level:?}, {shape:?}");
                for direction in [1.0, -1.0] {
                    let want = rotate_plain(&x, &cos, &sin, shape, f64::from(direction));
                    let mut out = vec![0.0; x.len()];
                    rotate(&x, &cos, &sin, shape, direction, &mut out);
                    assert_close(out.iter().copied(), &want, 1e-6, &what);
                    let mut in_place = x.clone();
                    rotate_in_place(&mut in_place, &cos, &sin, shape, direction);
                    assert_eq!(in_place, out, "{what}");

                    let mut out = vec![bf16::ZERO; x.len()];
                    rotate(&narrowed::<bf16>(&x), &cos, &sin, shape, direction, &mut out);
                    let mut in_place = narrowed::<bf16>(&x);
                    rotate_in_place(&mut in_place, &cos, &sin, shape, direction);
                    assert_eq!(in_place, out, "{what}");
                    assert_close(out.iter().map(|out| out.widen()), &want, 0.1, &what);
                }
            }
        });
    }

    #[test]
    fn what_is_not_finite_stays_in_its_pair() {
        at_each_level(|_| {
            let sequences = Sequences::even(1, 2);
            let shape = Heads {
                sequences: &sequences,
                heads: 3,
                head_dim: 37,
                rotary_dim: 34,
            };
            let (cos, sin) = (values(2 * 17, 2), values(2 * 17, 3));
            for special in [f32::NAN, f32::INFINITY] {
                let mut x = values(2 * 3 * 37, 1);
                (x[37 + 16], x[2 * 37 + 35]) = (special, special);
                rotate_in_place(&mut x, &cos, &sin, shape, 1.0);
                for (at, value) in x.iter().enumerate() {
                    let expected = ![37 + 16, 37 + 33, 2 * 37 + 35].contains(&at);
                    assert_eq!(value.is_finite(), expected, "{at}");
                }
            }
        });
    }
}
