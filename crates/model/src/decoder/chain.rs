//! A decoder's segments: token embedding, blocks, final norm with head and the next token's loss.

use candle_core::{Device, Result};
use data::MicroBatch;
use memory::{Buffer, tiers::Slot};
use nn::{
    Pass,
    adapter::SharedFactors,
    decoder_block,
    loss::Targets,
    param::Param,
    prefix::{Past, PastGradients},
    tensor::Tensor,
    virtual_tokens::VirtualTokens,
};

use super::Decoder;
use crate::chain::{Chain, Evaluated, SegmentNames};
use crate::host_blocks::HostBlocks;

impl Chain for Decoder {
    type Saved = decoder_block::Saved;

    fn names(&self) -> SegmentNames {
        SegmentNames {
            embedding: self.description.embeddings[0].path,
            blocks: self.description.blocks,
            head: "lm_head",
        }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn embedding_trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        let table = self.tables.embedding_mut();
        table.into_iter().for_each(|table| table.push_trainable(params));
        params.extend(self.virtual_tokens.as_mut().map(VirtualTokens::embeddings));
    }

    fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        let [table, head] = self.tables.trainable();
        params.extend(table);
        params.extend(self.virtual_tokens.as_mut().map(VirtualTokens::embeddings));
        for block in &mut self.blocks {
            block.trainable(params);
        }
        self.norm.trainable(params);
        params.extend(head);
    }

    fn block_trainable<'a>(&'a mut self, index: usize, params: &mut Vec<&'a mut Param>) {
        self.blocks[index].trainable(params);
    }

    fn shared(&self) -> Option<&SharedFactors> {
        self.shared.as_deref()
    }

    fn frozen<'a>(&'a mut self, index: usize, slots: &mut Vec<&'a mut dyn Slot>) {
        self.blocks[index].frozen(slots);
    }

    fn host_blocks(&mut self) -> &mut HostBlocks {
        &mut self.host_blocks
    }

    fn embed(&self, ids: &Buffer<u32>, pass: &Pass) -> Result<Tensor> {
        let table = self.tables.embedding()?;
        let x = self.embed_tokens.forward(table, ids, self.hidden, &self.device)?;
        match self.prompt() {
            Some(prompt) => prompt.before(&x, &pass.sequences),
            None => Ok(x),
        }
    }

    fn block(&self, index: usize, x: Tensor, pass: &Pass) -> Result<(Tensor, Self::Saved)> {
        let block = &self.blocks[index];
        block.forward(x, self.rope.of(block), self.past(index), pass)
    }

    fn recompute(&self, index: usize, x: Tensor, pass: &Pass) -> Result<Self::Saved> {
        let block = &self.blocks[index];
        block.recompute(x, self.rope.of(block), self.past(index), pass)
    }

    fn into_input(saved: Self::Saved) -> Tensor {
        saved.into_input()
    }

    fn head(
        &mut self,
        x: &Tensor,
        batch: &MicroBatch,
        pass: &Pass,
        scale: f64,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let targets = self.targets(batch);
        let loss = self.loss;
        loss.forward_backward(x, self.head_mut(), &targets, scale, pass, on_checkpoint)
    }

    fn block_backward(
        &mut self,
        index: usize,
        saved: Self::Saved,
        dy: Tensor,
        needs_dx: bool,
        pass: &Pass,
    ) -> Result<Option<Tensor>> {
        let block = &mut self.blocks[index];
        let of_past = match &mut self.virtual_tokens {
            Some(VirtualTokens::Prefix(prefix)) => prefix.gradients(index),
            _ => PastGradients::NONE,
        };
        block.backward(saved, dy, self.rope.of(block), of_past, needs_dx, pass)
    }

    fn embed_backward(&mut self, ids: &Buffer<u32>, dy: Tensor, pass: &Pass) -> Result<()> {
        match &mut self.virtual_tokens {
            // The table beside it is frozen.
            Some(VirtualTokens::Prompt(prompt)) => prompt.backward(&dy, &pass.sequences),
            _ => self.embed_tokens.backward(self.tables.embedding_mut()?, ids, dy),
        }
    }

    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated> {
        let (targets, head) = (self.targets(batch), &self.tables.head);
        Ok(Evaluated {
            loss_sum: self.loss.evaluate(x, &self.norm, head, &targets, pass)?,
            correct: None,
        })
    }

    fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        self.loss.logits(&self.norm.forward(x)?, &self.tables.head, pass)
    }
}

impl Decoder {
    /// What stands before the keys and values of a block.
    fn past(&self, index: usize) -> Past<'_> {
        self.prefix().map_or(Past::NONE, |prefix| prefix.of_block(index))
    }

    /// The targets of a micro-batch, whose rows stand behind virtual tokens.
    fn targets(&self, batch: &MicroBatch) -> Targets {
        let mut targets = Targets::new(&batch.ids, batch.counted(), batch.predicting());
        let own = self.prompt_tokens();
        if own > 0 {
            for row in targets.rows.values_mut() {
                let (sequence, _) = batch.sequences.locate(*row as usize);
                *row += (own * (sequence + 1)) as u32;
            }
        }
        targets
    }
}
