//! The layers of a decoder.

use std::sync::Arc;

use arch::Description;
use candle_core::{DType, Device, Result};
use nn::{
    adapter::SharedFactors, attention::Visibility, decoder_block::DecoderBlock, embedding::Embedding, loss::CausalLoss,
    norm::RmsNorm, param::Param, prefix::Prefix, prompt::Prompt, rope::Rope, virtual_tokens::VirtualTokens,
};

use crate::host_blocks::HostBlocks;

/// A decoder with everything it was configured to train.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) description: &'static Description,
    pub(crate) embed_tokens: Embedding,
    /// What stands before each sequence.
    pub virtual_tokens: Option<VirtualTokens>,
    pub(crate) blocks: Vec<DecoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub host_blocks: HostBlocks,
    pub(crate) norm: RmsNorm,
    /// `None` if the head is the embedding's table.
    pub lm_head: Option<Param>,
    pub(crate) rope: Ropes,
    /// The factors that the adapters share.
    pub shared: Option<Arc<SharedFactors>>,
    /// The loss of the next tokens.
    pub loss: CausalLoss,
    /// The format that hidden states are kept in.
    pub hidden: DType,
    pub(crate) device: Device,
}

/// The rotations of queries and keys.
#[derive(Debug)]
pub(crate) struct Ropes {
    /// Of blocks that see all tokens.
    pub global: Rope,
    /// Of blocks with a window, if it is another.
    pub local: Option<Rope>,
}

impl Ropes {
    /// The rotation of a block.
    pub(crate) fn of(&self, block: &DecoderBlock) -> &Rope {
        match (&self.local, block.self_attn.visibility) {
            (Some(local), Visibility::Window(_)) => local,
            _ => &self.global,
        }
    }
}

impl Decoder {
    /// The virtual tokens that go through the blocks as tokens do.
    pub fn prompt(&self) -> Option<&Prompt> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prompt(prompt)) => Some(prompt),
            _ => None,
        }
    }

    /// The keys and values of virtual tokens.
    pub fn prefix(&self) -> Option<&Prefix> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prefix(prefix)) => Some(prefix),
            _ => None,
        }
    }

    /// Number of virtual tokens that go through the blocks, before each sequence.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt().map_or(0, Prompt::tokens)
    }

    /// Gives the virtual tokens the embeddings of these tokens, of which there are as many.
    pub fn start_prompt(&mut self, ids: &[u32]) -> Result<()> {
        let values = self.embed_tokens.values(ids)?;
        match &mut self.virtual_tokens {
            Some(tokens) => tokens.embeddings().fill(&values),
            None => Ok(()),
        }
    }

    /// The final norm and the head's weight, which may be the embedding's.
    pub fn head_mut(&mut self) -> (&mut RmsNorm, &mut Param) {
        (
            &mut self.norm,
            self.lm_head.as_mut().unwrap_or(&mut self.embed_tokens.table),
        )
    }

    pub(crate) fn head(&self) -> (&RmsNorm, &Param) {
        (&self.norm, self.lm_head.as_ref().unwrap_or(&self.embed_tokens.table))
    }
}
