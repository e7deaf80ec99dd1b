//! The layers of a decoder.

use candle_core::{DType, Device};

use crate::{
    arch::Description,
    model::host_blocks::HostBlocks,
    nn::{decoder_block::DecoderBlock, norm::RmsNorm, param::Param, rope::Rope},
    options::Loss,
};

/// A decoder with everything it was configured to train.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) description: &'static Description,
    pub(crate) embed_tokens: Param,
    pub(crate) blocks: Vec<DecoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub(crate) host_blocks: HostBlocks,
    pub(crate) norm: RmsNorm,
    /// `None` if the head is tied to the embedding.
    pub(crate) lm_head: Option<Param>,
    pub(crate) rope: Rope,
    /// How the loss is computed in training.
    pub(crate) loss: Loss,
    /// The format that hidden states are kept in.
    pub(crate) hidden: DType,
    pub(crate) device: Device,
}

impl Decoder {
    /// The final norm and the head's weight, which may be the embedding's.
    pub(crate) fn head_mut(&mut self) -> (&mut RmsNorm, &mut Param) {
        (&mut self.norm, self.lm_head.as_mut().unwrap_or(&mut self.embed_tokens))
    }

    pub(crate) fn head(&self) -> (&RmsNorm, &Param) {
        (&self.norm, self.lm_head.as_ref().unwrap_or(&self.embed_tokens))
    }
}
