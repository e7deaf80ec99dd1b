//! Soft caps of logits.

use super::super::{arithmetic::Arithmetic, gemm::block::Block, softcap::SoftCap};

/// The block, or with a cap its capped logits, written to `capped`. To be called in
/// [`super::super::InstructionSet::compute`].
#[inline(always)]
pub(super) fn cap_block<'a>(
    arithmetic: Arithmetic,
    cap: Option<SoftCap>,
    block: &'a Block,
    capped: &'a mut Option<Block>,
) -> &'a Block {
    let Some(cap) = cap else { return block };
    let capped = capped.insert(Block::ZERO);
    for (capped, logit) in capped.0.iter_mut().zip(&block.0) {
        *capped = cap.apply(arithmetic, *logit);
    }
    capped
}
