//! Gated activations (Shazeer 2020, arXiv:2002.05202): `f(gate) · up`, element by element.

use rayon::prelude::*;

use super::{
    Element, InstructionSet,
    arithmetic::Arithmetic,
    columns::{rows, sum_rows},
    rows::PART,
};
use crate::Dispatch as _;

/// Elements that are computed in float32 before they are rounded: a call rounds them faster than code for each.
const WIDE: usize = 256;

/// The function of a gate.
pub trait Gate: 'static {
    /// The value and the derivative.
    fn value_and_slope(gate: f32, arithmetic: Arithmetic) -> (f32, f32);
}

/// `x · σ(x)` with the logistic function σ (SwiGLU).
#[derive(Debug)]
pub struct Silu;

impl Gate for Silu {
    /// `silu'(x) = σ (1 + x (1 - σ)) = σ + silu(x) (1 - σ)`.
    #[inline(always)]
    fn value_and_slope(gate: f32, arithmetic: Arithmetic) -> (f32, f32) {
        let sigmoid = 1.0 / (1.0 + arithmetic.exp(-gate));
        let silu = gate * sigmoid;
        (silu, arithmetic.mul_add(silu, 1.0 - sigmoid, sigmoid))
    }
}

/// GELU's approximation by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415): `x · σ(2 √(2/π) (x + 0.044715 x³))`.
#[derive(Debug)]
pub struct GeluTanh;

impl Gate for GeluTanh {
    /// With `u` in the brackets: `σ + x σ (1 - σ) u'`.
    #[inline(always)]
    fn value_and_slope(gate: f32, arithmetic: Arithmetic) -> (f32, f32) {
        const FACTOR: f32 = 1.595_769_2; // 2 √(2/π)
        const CUBIC: f32 = 0.044_715;
        let square = gate * gate;
        let inner = FACTOR * gate * arithmetic.mul_add(CUBIC, square, 1.0);
        let power = arithmetic.exp(-inner);
        let sigmoid = 1.0 / (1.0 + power);
        let value = gate * sigmoid;
        let inner_slope = FACTOR * arithmetic.mul_add(3.0 * CUBIC, square, 1.0);
        // `1 - σ` is the power times σ. Far from 0, where the power may be infinite, either it or the value is 0.
        let bend = std::hint::select_unpredictable(gate.abs() > 9.0, 0.0, power * sigmoid * inner_slope);
        (value, arithmetic.mul_add(value, bend, sigmoid))
    }
}

/// Writes `f(gate) · up`, rounded once.
///
/// # Panics
/// If the slices differ in length.
pub fn forward<G: Gate, E: Element>(gate: &[E], up: &[E], out: &mut [E]) {
    assert!(gate.len() == out.len() && up.len() == out.len());
    let level = InstructionSet::current();
    let parts = gate.par_chunks(PART).zip(up.par_chunks(PART));
    parts.zip(out.par_chunks_mut(PART)).for_each(|((gate, up), out)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                let mut products = [0f32; WIDE];
                let parts = gate.chunks(WIDE).zip(up.chunks(WIDE));
                for ((gate, up), out) in parts.zip(out.chunks_mut(WIDE)) {
                    for ((product, gate), up) in products.iter_mut().zip(gate).zip(up) {
                        *product = G::value_and_slope(gate.widen(), arithmetic).0 * up.widen();
                    }
                    E::narrow_all(level, &products[..out.len()], out);
                }
            },
        );
    });
}

/// The backward pass in place: `dy`, the gradient of `f(gate) · up`, becomes that product again, as [`forward`] has it,
/// and `gate` and `up` become their gradients, each rounded once.
pub fn backward_in_place<G: Gate, E: Element>(gate: &mut [E], up: &mut [E], dy: &mut [E]) {
    assert!(gate.len() == dy.len() && up.len() == dy.len());
    let level = InstructionSet::current();
    let parts = gate.par_chunks_mut(PART).zip(up.par_chunks_mut(PART));
    parts.zip(dy.par_chunks_mut(PART)).for_each(|((gate, up), dy)| {
        level.compute(
            #[inline(always)]
            |arithmetic| {
                let [mut d_gates, mut d_ups, mut products] = [[0f32; WIDE]; 3];
                let parts = gate.chunks_mut(WIDE).zip(up.chunks_mut(WIDE));
                for ((gate, up), dy) in parts.zip(dy.chunks_mut(WIDE)) {
                    let out = d_gates.iter_mut().zip(&mut d_ups).zip(&mut products);
                    for (((gate, up), dy), ((d_gate, d_up), product)) in gate.iter().zip(&*up).zip(&*dy).zip(out) {
                        let (value, slope) = G::value_and_slope(gate.widen(), arithmetic);
                        let (d_product, up_value) = (dy.widen(), up.widen());
                        *d_gate = d_product * up_value * slope;
                        *d_up = d_product * value;
                        *product = value * up_value;
                    }
                    E::narrow_all(level, &d_gates[..gate.len()], gate);
                    E::narrow_all(level, &d_ups[..up.len()], up);
                    E::narrow_all(level, &products[..dy.len()], dy);
                }
            },
        );
    });
}

