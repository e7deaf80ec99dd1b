//! Dropout as a function: whether an element is kept is a hash of its mask's key and its index, so that nothing is
//! stored between the passes.

use rayon::prelude::*;

use super::{Element, InstructionSet, rows::PART};
use crate::Dispatch as _;

/// The mask of one sample at one step.
#[derive(Debug, Clone, Copy)]
pub struct Mask {
    key: u64,
    /// An element whose 24 bits are below this is dropped.
    threshold: u32,
    keep: f32,
}

impl Mask {
    /// Drops with `probability`, a number in [0, 1), in steps of 2^-24, and scales what is kept by
    /// 1 / (1 - probability).
    pub fn new(key: u64, probability: f64) -> Self {
        debug_assert!(
            (0.0..1.0).contains(&probability),
            "a dropout probability of {probability}"
        );
        Self {
            key,
            threshold: (probability * f64::from(1u32 << 24)).round() as u32,
            keep: (1.0 / (1.0 - probability)) as f32,
        }
    }

    /// The mask from element `first` on.
    pub fn skip(self, first: u64) -> Self {
        Self {
            key: self.key.wrapping_add(first.wrapping_mul(GOLDEN)),
            ..self
        }
    }

    /// What element `index` is multiplied by: 0 or 1 / (1 - p).
    #[inline(always)]
    pub fn factor(&self, index: u64) -> f32 {
        let bits = (mix(self.key.wrapping_add(index.wrapping_mul(GOLDEN))) >> 40) as u32;
        std::hint::select_unpredictable(bits < self.threshold, 0.0, self.keep)
    }

    /// What the elements that stay are multiplied by.
    pub fn keep(&self) -> f32 {
        self.keep
    }

    /// Writes the factors of the elements from index `first` on.
    pub fn fill(self, first: u64, factors: &mut [f32]) {
        InstructionSet::current().run(
            #[inline(always)]
            || {
                for (factor, index) in factors.iter_mut().zip(first..) {
                    *factor = self.factor(index);
                }
            },
        );
    }

    /// Writes the elements of `x`, of which the first has index `first`, times their factors, on this thread.
    pub fn apply<X: Element, E: Element>(self, first: u64, x: &[X], out: &mut [E]) {
        InstructionSet::current().run(
            #[inline(always)]
            || self.apply_to_part(first, x, out),
        );
    }

    #[inline(always)]
    fn apply_to_part<X: Element, E: Element>(self, first: u64, x: &[X], out: &mut [E]) {
        for ((out, x), index) in out.iter_mut().zip(x).zip(first..) {
            *out = E::narrow(x.widen() * self.factor(index));
        }
    }
}

/// `out = x · mask`, where the elements are cut into one part for each mask.
pub fn apply<X: Element, E: Element>(x: &[X], masks: &[Mask], out: &mut [E]) {
    assert_eq!(x.len(), out.len());
    each_part(masks, out, |mask, start, first, part| {
        mask.apply_to_part(first, &x[start..], part);
    });
}

/// `x = residual + x · mask`, in the memory of `x`, rounded once.
pub fn add_in_place<E: Element>(x: &mut [E], residual: &[E], masks: &[Mask]) {
    assert_eq!(x.len(), residual.len());
    each_part(masks, x, |mask, start, first, part| {
        for ((x, residual), index) in part.iter_mut().zip(&residual[start..]).zip(first..) {
            *x = E::narrow(residual.widen() + x.widen() * mask.factor(index));
        }
    });
}

/// Calls `compute(mask, first element, its index in the sample, part)` for parts of each sample of `out`.
#[inline(always)]
fn each_part<E: Element>(masks: &[Mask], out: &mut [E], compute: impl Fn(Mask, usize, u64, &mut [E]) + Sync) {
    assert!(!masks.is_empty() && out.len().is_multiple_of(masks.len()));
    let sample = out.len() / masks.len();
    if sample == 0 {
        return;
    }
    let level = InstructionSet::current();
    let samples = out.par_chunks_mut(sample).zip(masks).enumerate();
    samples.for_each(|(at, (out, mask))| {
        out.par_chunks_mut(PART).enumerate().for_each(|(chunk, part)| {
            let first = chunk * PART;
            level.run(
                #[inline(always)]
                || compute(*mask, at * sample + first, first as u64, part),
            );
        });
    });
}

/// The odd number nearest to 2^64 over the golden ratio: consecutive indices fall far apart.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64's finaliser (Stafford's variant 13 of MurmurHash3's): every input bit reaches every output bit.
#[inline(always)]
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{narrowed, values},
    };

    #[test]
    fn every_level_draws_the_same_mask() {
        let masks = [Mask::new(1, 0.3), Mask::new(2, 0.3)];
        for sample in [1, 17, PART + 33] {
            let x = narrowed::<bf16>(&values(2 * sample, 1));
            let residual = narrowed::<bf16>(&values(2 * sample, 2));
            let factor = |at: usize| masks[at / sample].factor((at % sample) as u64);
            let dropped: Vec<bf16> = x
                .iter()
                .enumerate()
                .map(|(at, x)| bf16::from_f32(x.to_f32() * factor(at)))
                .collect();
            let added: Vec<bf16> = x
                .iter()
                .zip(&residual)
                .enumerate()
                .map(|(at, (x, residual))| bf16::from_f32(residual.to_f32() + x.to_f32() * factor(at)))
                .collect();
            at_each_level(|level| {
                let (mask, first) = (masks[1], sample / 2);
                let mut factors = vec![f32::NAN; sample - first];
                mask.fill(first as u64, &mut factors);
                let drawn = (first..sample).map(|at| factor(sample + at));
                assert!(drawn.eq(factors), "{level:?}, {sample}");
                let mut out = residual[..sample - first].to_vec();
                mask.apply(first as u64, &x[sample + first..], &mut out);
                assert_eq!(out, dropped[sample + first..], "{level:?}, {sample}");
                let mut out = residual.clone();
                apply(&x, &masks, &mut out);
                assert_eq!(out, dropped, "{level:?}, {sample}");
                let mut out = x.clone();
                add_in_place(&mut out, &residual, &masks);
                assert_eq!(out, added, "{level:?}, {sample}");
            });
        }
    }
}
