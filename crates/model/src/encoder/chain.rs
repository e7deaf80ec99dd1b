//! An encoder's segments: embeddings, blocks, classifier with the labels' loss.

use candle_core::{Device, Result};
use data::MicroBatch;
use memory::{Buffer, tiers::Slot};
use nn::{Pass, adapter::SharedFactors, encoder_block, param::Param, tensor::Tensor};

use super::Encoder;
use crate::chain::{Chain, Evaluated, SegmentNames, input};
use crate::host_blocks::HostBlocks;

impl Chain for Encoder {
    type Saved = encoder_block::Saved;

    fn names(&self) -> SegmentNames {
        let word_embeddings = self.description.embeddings[0].path;
        SegmentNames {
            embedding: word_embeddings
                .rsplit_once('.')
                .map_or(word_embeddings, |(embeddings, _)| embeddings),
            blocks: self.description.blocks,
            head: "classifier",
        }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn embedding_trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.embedding.trainable(params);
    }

    fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.embedding.trainable(params);
        for block in &mut self.blocks {
            block.trainable(params);
        }
        self.head.trainable(params);
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
        self.embedding.forward(ids, self.hidden, pass)
    }

    fn block(&self, index: usize, x: Tensor, pass: &Pass) -> Result<(Tensor, Self::Saved)> {
        self.blocks[index].forward(x, pass)
    }

    fn recompute(&self, index: usize, x: Tensor, pass: &Pass) -> Result<Self::Saved> {
        self.blocks[index].recompute(x, pass)
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
        let labels = input("labels", &batch.labels, batch.sequences.count());
        self.head.forward_backward(x, &labels, scale, pass, on_checkpoint)
    }

    fn block_backward(
        &mut self,
        index: usize,
        saved: Self::Saved,
        dy: Tensor,
        needs_dx: bool,
        pass: &Pass,
    ) -> Result<Option<Tensor>> {
        self.blocks[index].backward(saved, dy, needs_dx, pass)
    }

    fn embed_backward(&mut self, ids: &Buffer<u32>, dy: Tensor, pass: &Pass) -> Result<()> {
        self.embedding.backward(ids, dy, self.hidden, pass)
    }

    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated> {
        let labels = input("labels", &batch.labels, batch.sequences.count());
        let (loss_sum, correct) = self.head.evaluate(x, &labels, pass)?;
        Ok(Evaluated {
            loss_sum,
            correct: Some(correct),
        })
    }

    fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        self.head.logits(x, pass)
    }
}
