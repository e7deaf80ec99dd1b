//! Embedding tables.

use crate::plan::torch::autograd::{Backward, Gradients};
use crate::plan::torch::tensor::Tensor;

impl<'t> Tensor<'t> {
    /// The rows of the table `self` for (batch, length) of `ids`.
    pub(in crate::plan::torch) fn embedding(&self, ids: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (table, _) = backward.attributes.inputs[0];
            [Some(grad.tape.empty(table.dims(), grad.dtype())), None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(ids);
        let &[batch, length] = ids.dims() else {
            return self.clone();
        };
        record.finish(self.tape.empty(&[batch, length, self.dim_from_last(0)], self.dtype()))
    }
}
