//! MiSS, as PEFT computes it (`tuners/miss/layer.py`).

use super::base::BaseLayer;
use super::interface::Adapter;
use super::place::Place;
use crate::tape::{Backward, Gradients, Tensor};

/// MiSS's block.
pub(super) struct Miss<'t> {
    /// `[rank, outputs]`, or fewer columns.
    block: Tensor<'t>,
    /// The columns are repeated: the variant `mini`.
    is_repeated: bool,
    dropout: bool,
}

impl<'t> Miss<'t> {
    pub(super) fn new(miss: &options::Miss, place: &mut Place<'_, 't>) -> Self {
        let [rows, _] = place.dims();
        let columns = miss.repeated().map_or(rows, |columns| columns as u32);
        let zeros = place.factor(&[place.rank(), columns]);
        Self {
            block: place.train(options::methods::MISS, zeros),
            is_repeated: miss.repeated().is_some(),
            dropout: miss.miss_dropout > 0.0,
        }
    }
}

impl<'t> Adapter<'t> for Miss<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        let result = layer.forward_copied(input);
        let [rank, _] = self.block.rows_and_width();
        let block = match self.is_repeated {
            true => self.block.to_width(layer.dims[0]),
            false => self.block.clone(),
        };
        let padded = match layer.dims[1].next_multiple_of(rank) {
            width if width != layer.dims[1] => input.to_width(width),
            _ => input.clone(),
        };
        let cast = padded.to(self.block.dtype());
        drop(padded);
        let dropped = if self.dropout { cast.dropout() } else { cast.clone() };
        // The sum of the shards. Its gradient is expanded as a view, and copied where it is seen as the input was.
        let shards = dropped.to_width(rank);
        drop(dropped);
        // Autocast keeps the cast of a block, and not that of its transpose.
        let delta = shards.linear(&block.cast_for_autocast().transpose(0, 1), None);
        drop(shards);
        let sum = result.add(&delta);
        drop((delta, result));
        let output = sum.to(input.dtype());
        drop((sum, cast, block));
        output
    }
}

impl<'t> Tensor<'t> {
    /// Columns repeated, padded or summed up, until there are `width`. The gradient is a tensor of its own.
    fn to_width(&self, width: u32) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.sum_to(&backward.attributes.inputs[0].0)), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.with_width(width, self.dtype()))
    }
}
