//! RMSNorm of each head's queries or keys, and the rotation of its output: one pass over `[tokens, heads, head_dim]`.

use super::{
    Element,
    norm::{inverse_rms, row_gradient, row_into},
    rope::{Heads, for_positions, turn_head},
};

/// The norm's weight, `[head_dim]`, and what is added to the mean square.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// Factors of the features.
    pub weight: &'a [f32],
    /// Added under the root.
    pub eps: f32,
}

/// Writes what `norm::forward` and then `rope::rotate_in_place` give. `angles` are the cosines and sines.
pub fn forward<E: Element>(x: &[E], norm: Norm, angles: (&[f32], &[f32]), shape: Heads, out: &mut [E]) {
    assert!(x.len() == out.len() && norm.weight.len() == shape.head_dim);
    for_positions(
        out,
        angles,
        shape,
        #[inline(always)]
        |start, out, angles| {
            let x = x[start..].chunks_exact(shape.head_dim);
            for (x, out) in x.zip(out.chunks_exact_mut(shape.head_dim)) {
                row_into(x, norm.weight, inverse_rms(x, norm.eps), out);
                turn_head(&mut out[..shape.rotary_dim], angles, 1.0);
            }
        },
    );
}

/// The gradient of `x` from that of the output, in its memory: it is rotated back, and goes through the norm.
pub fn backward_in_place<E: Element>(x: &[E], norm: Norm, angles: (&[f32], &[f32]), shape: Heads, dy: &mut [E]) {
    assert!(x.len() == dy.len() && norm.weight.len() == shape.head_dim);
    for_positions(
        dy,
        angles,
        shape,
        #[inline(always)]
        |start, dy, angles| {
            let x = x[start..].chunks_exact(shape.head_dim);
            for (x, dy) in x.zip(dy.chunks_exact_mut(shape.head_dim)) {
                turn_head(&mut dy[..shape.rotary_dim], angles, -1.0);
                row_gradient(x, norm.weight, norm.eps, dy);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        Sequences,
        instruction_set::forced::at_each_level,
        norm,
        rope::rotate_in_place,
        testing::{narrowed, values},
    };

    fn check<E: Element + PartialEq + std::fmt::Debug>() {
        at_each_level(|level| {
            for (heads, head_dim, rotary_dim) in [(1, 6, 6), (3, 34, 34), (2, 80, 64)] {
                let sequences = Sequences::even(2, 5);
                let count = 10 * heads * head_dim;
                let shape = Heads {
                    sequences: &sequences,
                    heads,
                    head_dim,
                    rotary_dim,
                };
                let angles = values(5 * rotary_dim / 2, 4);
                let cos: Vec<f32> = angles.iter().map(|angle| angle.cos()).collect();
                let sin: Vec<f32> = angles.iter().map(|angle| angle.sin()).collect();
                let weight = values(head_dim, 3);
                let norm = Norm {
                    weight: &weight,
                    eps: 1e-6,
                };
                let (x, dy) = (narrowed::<E>(&values(count, 1)), narrowed::<E>(&values(count, 2)));
                let (mut out, mut want) = (x.clone(), x.clone());
                forward(&x, norm, (&cos, &sin), shape, &mut out);
                norm::forward(&x, &weight, 1e-6, &mut want);
                rotate_in_place(&mut want, &cos, &sin, shape, 1.0);
                assert_eq!(out, want, "{level:?}, {head_dim}");
                let (mut dx, mut want) = (dy.clone(), dy);
                backward_in_place(&x, norm, (&cos, &sin), shape, &mut dx);
                rotate_in_place(&mut want, &cos, &sin, shape, -1.0);
                norm::backward_in_place(&x, &weight, 1e-6, &mut want);
                assert_eq!(dx, want, "{level:?}, {head_dim}");
            }
        });
    }

    #[test]
    fn one_pass_gives_what_two_give() {
        check::<f32>();
        check::<bf16>();
    }
}