/// Writes the dot products of the columns of `gate` with those of its gradient to `out`, and then those of `up`, given
/// `dy` as in [`backward_in_place`]. `out` has two elements a column, and `scratch` as many as
/// [`super::columns::scratch_len`] asks for.
pub fn column_dots<G: Gate, E: Element>(gate: &[E], up: &[E], dy: &[E], scratch: &mut [f32], out: &mut [f32]) {
    let cols = out.len() / 2;
    assert!(gate.len() == dy.len() && up.len() == dy.len());
    let level = InstructionSet::current();
    sum_rows(
        rows(gate, cols),
        scratch,
        out,
        #[inline(always)]
        |row, sums| {
            let [gate, up, dy] = [gate, up, dy].map(|matrix| &matrix[row * cols..][..cols]);
            let (of_gate, of_up) = sums.split_at_mut(cols);
            level.compute(
                #[inline(always)]
                |arithmetic| {
                    for ((((of_gate, of_up), gate), up), dy) in of_gate.iter_mut().zip(of_up).zip(gate).zip(up).zip(dy)
                    {
                        let gate = gate.widen();
                        let (value, slope) = G::value_and_slope(gate, arithmetic);
                        let d_up_times_up = dy.widen() * up.widen();
                        *of_gate += d_up_times_up * slope * gate;
                        *of_up += d_up_times_up * value;
                    }
                },
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::{
        columns::scratch_len,
        instruction_set::forced::at_each_level,
        testing::{COUNTS, assert_close, narrowed, values},
    };

    /// A function and its derivative in double precision.
    type Plain = fn(f64) -> (f64, f64);

    fn silu(x: f64) -> (f64, f64) {
        let sigmoid = 1.0 / (1.0 + (-x).exp());
        (x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid)))
    }

    fn gelu_tanh(x: f64) -> (f64, f64) {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let tanh = (root * (x + 0.044_715 * x.powi(3))).tanh();
        let slope = root * (1.0 + 3.0 * 0.044_715 * x * x) * (1.0 - tanh * tanh);
        (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * slope)
    }

    /// Product, and gradients of gate and up.
    fn plain(of: Plain, gate: f64, up: f64, d_product: f64) -> [f64; 3] {
        let (value, slope) = of(gate);
        [value * up, d_product * up * slope, d_product * value]
    }

    fn check<G: Gate, E: Element + PartialEq + std::fmt::Debug>(of: Plain, tolerance: f64) {
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
                        plain(of, gate, up, dy)
                    })
                    .collect();
                let close = |got: &[E], which: usize, what: &str| {
                    let want: Vec<f64> = want.iter().map(|want| want[which]).collect();
                    assert_close(got.iter().map(|got| got.widen()), &want, tolerance, what);
                };

                let mut out = up.clone();
                forward::<G, E>(&gate, &up, &mut out);
                close(&out, 0, &what);
                let (mut d_gate, mut d_up, mut product) = (gate.clone(), up.clone(), dy.clone());
                backward_in_place::<G, E>(&mut d_gate, &mut d_up, &mut product);
                assert_eq!(product, out, "{what}: the product is that of the forward pass");
                close(&d_gate, 1, &what);
                close(&d_up, 2, &what);
            }
        });
    }

    #[test]
    fn agrees_with_double_precision() {
        check::<Silu, f32>(silu, 1e-6);
        check::<Silu, f16>(silu, 1.0 / 2048.0);
        check::<Silu, bf16>(silu, 1.0 / 256.0);
        check::<GeluTanh, f32>(gelu_tanh, 3e-6);
        check::<GeluTanh, f16>(gelu_tanh, 1.0 / 2048.0);
        check::<GeluTanh, bf16>(gelu_tanh, 1.0 / 256.0);
    }

    fn dots<G: Gate, E: Element>(of: Plain) {
        at_each_level(|level| {
            for (rows, cols) in [(1, 1), (3, 17), (40, 65), (700, 33)] {
                let [gate, up, dy] = [1, 2, 3].map(|seed| narrowed::<E>(&values(rows * cols, seed)));
                let mut want = vec![0.0; 2 * cols];
                for at in 0..rows * cols {
                    let [gate, up, dy] = [&gate, &up, &dy].map(|matrix| f64::from(matrix[at].widen()));
                    let [_, d_gate, d_up] = plain(of, gate, up, dy);
                    want[at % cols] += gate * d_gate;
                    want[cols + at % cols] += up * d_up;
                }
                let mut scratch = vec![f32::NAN; scratch_len(rows, 2 * cols)];
                let mut out = vec![f32::NAN; 2 * cols];
                column_dots::<G, E>(&gate, &up, &dy, &mut scratch, &mut out);
                assert_close(out, &want, 1e-4, &format!("{level:?}, {rows} x {cols}"));
            }
        });
    }

    #[test]
    fn dots_agree_with_double_precision() {
        dots::<Silu, f32>(silu);
        dots::<Silu, bf16>(silu);
        dots::<GeluTanh, f16>(gelu_tanh);
    }

    #[test]
    fn the_ends_do_not_overflow_and_what_is_not_a_number_stays_so() {
        check_ends::<Silu>();
        check_ends::<GeluTanh>();
    }

    fn check_ends<G: Gate>() {
        at_each_level(|_| {
            let gate: Vec<f32> = [-200.0, 200.0, f32::NAN, -90.0, 90.0]
                .into_iter()
                .cycle()
                .take(45)
                .collect();
            let one = vec![1.0; 45];
            let (mut d_gate, mut d_up, mut product) = (gate.clone(), one.clone(), one);
            backward_in_place::<G, f32>(&mut d_gate, &mut d_up, &mut product);
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
