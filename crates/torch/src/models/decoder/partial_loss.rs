//! Losses for which the logits of all tokens are never held.

use options::Loss;

use super::Decoder;
use crate::dtype::Dtype;
use crate::peft::Base;
use crate::tape::Tensor;

/// Tokens of a chunk of TRL's loss: `_CHUNKED_LM_HEAD_CHUNK_SIZE` in `trl/trainer/sft_trainer.py`.
const CHUNK: u32 = 256;

impl<'t> Decoder<'t> {
    /// The head's weight, which is never quantised.
    pub(crate) fn head_weight(&self) -> Option<&Tensor<'t>> {
        match &self.head.base.weight {
            Base::Dense(weight) => Some(weight),
            Base::FourBit(_) | Base::EightBit(_) => None,
        }
    }

    /// A loss for which the logits of all tokens are never held.
    pub(super) fn partial_loss(&self, way: Loss, normed: &Tensor<'t>, ids: &Tensor<'t>) -> Tensor<'t> {
        let Some(weight) = self.head_weight() else {
            return normed.clone();
        };
        let tape = normed.tape;
        let others = ids.dim_from_last(0) - 1;
        let targets = || ids.slice_last(others).contiguous();
        // Rows of all tokens but each sample's last, as a copy: an index picks those with a label.
        let picked = || {
            let shifted = normed.first_positions(others);
            let shifted = shifted.reshape(&shifted.rows_and_width());
            let index = tape.empty(&[shifted.dims()[0], 2], Dtype::Int64);
            shifted.ordered(&index)
        };
        match way {
            Loss::Full | Loss::Chunked => self.chunked_loss(normed, ids),
            Loss::Tiled => picked().tiled_loss(weight, &targets()).scale(),
            Loss::Liger => {
                let labels = tape.empty(&[ids.dims()[0], ids.dim_from_last(0) + 1], Dtype::Int64);
                let loss = normed.reshape(&normed.rows_and_width()).liger_loss(weight);
                drop(labels);
                loss
            }
            // The kernels move the labels, so all rows are given.
            Loss::CutCrossEntropy => normed
                .reshape(&normed.rows_and_width())
                .cut_loss(weight, &ids.reshape(&[ids.numel() as u32])),
        }
    }

    /// TRL's `_chunked_cross_entropy_loss` (`trl/trainer/sft_trainer.py` of 1.9), where every token has a label: each
    /// chunk is checkpointed.
    fn chunked_loss(&self, normed: &Tensor<'t>, ids: &Tensor<'t>) -> Tensor<'t> {
        let tape = normed.tape;
        let others = ids.dim_from_last(0) - 1;
        let shifted = normed.first_positions(others).contiguous();
        let shifted = shifted.reshape(&shifted.rows_and_width());
        let [rows, _] = shifted.rows_and_width();
        let labels = ids.slice_last(others).contiguous();
        // Tokens with a label come first, which here changes nothing.
        let valid = tape.empty(&[rows], Dtype::Bool);
        let order = tape.empty(&[rows], Dtype::Int64);
        let hidden = shifted.ordered(&order);
        drop(shifted);
        let targets = labels.reshape(&[rows]).ordered(&order);
        drop(labels);
        let mut loss = tape.empty(&[], Dtype::Float32);
        for start in (0..rows).step_by(CHUNK as usize) {
            let tokens = CHUNK.min(rows - start);
            let (chunk, targets) = (hidden.first_rows(tokens), targets.first_rows(tokens));
            let inputs = [Some(&chunk), Some(&targets), None, None, None, None, None];
            let of_chunk = tape.checkpoint(false, self.blocks.len(), inputs, || match self.head_weight() {
                Some(weight) => chunk.chunk_loss(weight, &targets),
                None => chunk.clone(),
            });
            loss = loss.add(&of_chunk);
        }
        drop((valid, order));
        loss.scale()
    }
}
