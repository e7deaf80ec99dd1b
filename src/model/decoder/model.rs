//! The layers of a decoder.

use std::sync::Arc;

use candle_core::{DType, Device, Result};

use crate::{
    arch::Description,
    model::host_blocks::HostBlocks,
    nn::{
        adapter::SharedFactors, attention::Visibility, decoder_block::DecoderBlock, embedding::Embedding,
        loss::CausalLoss, norm::RmsNorm, param::Param, prefix::Prefix, prompt::Prompt, rope::Rope,
        virtual_tokens::VirtualTokens,
    },
};

/// A decoder with everything it was configured to train.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) description: &'static Description,
    pub(crate) embed_tokens: Embedding,
    /// What stands before each sequence.
    pub(crate) virtual_tokens: Option<VirtualTokens>,
    pub(crate) blocks: Vec<DecoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub(crate) host_blocks: HostBlocks,
    pub(crate) norm: RmsNorm,
    /// `None` if the head is the embedding's table.
    pub(crate) lm_head: Option<Param>,
    pub(crate) rope: Ropes,
    /// The factors that the adapters share.
    pub(crate) shared: Option<Arc<SharedFactors>>,
    /// The loss of the next tokens.
    pub(crate) loss: CausalLoss,
    /// The format that hidden states are kept in.
    pub(crate) hidden: DType,
    pub(crate) device: Device,
}

/// The rotations of queries and keys.
#[derive(Debug)]
pub(crate) struct Ropes {
    /// Of blocks that see all tokens.
    pub(crate) global: Rope,
    /// Of blocks with a window, if it is another.
    pub(crate) local: Option<Rope>,
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
    pub(crate) fn prompt(&self) -> Option<&Prompt> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prompt(prompt)) => Some(prompt),
            _ => None,
        }
    }

    /// The keys and values of virtual tokens.
    pub(crate) fn prefix(&self) -> Option<&Prefix> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prefix(prefix)) => Some(prefix),
            _ => None,
        }
    }

    /// Number of virtual tokens that go through the blocks, before each sequence.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.prompt().map_or(0, Prompt::tokens)
    }

    /// Gives the virtual tokens the embeddings of these tokens, of which there are as many.
    pub(crate) fn start_prompt(&mut self, ids: &[u32]) -> Result<()> {
        let values = self.embed_tokens.values(ids)?;
        match &mut self.virtual_tokens {
            Some(tokens) => tokens.embeddings().fill(&values),
            None => Ok(()),
        }
    }

    /// The final norm and the head's weight, which may be the embedding's.
    pub(crate) fn head_mut(&mut self) -> (&mut RmsNorm, &mut Param) {
        (
            &mut self.norm,
            self.lm_head.as_mut().unwrap_or(&mut self.embed_tokens.table),
        )
    }

    pub(crate) fn head(&self) -> (&RmsNorm, &Param) {
        (&self.norm, self.lm_head.as_ref().unwrap_or(&self.embed_tokens.table))
    }
}
