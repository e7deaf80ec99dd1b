//! The Llama family's segments: token embedding, blocks, final norm with head and the next token's loss.

use candle_core::{Device, Result, Tensor};

use super::Llama;
use crate::{
    data::MicroBatch,
    model::chain::{Chain, Evaluated, SegmentNames},
    nn::{
        Pass, block,
        block::Block,
        embedding,
        loss::{self, Targets},
        param::Param,
    },
};

impl Chain for Llama {
    type Saved = block::Saved;

    fn names(&self) -> SegmentNames {
        SegmentNames {
            embedding: "model.embed_tokens",
            blocks: "model.layers",
            head: "lm_head",
        }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = Vec::new();
        params.extend(self.embed_tokens.trainable.then_some(&mut self.embed_tokens));
        params.extend(self.blocks.iter_mut().flat_map(Block::trainable));
        params.extend(self.norm.weight.trainable.then_some(&mut self.norm.weight));
        params.extend(self.lm_head.as_mut().filter(|head| head.trainable));
        params
    }

    fn embed(&self, ids: &Tensor, _: &Pass) -> Result<Tensor> {
        embedding::forward(&self.embed_tokens, ids, self.hidden)
    }

    fn block(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<(Tensor, block::Saved)> {
        self.blocks[index].forward(x, &self.rope, pass)
    }

    fn recompute(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<block::Saved> {
        self.blocks[index].recompute(x, &self.rope, pass)
    }

    fn head(
        &mut self,
        x: &Tensor,
        batch: &MicroBatch,
        _: &Pass,
        scale: f64,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let targets = targets(batch);
        let (norm, head) = self.head_mut();
        loss::forward_backward(x, norm, head, &targets, scale, on_checkpoint)
    }

    fn block_backward(&mut self, index: usize, saved: block::Saved, dy: Tensor, pass: &Pass) -> Result<Tensor> {
        self.blocks[index].backward(saved, dy, &self.rope, pass)
    }

    fn embed_backward(&mut self, ids: &Tensor, dy: Tensor, _: &Pass) -> Result<()> {
        embedding::backward(&mut self.embed_tokens, ids, &dy)
    }

    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, _: &Pass) -> Result<Evaluated> {
        let (norm, head) = Llama::head(self);
        Ok(Evaluated {
            loss_sum: loss::evaluate(x, norm, head, &targets(batch))?,
            correct: None,
        })
    }

    fn logits(&self, x: &Tensor, _: &Pass) -> Result<Tensor> {
        let (norm, head) = Llama::head(self);
        loss::logits(&norm.forward(x)?, head)
    }
}

fn targets(batch: &MicroBatch) -> Targets {
    Targets::new(&batch.ids, &batch.lengths, batch.len)
}
