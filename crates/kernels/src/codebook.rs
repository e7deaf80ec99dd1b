//! Codes of 8 bits: 256 values, and the code of the nearest. `quant::codebook` has those of 4 bits.

/// Values in ascending order. The index is the code.
#[derive(Debug)]
pub struct Codebook8 {
    values: [f32; 256],
    /// The midpoints between neighbours, and infinity.
    bounds: [f32; 256],
    /// For each upper half of a float, the number of bounds below all floats that have it. Among them is one bound at
    /// most.
    first: [u8; 1 << 16],
}

impl Codebook8 {
    /// A codebook of values in ascending order.
    pub fn new(values: [f32; 256]) -> Self {
        let mut bounds = [f32::INFINITY; 256];
        for (bound, pair) in bounds.iter_mut().zip(values.windows(2)) {
            *bound = (pair[0] + pair[1]) / 2.0;
        }
        let below = |upper: u16, lower: u16| {
            let value = f32::from_bits(u32::from(upper) << 16 | u32::from(lower));
            bounds.partition_point(|bound| *bound < value).min(255) as u8
        };
        let mut first = [0; 1 << 16];
        for (upper, first) in (0..=u16::MAX).zip(first.iter_mut()) {
            // The lowest float with this upper half.
            *first = below(upper, if upper < 0x8000 { 0 } else { u16::MAX });
        }
        Self { values, bounds, first }
    }

    /// The values by code.
    pub fn values(&self) -> &[f32; 256] {
        &self.values
    }

    /// The midpoints between neighbours, and infinity. A value has the code of the first bound that is not below it.
    pub fn bounds(&self) -> &[f32; 256] {
        &self.bounds
    }

    /// The code of the value nearest to `x`. A tie goes down, and NaN gives 0.
    #[inline(always)]
    pub fn nearest(&self, x: f32) -> u8 {
        let first = self.first[usize::from((x.to_bits() >> 16) as u16)];
        first + u8::from(x > self.bounds[usize::from(first)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::units;

    fn codebook() -> Codebook8 {
        Codebook8::new(std::array::from_fn(|code| {
            let x = (code as f32 - 127.0) / 128.0;
            x * x.abs() * x.abs()
        }))
    }

    #[test]
    fn a_code_is_the_number_of_bounds_below() {
        let codebook = codebook();
        let plain = |x: f32| codebook.bounds.partition_point(|bound| *bound < x) as u8;
        let around = |bound: &f32| [bound.next_down(), *bound, bound.next_up()];
        let near = codebook.bounds[..255].iter().flat_map(around);
        let ends = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            7.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1e-40,
            -1e-40,
        ];
        for x in units(100_000, 1).into_iter().chain(near).chain(ends) {
            assert_eq!(codebook.nearest(x), plain(x), "{x}");
        }
        assert_eq!(codebook.nearest(f32::NAN), 0);
        assert_eq!(codebook.nearest(-f32::NAN), 0);
    }
}
