//! Inputs of low-rank terms under a dropout mask.

use std::ops::Range;

use kernels::{
    Sequences,
    dropout::Mask,
    gemm::{OperandReader, operand::Number},
};

use crate::operand::Stored;

/// `[tokens, features]` under the masks of its sequences.
pub(super) struct Masked<'a> {
    pub x: &'a Stored<'a>,
    pub masks: Masks<'a>,
}

/// The masks of a micro-batch's sequences.
pub(super) struct Masks<'a> {
    pub sequences: &'a Sequences,
    /// The mask of each sequence.
    pub of_sequence: Vec<Mask>,
    pub features: usize,
}

impl Masks<'_> {
    /// The mask of a token's sequence, and the index that the token's first feature has there.
    fn of(&self, token: usize) -> (Mask, u64) {
        let (sequence, position) = self.sequences.locate(token);
        (self.of_sequence[sequence], (position * self.features) as u64)
    }

    /// Writes what features of a token are multiplied by, from feature `first` on.
    pub(super) fn fill(&self, token: usize, first: usize, factors: &mut [f32]) {
        let (mask, start) = self.of(token);
        mask.fill(start + first as u64, factors);
    }
}

impl<P: Number> OperandReader<P> for Masked<'_>
where
    for<'s> Stored<'s>: OperandReader<P>,
{
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        const CHUNK: usize = 128;
        let mut unmasked = [P::ZERO; CHUNK];
        let (mask, start) = self.masks.of(row);
        for (at, out) in buffer.chunks_mut(CHUNK).enumerate() {
            let first = cols.start + at * CHUNK;
            let x = self.x.row(row, first..first + out.len(), &mut unmasked[..out.len()]);
            mask.apply(start + first as u64, x, out);
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dropout::Dropout,
        testing::{dropout_pass, tensor, uniform},
    };

    #[test]
    fn masked_elements_are_dropped_or_scaled() {
        // More than are masked at a time.
        const FEATURES: usize = 300;
        let x = uniform("x", &[6, FEATURES]);
        let (x, rows) = (tensor(&x), x.to_vec2::<f32>().unwrap());
        let of_sequence = Dropout::new(0, "x", 0.5).masks(&dropout_pass(2, 3, 1)).unwrap();
        let x = Stored::tensor(&x).unwrap();
        let sequences = Sequences::of([4, 2]);
        let masks = Masks {
            sequences: &sequences,
            of_sequence: of_sequence.clone(),
            features: FEATURES,
        };
        let masked = Masked { x: &x, masks };
        for at in 0..6 {
            let mut factors = [0.0; 4 * FEATURES];
            of_sequence[at / 4].fill(0, &mut factors);
            let want = rows[at]
                .iter()
                .zip(&factors[at % 4 * FEATURES..])
                .map(|(x, factor)| x * factor);
            let want: Vec<f32> = want.collect();
            let mut buffer = [0f32; FEATURES - 2];
            assert_eq!(masked.row(at, 1..FEATURES - 1, &mut buffer), &want[1..FEATURES - 1]);
            let mut of_some = [0.0; 7];
            masked.masks.fill(at, 250, &mut of_some);
            assert_eq!(of_some, factors[at % 4 * FEATURES + 250..][..7]);
        }
    }
}
