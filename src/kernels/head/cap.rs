//! Soft caps of logits.

use super::super::{arithmetic::Arithmetic, gemm::block::Block, softcap::SoftCap};

/// The block with capped logits, which are written to `capped`; the block itself without a cap. To be called in
/// [`super::super::InstructionSet::run`].
#[inline(always)]
pub(super) fn cap_block<'a>(cap: Option<SoftCap>, block: &'a Block, capped: &'a mut Block) -> &'a Block {
    let Some(cap) = cap else { return block };
    for (capped, logit) in capped.0.iter_mut().zip(&block.0) {
        *capped = cap.apply(Arithmetic::SEPARATE, *logit);
    }
    capped
}
