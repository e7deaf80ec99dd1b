//! From the product of a query and a key to their score.

use crate::Dispatch as _;
use crate::{InstructionSet, gemm::block::Block, softcap::SoftCap};

/// How scores come from products.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Factor of the products.
    pub scale: f32,
    /// Soft cap of the scaled products.
    pub cap: Option<SoftCap>,
}

impl Scores {
    /// Without a cap, scaled by `1 / sqrt(head_dim)`.
    pub fn of(head_dim: usize) -> Self {
        Self {
            scale: 1.0 / (head_dim as f32).sqrt(),
            cap: None,
        }
    }

    /// Caps products, which are still to be multiplied by the scale.
    pub(super) fn cap(self, level: InstructionSet, products: &mut Block) {
        let Some(cap) = self.cap else { return };
        level.compute(
            #[inline(always)]
            |arithmetic| {
                let (share, factor) = (self.scale / cap.0, cap.0 / self.scale);
                for product in &mut products.0 {
                    *product = factor * arithmetic.tanh(*product * share);
                }
            },
        );
    }

    /// The derivatives of scores in the scaled products, from capped products. `None` without a cap.
    pub(super) fn slopes<'a>(self, level: InstructionSet, capped: &Block, slopes: &'a mut Block) -> Option<&'a Block> {
        let cap = self.cap?;
        level.run(
            #[inline(always)]
            || {
                let share = self.scale / cap.0;
                for (slope, capped) in slopes.0.iter_mut().zip(&capped.0) {
                    let tanh = capped * share;
                    *slope = 1.0 - tanh * tanh;
                }
            },
        );
        Some(slopes)
    }
}
