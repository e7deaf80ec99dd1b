//! Prompt tuning, as PEFT computes it (`PeftModelForCausalLM.forward` and `get_prompt` in `peft_model.py`).

use crate::dtype::Dtype;
use crate::tape::Tensor;

/// Embeddings of virtual tokens.
pub(crate) struct Prompt<'t> {
    /// `[virtual tokens, features]`.
    pub embedding: Tensor<'t>,
}

/// What PEFT's forward pass gives the model, and holds on to until the model is done.
pub(crate) struct Prompted<'t> {
    /// Embeddings of virtual tokens and tokens.
    pub embedded: Tensor<'t>,
    /// The labels, which ignore virtual tokens.
    pub labels: Tensor<'t>,
    _others: [Tensor<'t>; 2],
}

impl<'t> Prompt<'t> {
    /// Virtual tokens before these of `labels`.
    pub(crate) fn before(&self, embedded: Tensor<'t>, labels: &Tensor<'t>) -> Prompted<'t> {
        let (tape, batch) = (embedded.tape, labels.dim_from_last(1));
        let [tokens, _] = self.embedding.rows_and_width();
        let ignored = tape.empty(&[batch, tokens], Dtype::Int64);
        let labels = ignored.cat(labels, 1);
        // The numbers of all samples' virtual tokens, of which those of one are embedded.
        let numbers = tape.empty(&[batch, tokens], Dtype::Int64);
        let one = self.embedding.embedding_broadcast(&numbers, &[1, tokens]);
        let all = one.repeat_sample(batch);
        drop((one, numbers));
        let prompts = all.to(embedded.dtype());
        drop(all);
        Prompted {
            embedded: prompts.cat(&embedded, 1),
            labels,
            _others: [ignored, prompts],
        }
    }
}
