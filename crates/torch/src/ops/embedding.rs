//! Embedding tables.

use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};

impl<'t> Tensor<'t> {
    /// The rows of the table `self` for (batch, length) of `ids`.
    pub(crate) fn embedding(&self, ids: &Self) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (table, _) = backward.attributes.inputs[0];
            [Some(grad.tape.empty(&table, grad.dtype())), None, None, None]
        }
        let mut record = self.tape.record(&[self], derivative);
        record.save(ids);
        let &[batch, length] = ids.dims() else {
            return self.clone();
        };
        record.finish(self.tape.empty(&[batch, length, self.dim_from_last(0)], self.dtype()))
    }

    /// The rows for ids that are the same for every sample.
    pub(crate) fn embedding_broadcast(&self, ids: &Self, dims: &[u32]) -> Tensor<'t> {
        let &[batch, length] = dims else { return self.clone() };
        let layout = ids.view.layout.narrow(0, batch);
        debug_assert_eq!(ids.dim_from_last(0), length);
        self.embedding(&ids.clone().with_layout(layout))
    }
}
