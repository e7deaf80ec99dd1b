//! An encoder's segments: embeddings, blocks, classifier with the labels' loss.

use candle_core::{Device, Result, Tensor};

use super::{Encoder, variant::Variant};
use crate::{
    data::MicroBatch,
    model::chain::{Chain, Evaluated, SegmentNames, input},
    nn::{Pass, encoder_block, encoder_block::EncoderBlock, param::Param},
};

impl Chain for Encoder {
    type Saved = encoder_block::Saved;

    fn names(&self) -> SegmentNames {
        SegmentNames {
            embedding: match self.variant {
                Variant::Bert => "bert.embeddings",
                Variant::DistilBert => "distilbert.embeddings",
            },
            blocks: self.variant.family().description().blocks,
            head: "classifier",
        }
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.embedding.trainable();
        params.extend(self.blocks.iter_mut().flat_map(EncoderBlock::trainable));
        params.extend(self.head.trainable());
        params
    }

    fn embed(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
        self.embedding.forward(ids, self.hidden, pass)
    }

    fn block(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<(Tensor, encoder_block::Saved)> {
        self.blocks[index].forward(x, pass)
    }

    fn recompute(&self, index: usize, x: &Tensor, pass: &Pass) -> Result<encoder_block::Saved> {
        self.blocks[index].recompute(x, pass)
    }

    fn head(
        &mut self,
        x: &Tensor,
        batch: &MicroBatch,
        pass: &Pass,
        scale: f64,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let labels = input("labels", &batch.labels, &self.device)?;
        self.head.forward_backward(x, &labels, scale, pass, on_checkpoint)
    }

    fn block_backward(&mut self, index: usize, saved: encoder_block::Saved, dy: Tensor, pass: &Pass) -> Result<Tensor> {
        self.blocks[index].backward(saved, dy, pass)
    }

    fn embed_backward(&mut self, ids: &Tensor, dy: Tensor, pass: &Pass) -> Result<()> {
        self.embedding.backward(ids, dy, self.hidden, pass)
    }

    fn evaluate(&self, x: &Tensor, batch: &MicroBatch, pass: &Pass) -> Result<Evaluated> {
        let labels = input("labels", &batch.labels, &self.device)?;
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
