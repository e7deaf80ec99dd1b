//! OFT, as PEFT computes it (`tuners/oft/layer.py`).

use trace::Category;

use super::base::BaseLayer;
use super::interface::Adapter;
use super::place::Place;
use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::layout::Layout;
use crate::tape::{Backward, Gradients, Tape, Tensor};

/// OFT's rotations of blocks of inputs.
pub(super) struct Oft<'t> {
    /// The upper triangles of skew-symmetric matrices: one for each block, or one for all.
    weight: Tensor<'t>,
    /// The rows and the columns of a triangle's elements.
    indices: [Tensor<'t>; 2],
    /// Features of a block.
    size: u32,
    is_shared: bool,
    /// Terms of the sum of powers; `None` solves a system of equations.
    terms: Option<usize>,
}

impl<'t> Oft<'t> {
    pub(super) fn new(oft: &options::Oft, place: &mut Place<'_, 't>) -> Self {
        let [_, columns] = place.dims();
        let size = oft.block_size(columns as usize) as u32;
        let [blocks, elements] = oft.shape(columns as usize).map(|count| count as u32);
        let zeros = place.factor(&[blocks, elements]);
        Self {
            weight: place.train(options::methods::OFT_R, zeros),
            indices: place.tape.triangle(elements),
            size,
            is_shared: oft.block_share,
            terms: oft.terms(),
        }
    }

    /// `OFTRotationModule.forward`, of an input in the weight's format.
    fn rotate(&self, input: &Tensor<'t>) -> Tensor<'t> {
        let mut rotation = self.cayley();
        let [rows, columns] = input.rows_and_width();
        let blocks = columns / self.size;
        let by_block = input.reshape(&[rows, blocks, self.size]);
        if self.is_shared {
            rotation = rotation.repeat_sample(blocks);
        }
        // `torch.einsum` multiplies a pair of matrices for each block.
        let rotated = by_block.transpose(0, 1).bmm(&rotation).transpose(0, 1);
        let whole = rotated.reshape(input.dims());
        let output = whole.to(input.dtype());
        drop((whole, rotated, by_block, rotation));
        output
    }

    /// `_cayley_batch`: the matrices that rotate the blocks.
    fn cayley(&self) -> Tensor<'t> {
        let (tape, dtype) = (self.weight.tape, self.weight.dtype());
        let skew = self.skew_symmetric();
        let Some(terms) = self.terms else {
            let eye = tape.empty(&[self.size; 2], Dtype::Float32);
            let rotation = eye.add(&skew).solve(&eye.sub(&skew));
            return rotation.to(dtype);
        };
        let eye = tape.empty(&[self.size; 2], dtype);
        let mut rotation = tape.empty(skew.dims(), dtype);
        drop(eye);
        rotation.add_in_place(&skew, 2);
        if terms > 2 {
            let squared = skew.bmm(&skew);
            rotation.add_in_place(&squared, 2);
            // Python's name for the square lasts until the end.
            let mut power = squared.clone();
            for _ in 3..terms - 1 {
                power = power.bmm(&skew);
                rotation.add_in_place(&power, 2);
            }
            power = power.bmm(&skew);
            rotation.add_in_place(&power, 1);
        }
        rotation
    }

    /// `_pytorch_skew_symmetric`.
    fn skew_symmetric(&self) -> Tensor<'t> {
        let [blocks, elements] = self.weight.rows_and_width();
        // What is assigned loses its first dimension if that is 1 (`slicePrefix1sSize` in
        // `aten/src/ATen/TensorIndexing.h`).
        let values = match blocks {
            1 => self.weight.reshape(&[elements]),
            _ => self.weight.clone(),
        };
        let matrix = values.put(&self.indices, &[blocks, self.size, self.size]);
        matrix.sub(&matrix.transpose(1, 2))
    }
}

impl<'t> Adapter<'t> for Oft<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        let rotated = {
            let cast = input.to(self.weight.dtype());
            self.rotate(&cast)
        };
        let result = layer.forward(&rotated.to(input.dtype()));
        let output = result.to(input.dtype());
        // Python's name for the rotated input lasts until the end.
        drop((result, rotated));
        output
    }
}

impl Tape {
    /// `torch.triu_indices`: rows and columns, which are halves of a tensor until they are moved to a GPU.
    fn triangle(&self, elements: u32) -> [Tensor<'_>; 2] {
        let indices = |rows| self.empty_as(Layout::contiguous(&[rows, elements]), Dtype::Int64, Category::Adapter);
        match self.backend {
            Backend::Cuda => [indices(1), indices(1)],
            Backend::Cpu => {
                let both = indices(2);
                [both.clone(), both]
            }
        }
    }
}

impl<'t> Tensor<'t> {
    /// Zeros of these dimensions, in which `[:, rows, columns] = self`.
    fn put(&self, indices: &[Self; 2], dims: &[u32]) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let (values, _) = backward.attributes.inputs[0];
            let dims = [grad.dims()[0], values[values.len() - 1]];
            [Some(grad.tape.empty(&dims, grad.dtype())), None, None, None]
        }
        let zeros = self.tape.empty(dims, self.dtype());
        let mut record = self.tape.record(&[self], derivative);
        for index in indices {
            record.save(index);
        }
        record.finish(zeros)
    }

    /// `self.add_(other, alpha=alpha)`.
    fn add_in_place(&mut self, other: &Self, alpha: u32) {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let this = backward.needs[0].then(|| grad.clone());
            [this, Some(grad.clone()), None, None]
        }
        fn of_scaled<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let this = backward.needs[0].then(|| grad.clone());
            [this, Some(grad.like(grad.dtype())), None, None]
        }
        let derivative = if alpha == 1 { derivative } else { of_scaled };
        let record = self.tape.record(&[self, other], derivative);
        record.finish_all([self]);
    }

    /// `torch.linalg.solve(self, other, left=False)`. What the solvers take for their work is not counted.
    fn solve(&self, other: &Self) -> Tensor<'t> {
        // `linalg_solve_backward` in `torch/csrc/autograd/FunctionsManual.cpp`.
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let of_other = grad.like(grad.dtype());
            let product = grad.tape.product(grad.dims(), grad.dtype());
            let of_this = product.like(product.dtype());
            drop(product);
            [Some(of_this), Some(of_other), None, None]
        }
        let mut record = self.tape.record(&[self, other], derivative);
        let [result, factors] = [0, 1].map(|_| self.like(self.dtype()));
        let [pivots, info] = [2, 1].map(|axes| self.tape.empty(&self.dims()[..axes], Dtype::Int32));
        for saved in [self, &factors, &pivots, &result] {
            record.save(saved);
        }
        drop(info);
        record.finish(result)
    }
}
