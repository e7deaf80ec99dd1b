//! The Llama family as a chain of segments: embedding, blocks, final norm with head.

mod config;
pub(super) mod hf_config;
mod load;

use candle_core::{DType, Device};

use crate::nn::{block::Block, norm::RmsNorm, param::Param, rope::Rope};

pub use config::{Llama3Scaling, LlamaConfig};

/// A decoder with everything it was configured to train.
#[derive(Debug)]
pub struct Llama {
    pub embed_tokens: Param,
    pub blocks: Vec<Block>,
    pub norm: RmsNorm,
    /// `None` where the head is tied to the embedding.
    pub lm_head: Option<Param>,
    pub rope: Rope,
    /// The format that hidden states are kept in.
    pub hidden: DType,
    pub device: Device,
}

impl Llama {
    /// Everything that is trained, in a fixed order, each once.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = Vec::new();
        params.extend(self.embed_tokens.trainable.then_some(&mut self.embed_tokens));
        params.extend(self.blocks.iter_mut().flat_map(Block::trainable));
        params.extend(self.norm.weight.trainable.then_some(&mut self.norm.weight));
        params.extend(self.lm_head.as_mut().filter(|head| head.trainable));
        params
    }

    /// The final norm and the head's weight, which may be the embedding's.
    pub fn head_mut(&mut self) -> (&mut RmsNorm, &mut Param) {
        (&mut self.norm, self.lm_head.as_mut().unwrap_or(&mut self.embed_tokens))
    }

    pub fn head(&self) -> (&RmsNorm, &Param) {
        (&self.norm, self.lm_head.as_ref().unwrap_or(&self.embed_tokens))
    }
}
