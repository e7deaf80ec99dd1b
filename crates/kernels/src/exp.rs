//! `e^x` without a call, so that loops over it vectorise.

use super::arithmetic::Arithmetic;

/// `e^x` as [`Arithmetic::exp`], at any level.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    Arithmetic::SEPARATE.exp(x)
}

impl Arithmetic {
    /// `e^x` to 2 units in the last place: Cody-Waite reduction to [-ln 2 / 2, ln 2 / 2], and there a polynomial whose
    /// relative error is at most 3.1e-9 (fitted by Lawson's method). 0 below -86.9, infinity above 88.7, NaN for NaN.
    #[inline(always)]
    pub fn exp(self, x: f32) -> f32 {
        const LOWEST: f32 = -86.9;
        const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to an integer, which the low bits then hold
        let clamped = x.clamp(LOWEST, 89.0);
        let rounded = self.mul_add(clamped, std::f32::consts::LOG2_E, ROUND);
        let n = rounded - ROUND;
        let r = self.mul_add(n, -0.693_359_4, clamped);
        let r = self.mul_add(n, 2.121_944_4e-4, r);
        // 2 e^r · 2^(n - 1): n is between -125 and 128, so the power is a normal number, and the product overflows
        // where e^x does.
        let p = 2.0 * 1.381_46e-3;
        let p = self.mul_add(p, r, 2.0 * 8.368_717e-3);
        let p = self.mul_add(p, r, 2.0 * 4.166_839e-2);
        let p = self.mul_add(p, r, 2.0 * 1.666_652_1e-1);
        let p = self.mul_add(p, r, 2.0 * 4.999_999_3e-1);
        let p = self.mul_add(p, r, 2.0);
        let p = self.mul_add(p, r, 2.0);
        let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(126 << 23));
        // Never a branch, which would keep straight code from becoming vectors.
        std::hint::select_unpredictable(x < LOWEST, 0.0, p * power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dispatch as _;
    use crate::instruction_set::forced::at_each_level;

    /// Of many values, as a vectorised loop.
    fn exp_of(values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        crate::InstructionSet::current().compute(
            #[inline(always)]
            |arithmetic| {
                for (out, x) in out.iter_mut().zip(values) {
                    *out = arithmetic.exp(*x);
                }
            },
        );
        out
    }

    #[test]
    fn agrees_with_the_standard_library() {
        let values: Vec<f32> = (0..50_000).map(|i| -86.9 + i as f32 * 0.003_512).collect();
        at_each_level(|level| {
            for (x, ours) in values.iter().zip(exp_of(&values)) {
                let exact = f64::from(*x).exp();
                if exact <= f64::from(f32::MAX) {
                    let error = (f64::from(ours) - exact).abs() / exact;
                    assert!(error <= 2.4e-7, "{level:?}: {x}: {ours} against {exact}");
                }
                assert!(
                    (f64::from(exp(*x)) - exact).abs() <= exact * 2.4e-7 || exact > f64::from(f32::MAX),
                    "{x}"
                );
            }
        });
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn has_the_right_ends() {
        let payload = f32::from_bits(0x7f80_0001);
        let ends = [
            f32::NEG_INFINITY,
            -200.0,
            -87.0,
            88.8,
            89.5,
            1e30,
            f32::INFINITY,
            f32::NAN,
            -f32::NAN,
            payload,
            0.0,
            -0.0,
        ];
        let inf = f32::INFINITY;
        let want = [
            0.0,
            0.0,
            0.0,
            inf,
            inf,
            inf,
            inf,
            f32::NAN,
            f32::NAN,
            f32::NAN,
            1.0,
            1.0,
        ];
        at_each_level(|level| {
            // Long enough for vectors, and a rest.
            let values: Vec<f32> = ends.into_iter().cycle().take(12 * 9 + 5).collect();
            for ((x, ours), want) in values.iter().zip(exp_of(&values)).zip(want.into_iter().cycle()) {
                assert!(ours == want || ours.is_nan() && want.is_nan(), "{level:?}: {x}: {ours}");
            }
        });
    }
}
