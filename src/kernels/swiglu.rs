//! `silu(gate) · up`, element by element.

use rayon::prelude::*;

use super::{Element, InstructionSet, arithmetic::Arithmetic, rows::PART};

/// Writes `silu(gate) · up`, rounded once.
///
/// # Panics
/// If the slices differ in length.
pub fn forward<E: Element>(gate: &[E], up: &[E], out: &mut [E]) {
    assert!(gate.len() == out.len() && up.len() == out.len());
    let level = InstructionSet::current();
    let parts = gate.par_chunks(PART).zip(up.par_chunks(PART));
    parts.zip(out.par_chunks_mut(PART)).for_each(|((gate, up), out)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    *out = E::narrow(silu(gate.widen(), arithmetic).0 * up.widen());
                }
            },
        );
    });
}

/// The backward pass in place: `dy`, the gradient of `silu(gate) · up`, becomes that product again, as [`forward`] has it,
/// and `gate` and `up` become their gradients, each rounded once.
pub fn backward_in_place<E: Element>(gate: &mut [E], up: &mut [E], dy: &mut [E]) {
    assert!(gate.len() == dy.len() && up.len() == dy.len());
    let level = InstructionSet::current();
    let parts = gate.par_chunks_mut(PART).zip(up.par_chunks_mut(PART));
    parts.zip(dy.par_chunks_mut(PART)).for_each(|((gate, up), dy)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                for ((gate, up), dy) in gate.iter_mut().zip(up).zip(dy) {
                    let gradients = gradients(gate.widen(), up.widen(), dy.widen(), arithmetic);
                    *gate = E::narrow(gradients.gate);
                    *up = E::narrow(gradients.up);
                    *dy = E::narrow(gradients.product);
                }
            },
        );
    });
}

/// `silu(gate)`, and the logistic function of `gate`.
#[inline(always)]
fn silu(gate: f32, arithmetic: Arithmetic) -> (f32, f32) {
    let sigmoid = 1.0 / (1.0 + arithmetic.exp(-gate));
    (gate * sigmoid, sigmoid)
}

struct Gradients {
    gate: f32,
    up: f32,
    product: f32,
}

/// With the logistic function s, `silu'(g) = s(g) (1 + g (1 - s(g))) = s(g) + silu(g) (1 - s(g))`.
#[inline(always)]
fn gradients(gate: f32, up: f32, d_product: f32, arithmetic: Arithmetic) -> Gradients {
    let (silu, sigmoid) = silu(gate, arithmetic);
    let slope = arithmetic.mul_add(silu, 1.0 - sigmoid, sigmoid);
    Gradients {
        gate: d_product * up * slope,
        up: d_product * silu,
        product: silu * up,
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::kernels::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    /// Product, and gradients of gate and up, in double precision.
    fn plain(gate: f64, up: f64, d_product: f64) -> [f64; 3] {
        let sigmoid = 1.0 / (1.0 + (-gate).exp());
        let slope = sigmoid * (1.0 + gate * (1.0 - sigmoid));
        [gate * sigmoid * up, d_product * up * slope, d_product * gate * sigmoid]
    }

    fn check<E: Element + PartialEq + std::fmt::Debug>(tolerance: f64) {
        at_each_level(|level| {
            for count in COUNTS {
                let [gate, up, dy] = [1, 2, 3].map(|seed| narrowed::<E>(&values(count, seed)));
                let what = format!("{level:?}, {count}");
                let want: Vec<[f64; 3]> = gate
                    .iter()
                    .zip(&up)
                    .zip(&dy)
                    .map(|((gate, up), dy)| {
                        let [gate, up, dy] = [gate, up, dy].map(|value| f64::from(value.widen()));
                        plain(gate, up, dy)
                    })
                    .collect();
                let close = |got: &[E], which: usize, what: &str| {
                    let want: Vec<f64> = want.iter().map(|want| want[which]).collect();
                    assert_close(got.iter().map(|got| got.widen()), &want, tolerance, what);
                };

                let mut out = up.clone();
                forward(&gate, &up, &mut out);
                close(&out, 0, &what);
                let (mut d_gate, mut d_up, mut product) = (gate.clone(), up.clone(), dy.clone());
                backward_in_place(&mut d_gate, &mut d_up, &mut product);
                assert_eq!(product, out, "{what}: the product is that of the forward pass");
                close(&d_gate, 1, &what);
                close(&d_up, 2, &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<f32>(1e-6);
        check::<f16>(1.0 / 2048.0);
        check::<bf16>(1.0 / 256.0);
    }

    #[test]
    fn the_ends_do_not_overflow_and_what_is_not_a_number_stays_so() {
        at_each_level(|_| {
            let gate: Vec<f32> = [-200.0, 200.0, f32::NAN, -90.0, 90.0]
                .into_iter()
                .cycle()
                .take(45)
                .collect();
            let one = vec![1.0; 45];
            let (mut d_gate, mut d_up, mut product) = (gate.clone(), one.clone(), one);
            backward_in_place(&mut d_gate, &mut d_up, &mut product);
            for at in (0..45).filter(|at| at % 5 != 2) {
                let far = gate[at].max(0.0);
                assert!((product[at] - far).abs() < 1e-30 && (d_up[at] - far).abs() < 1e-30);
                assert!(
                    (d_gate[at] - far.signum() * far.min(1.0)).abs() < 1e-30,
                    "{}",
                    d_gate[at]
                );
            }
            for at in (2..45).step_by(5) {
                assert!(d_gate[at].is_nan() && d_up[at].is_nan() && product[at].is_nan());
            }
        });
    }
}
