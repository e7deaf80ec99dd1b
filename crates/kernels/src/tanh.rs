//! The hyperbolic tangent without a call, so that loops over it vectorise.

use super::arithmetic::Arithmetic;

impl Arithmetic {
    /// `tanh(x)` to 4 units in the last place, by the quotient of two polynomials in `x²` with which Eigen computes it
    /// (`generic_fast_tanh_float`), constant from 8 on. NaN for NaN.
    #[inline(always)]
    pub fn tanh(self, x: f32) -> f32 {
        // The quotient is nearest to 1 here, and leaves it further on.
        const FLAT: f32 = 7.998_812;
        let x = x.clamp(-FLAT, FLAT);
        let square = x * x;
        let p = self.mul_add(-2.760_768_5e-16, square, 2.000_188e-13);
        let p = self.mul_add(p, square, -8.604_672e-11);
        let p = self.mul_add(p, square, 5.122_297e-8);
        let p = self.mul_add(p, square, 1.485_722_4e-5);
        let p = self.mul_add(p, square, 6.372_619e-4);
        let p = self.mul_add(p, square, 4.893_524_6e-3);
        let q = self.mul_add(1.198_258_4e-6, square, 1.185_347_1e-4);
        let q = self.mul_add(q, square, 2.268_434_6e-3);
        let q = self.mul_add(q, square, 4.893_525e-3);
        x * p / q
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dispatch as _, InstructionSet, instruction_set::forced::at_each_level};

    fn tanh_of(values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        InstructionSet::current().compute(
            #[inline(always)]
            |arithmetic| {
                for (out, x) in out.iter_mut().zip(values) {
                    *out = arithmetic.tanh(*x);
                }
            },
        );
        out
    }

    #[test]
    fn agrees_with_the_standard_library() {
        let small = (0..2000).map(|at| (at as f32 - 1000.0) * 1e-6);
        let values: Vec<f32> = (0..50_000)
            .map(|at| (at as f32 - 25_000.0) * 5e-4)
            .chain(small)
            .collect();
        at_each_level(|level| {
            for (x, ours) in values.iter().zip(tanh_of(&values)) {
                let exact = f64::from(*x).tanh();
                let error = (f64::from(ours) - exact).abs();
                assert!(error <= 4e-7 * exact.abs(), "{level:?}: {x}: {ours} against {exact}");
            }
            let ends = tanh_of(&[f32::INFINITY, f32::NEG_INFINITY, 1e30, f32::NAN, 0.0]);
            for (end, want) in ends.iter().zip([1f32, -1.0, 1.0]) {
                assert!((end - want).abs() <= 4e-7, "{level:?}: {end}");
            }
            assert!(ends[3].is_nan() && ends[4] == 0.0);
        });
    }
}
