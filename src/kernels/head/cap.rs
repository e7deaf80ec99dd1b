//! Soft caps of logits.

use super::super::{arithmetic::Arithmetic, gemm::block::Block, softcap::SoftCap};

/// The block with capped logits. To be called in
/// [`super::super::InstructionSet::compute`].
#[inline(always)]
pub(super) fn cap_block(arithmetic: Arithmetic, cap: SoftCap, block: &Block) -> Block {
    let mut capped = Block::ZERO;
    for (capped, logit) in capped.0.iter_mut().zip(&block.0) {
        *capped = cap.apply(arithmetic, *logit);
    }
    capped
}
