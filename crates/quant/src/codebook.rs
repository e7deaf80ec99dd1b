//! The 4-bit data types: the values of 16 codes, and the code of the nearest.

use kernels::{InstructionSet, nf4};

/// A data type (`bitsandbytes.functional.get_4bit_type`).
#[derive(Debug)]
pub struct Codebook4 {
    /// The value of each code.
    pub values: [f32; 16],
    /// The midpoints between neighbours, in ascending order.
    bounds: [f32; 15],
    /// The codes in the order of their values.
    order: [u8; 16],
}

/// NF4: quantiles of the normal distribution, including 0, scaled to the range from -1 to 1.
pub static NF4: Codebook4 = Codebook4::new(
    [
        -1.0,
        -0.696_192_8,
        -0.525_073_05,
        -0.394_917_5,
        -0.284_441_38,
        -0.184_773_43,
        -0.091_050_036,
        0.0,
        0.079_580_3,
        0.160_930_2,
        0.246_112_3,
        0.337_915_24,
        0.440_709_83,
        0.562_617,
        0.722_956_84,
        1.0,
    ],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
);

/// FP4: a sign, two bits of exponent and one of significand, with a last step down to a 192nd. Codes 0 and 8 are both
/// 0: 8 is given to what is above it.
pub static FP4: Codebook4 = {
    let positive = [0.0, 1.0 / 192.0, 2.0 / 3.0, 1.0, 1.0 / 3.0, 0.5, 1.0 / 6.0, 0.25];
    let mut values = [0.0; 16];
    let mut code = 0;
    while code < 8 {
        values[code] = positive[code];
        values[code + 8] = 0.0 - positive[code];
        code += 1;
    }
    Codebook4::new(values, [11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3])
};

impl Codebook4 {
    const fn new(values: [f32; 16], order: [u8; 16]) -> Self {
        let mut bounds = [0.0; 15];
        let mut at = 0;
        while at < bounds.len() {
            bounds[at] = (values[order[at] as usize] + values[order[at + 1] as usize]) / 2.0;
            at += 1;
        }
        Self { values, bounds, order }
    }

    /// Writes the codes of the values nearest to `factor · values`, two a byte.
    #[inline(always)]
    pub(super) fn nearest(&self, level: InstructionSet, values: &[f32], factor: f32, codes: &mut [u8]) {
        nf4::nearest(level, values, factor, (&self.bounds, &self.order), codes);
    }
}
