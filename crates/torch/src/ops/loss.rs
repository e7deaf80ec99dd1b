//! Cross entropy: over all logits, or over those of some tokens at a time.

use crate::dtype::Dtype;
use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// `log_softmax(self, dim=-1)`.
    fn log_softmax(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.like(grad.dtype())), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        if self.tape.pytorch.saves_softmax_inputs {
            record.save(self);
        }
        let result = self.like(self.dtype());
        record.save(&result);
        record.finish(result)
    }

    /// `nll_loss(self, target)`.
    fn nll_loss(&self, target: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let this = backward.saved(0);
            [Some(this.like(grad.dtype())), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(self);
        record.save(target);
        let output = self.tape.empty(&[], self.dtype());
        let weight = self.tape.empty(&[], self.dtype());
        record.save(&weight);
        record.finish(output)
    }

    /// `cross_entropy(self, target)` of (rows, classes).
    pub(crate) fn cross_entropy(&self, target: &Self) -> Tensor<'t> {
        self.log_softmax().nll_loss(target)
    }

    /// TRL's `_chunk` (`trl/trainer/sft_trainer.py` of 1.9): the loss of the tokens with these hidden states, (tokens,
    /// width), from logits in float32, and their entropy, which has no gradient.
    pub(crate) fn chunk_loss(&self, weight: &Self, targets: &Self) -> Tensor<'t> {
        let logits = {
            let (hidden, weight) = (self.to(Dtype::Float32), weight.to(Dtype::Float32));
            // The weight is turned: a view, so autocast does not keep its copy.
            hidden.linear(&weight.transpose(0, 1).transpose(0, 1), None)
        };
        let log_probabilities = logits.to(Dtype::Float32).log_softmax();
        let loss = log_probabilities.nll_loss_with_entropy(targets);
        drop(logits);
        loss
    }

    /// `nll_loss(self, target)`, and the sum of `exp(self) * self`, whose graph is gone when the backward pass begins.
    /// What it computes last, a truth value for each token, ends a recomputation.
    fn nll_loss_with_entropy(&self, target: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let this = backward.saved(0);
            [Some(this.like(grad.dtype())), None, None, None]
        }
        let tape = self.tape;
        let mut record = tape.record(&[self], derivative);
        let output = tape.empty(&[], self.dtype());
        let weight = tape.empty(&[], self.dtype());
        record.save(self);
        record.save(target);
        record.save(&weight);
        let valid = tape.empty(target.dims(), Dtype::Bool);
        let probabilities = self.like(self.dtype());
        let products = self.like(self.dtype());
        drop((probabilities, products));
        record.save(&valid);
        record.finish(output)
    }

    /// The causal loss of older releases: of the logits all but each sample's last, in float32 if `upcasts`; else
    /// autocast has them so.
    pub(crate) fn shifted_causal_loss(&self, labels: &Self, upcasts: bool) -> Tensor<'t> {
        let &[_, length] = labels.dims() else {
            return self.clone();
        };
        let others = length - 1;
        let logits = if upcasts { self.to(Dtype::Float32) } else { self.clone() };
        // Without a copy where that leaves no gaps: of one sample.
        let shifted = logits.first_positions(others).contiguous();
        let targets = labels.slice_last(others).contiguous();
        let shifted = shifted.reshape(&shifted.rows_and_width());
        match self.tape.autocast_dtype() {
            Some(_) => shifted.to(Dtype::Float32).cross_entropy(&targets),
            None => shifted.cross_entropy(&targets),
        }
    }

    /// transformers' causal loss: the logits in float32, the labels moved by one.
    pub(crate) fn causal_loss(&self, labels: &Self) -> Tensor<'t> {
        let tape = self.tape;
        let logits = self.to(Dtype::Float32);
        let &[batch, length] = labels.dims() else {
            return self.clone();
        };
        let padded = tape.empty(&[batch, length + 1], Dtype::Int64);
        // Without a copy where that leaves no gaps: of one sample.
        let shifted = padded.slice_last(length).contiguous();
        let flat = logits.reshape(&logits.rows_and_width());
        let loss = flat.cross_entropy(&shifted);
        drop((flat, logits, padded, shifted));
        loss
    }
}
