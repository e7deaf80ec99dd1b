//! The layers of a decoder.

use std::sync::Arc;

use arch::Description;
use candle_core::{DType, Device, Result};
use nn::{
    adapter::SharedFactors, attention::Visibility, decoder_block::DecoderBlock, embedding::Embedding, head::Head,
    loss::CausalLoss, norm::RmsNorm, param::Param, prefix::Prefix, prompt::Prompt, rope::Rope, tensor::Tensor,
    virtual_tokens::VirtualTokens,
};

use crate::host_blocks::HostBlocks;

/// A decoder with everything it was configured to train.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) description: &'static Description,
    pub(crate) embed_tokens: Embedding,
    pub(crate) tables: Tables,
    /// What stands before each sequence.
    pub virtual_tokens: Option<VirtualTokens>,
    pub(crate) blocks: Vec<DecoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub host_blocks: HostBlocks,
    pub(crate) norm: RmsNorm,
    pub(crate) rope: Ropes,
    /// The factors that the adapters share.
    pub shared: Option<Arc<SharedFactors>>,
    /// The loss of the next tokens.
    pub loss: CausalLoss,
    /// The format that hidden states are kept in.
    pub hidden: DType,
    pub(crate) device: Device,
}

/// The table of the tokens' vectors, and the head.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The vectors; `None` if they are the head's weight.
    pub table: Option<Param>,
    pub head: Head,
}

impl Tables {
    /// The tokens' vectors.
    pub(crate) fn embedding(&self) -> Result<&Param> {
        self.table.as_ref().map_or_else(|| self.head.weight(), Ok)
    }

    /// The tokens' vectors, to be changed.
    pub(crate) fn embedding_mut(&mut self) -> Result<&mut Param> {
        match &mut self.table {
            Some(table) => Ok(table),
            None => self.head.weight_mut(),
        }
    }

    /// What is trained of the table, and then of the head; a weight that both have is the table's, unless an adapter
    /// stands beside it.
    pub(crate) fn trainable(&mut self) -> [Vec<&mut Param>; 2] {
        let [mut of_table, mut of_head] = [Vec::new(), Vec::new()];
        match (&mut self.table, &mut self.head) {
            (None, Head::Plain(table)) => table.push_trainable(&mut of_table),
            (None, head) => head.trainable(&mut of_head),
            (Some(table), head) => {
                table.push_trainable(&mut of_table);
                head.trainable(&mut of_head);
            }
        }
        [of_table, of_head]
    }
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
        let values = self.embed_tokens.values(self.tables.embedding()?, ids)?;
        match &mut self.virtual_tokens {
            Some(tokens) => tokens.embeddings().fill(&values),
            None => Ok(()),
        }
    }

    /// The tables by the names of their weights.
    pub(crate) fn named_tables(&self) -> Vec<(String, &Tensor)> {
        let embedding = self.description.embeddings[0].path;
        let head = self.description.token_head().map(|head| head.path);
        let tables = [
            (Some(embedding), self.tables.embedding()),
            (head, self.tables.head.weight()),
        ];
        let mut named = Vec::new();
        for (name, weight) in tables {
            if let (Some(name), Ok(weight)) = (name, weight) {
                named.push((format!("{name}.weight"), &weight.value));
            }
        }
        named
    }

    /// The final norm and the head.
    pub fn head_mut(&mut self) -> (&mut RmsNorm, &mut Head) {
        (&mut self.norm, &mut self.tables.head)
    }
}
