//! bitsandbytes' linear layers: packed weights that are dequantised for every product.

use std::cell::{Cell, RefCell};

use trace::Category;

use super::dtype::Dtype;
use super::layout::Layout;
use super::tape::Tape;
use super::tape::Tensor;
use super::tape::{Backward, Gradients};
use super::versions::Bitsandbytes;

/// Scales that share a scale of their own, with double quantisation.
const NESTED_BLOCK: u64 = 256;
/// Values of a 4-bit and of an 8-bit code.
const CODE: u64 = 16;
const NESTED_CODE: u64 = 256;

/// A 4-bit weight with its scales.
pub(super) struct FourBit<'t> {
    /// The packed weight, its scales and their tables; without the packed weight where that is a part of a unit.
    _held: Vec<Tensor<'t>>,
    out_features: u32,
    in_features: u32,
    /// The weights that share a scale, and true if the scales are quantised themselves.
    blocks: (u64, bool),
    /// The scales, if they are; else 0.
    nested_scales: u64,
    compute: Dtype,
    /// The format it was quantised from, which the derivative dequantises to.
    source: Dtype,
    release: Bitsandbytes,
}

/// An 8-bit weight with the scale of each row.
pub(super) struct EightBit<'t> {
    /// By rows, or in tiles once a release that has them has made a product.
    weight: RefCell<Tensor<'t>>,
    is_tiled: Cell<bool>,
    out_features: u32,
    in_features: u32,
    _scales: Tensor<'t>,
    finds_outliers: bool,
    release: Bitsandbytes,
}

/// Rows and columns of a tile of 8-bit numbers (`col_ampere`, `col32`).
const TILE: u32 = 32;
/// Rows and columns that one block of threads looks for outliers in (`get_colrow_absmax`).
const COUNTED: [u32; 2] = [16, 256];

impl Tape {
    fn parameter_bytes(&self, bytes: u64) -> Tensor<'_> {
        self.bytes(bytes, Category::Parameter)
    }

    /// Quantises a weight that is on the GPU (`quantize_4bit` in `functional.py`), which releases it. `block` weights
    /// share a scale.
    pub(super) fn four_bit<'t>(
        &'t self,
        weight: Tensor<'t>,
        compute: Dtype,
        (block, double_quant): (u64, bool),
        release: Bitsandbytes,
    ) -> FourBit<'t> {
        let elements = weight.numel();
        let blocks = elements.div_ceil(block);
        let scales = self.parameter_bytes(blocks * 4);
        let packed = self.parameter_bytes(elements.div_ceil(2));
        let code = self.parameter_bytes(CODE * 4);
        let mut held = if double_quant {
            let offset = self.parameter_bytes(4);
            let centred = self.bytes(blocks * 4, Category::Temporary);
            let nested_code = self.parameter_bytes(NESTED_CODE * 4);
            let nested = self.parameter_bytes(blocks.div_ceil(NESTED_BLOCK) * 4);
            let bytes = self.parameter_bytes(blocks);
            drop((scales, centred));
            vec![packed, bytes, nested, nested_code, offset, code]
        } else {
            vec![packed, scales, code]
        };
        if self.is_sharded {
            // It goes to the CPU until it is sharded, and its scales stay.
            held.swap_remove(0);
        }
        FourBit {
            _held: held,
            out_features: weight.dims()[0],
            in_features: weight.dims()[1],
            blocks: (block, double_quant),
            nested_scales: if double_quant { blocks } else { 0 },
            compute,
            source: match release.quantises_float16 {
                true => Dtype::Float16,
                false => weight.dtype(),
            },
            release,
        }
    }

    /// Quantises a weight that is on the GPU to 8 bits by rows, which releases it. `Bnb8bitQuantize.convert` in
    /// `integrations/bitsandbytes.py` takes it to the CPU and back, where it is made float16, while the first is still
    /// there; releases with tiles are given float16, and quantise it by columns as well (`Int8Params.cuda`).
    pub(super) fn eight_bit<'t>(
        &'t self,
        weight: Tensor<'t>,
        finds_outliers: bool,
        release: Bitsandbytes,
    ) -> EightBit<'t> {
        let beside = match release.has_tiled_int8 {
            true => weight.like(Dtype::Int8),
            false => weight.like(Dtype::Float16),
        };
        let scales = self.parameter_bytes(u64::from(weight.dims()[0]) * 4);
        let quantised = self.empty_as(weight.view.layout, Dtype::Int8, Category::Parameter);
        let [out_features, in_features] = [0, 1].map(|axis| weight.dims()[axis]);
        drop((beside, weight));
        EightBit {
            weight: RefCell::new(quantised),
            is_tiled: Cell::new(false),
            out_features,
            in_features,
            _scales: scales,
            finds_outliers,
            release,
        }
    }

    /// `state_dict()` of a model whose 8-bit weights are in tiles, by a release that lays them out by rows to save them.
    /// Returns the copies of the tiles that the layers are left with; the tiles are kept besides.
    pub(super) fn save_eight_bit(&self) -> Vec<Tensor<'_>> {
        let weights = self.eight_bit.borrow();
        let (copies, rows): (Vec<_>, Vec<_>) = weights
            .iter()
            .map(|dims| {
                let copy = self.tiles(*dims);
                (copy, self.undo_layout(dims))
            })
            .unzip();
        drop(rows);
        copies
    }

    /// An 8-bit weight of this shape in tiles.
    fn tiles(&self, dims: [u32; 2]) -> Tensor<'_> {
        let layout = Layout::contiguous(&dims.map(|dim| dim.next_multiple_of(TILE)));
        self.empty_as(layout, Dtype::Int8, Category::Parameter)
    }

    /// The rows of an 8-bit weight that is in tiles (`undo_layout` in `autograd/_functions.py`).
    fn undo_layout(&self, dims: &[u32]) -> Tensor<'_> {
        let untiled = self.empty(dims, Dtype::Int8);
        let rows = self.empty(dims, Dtype::Int8);
        drop(untiled);
        rows
    }
}

impl<'t> FourBit<'t> {
    /// The format of its products.
    pub(super) fn compute(&self) -> Dtype {
        self.compute
    }

    /// `dequantize_4bit` of the weight.
    pub(super) fn dequantised(&self, tape: &'t Tape) -> Tensor<'t> {
        let dims = [self.out_features, self.in_features];
        dequantised(tape, &dims, self.source, self.nested_scales)
    }

    /// Copies of the packed weight, its scales and their tables (`Params4bit.__deepcopy__` in `nn/modules.py`).
    pub(super) fn copies(&self, tape: &'t Tape) -> Vec<Tensor<'t>> {
        let (block, double_quant) = self.blocks;
        let elements = u64::from(self.out_features) * u64::from(self.in_features);
        let blocks = elements.div_ceil(block);
        let scales = match double_quant {
            true => vec![blocks, blocks.div_ceil(NESTED_BLOCK) * 4, NESTED_CODE * 4, 4],
            false => vec![blocks * 4],
        };
        let sizes = scales.into_iter().chain([CODE * 4, elements.div_ceil(2)]);
        sizes.map(|bytes| tape.bytes(bytes, Category::Temporary)).collect()
    }

    /// This layer with another weight, which is quantised.
    pub(super) fn quantised_again(&self, weight: Tensor<'t>) -> Self {
        let tape = weight.tape;
        tape.four_bit(weight, self.compute, self.blocks, self.release)
    }

    /// `Linear4bit.forward`.
    pub(super) fn forward(&self, input: &Tensor<'t>, bias: Option<&Tensor<'t>>) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = backward.tape;
            let [(input, _), (dims, source), ..] = backward.attributes.inputs;
            let bias = backward.bias_gradient(grad);
            if !backward.needs[0] {
                return [None, None, bias, None];
            }
            let weight = dequantised(tape, &dims, source, backward.attributes.nested_scales);
            let cast = weight.to(grad.dtype());
            drop(weight);
            let this = tape.product(&input, grad.dtype());
            drop(cast);
            [Some(this), None, bias, None]
        }
        // The format of the input won if products are safe in it: `Linear4bit.set_compute_type` in `nn/modules.py`.
        let compute = match input.dtype() {
            safe @ (Dtype::Float32 | Dtype::Bfloat16) if self.release.computes_in_input_format => safe,
            _ => self.compute,
        };
        let cast = input.to(compute);
        let bias = bias.map(|bias| bias.to(compute));
        let dims = [self.out_features, self.in_features];
        let tape = input.tape;
        let frozen = cast.clone().detach();
        let record = match &bias {
            Some(bias) => tape.record(&[&cast, &frozen, bias], derivative),
            None => tape.record(&[&cast], derivative),
        };
        let mut record = record.argument(1, &dims, self.source).nested_scales(self.nested_scales);
        // A bias' gradient needs no input.
        if self.release.keeps_inputs && cast.requires_grad() {
            record.keep_unseen(&cast);
        }
        let (weight, scales) = if self.release.dequantises_to_compute_dtype {
            let scales = [0, 1].map(|_| float32_scales(tape, self.nested_scales));
            (tape.empty(&dims, compute), Some(scales))
        } else {
            let weight = dequantised(tape, &dims, self.source, self.nested_scales);
            (weight.to(compute), None)
        };
        // Autocast takes part in the product within.
        let operands = (tape.autocast_to(&weight), tape.autocast_to(&frozen));
        let output = record.finish(cast.with_width(self.out_features, operands.1.dtype()));
        match bias {
            Some(_) => tape.use_cublas_lt(),
            None => tape.use_cublas(),
        }
        drop((scales, operands, weight, bias, frozen));
        output.to(input.dtype())
    }
}

impl<'t> Backward<'t> {
    /// `grad.sum(0)` in the format of the bias, which the engine brings to its shape.
    fn bias_gradient(&self, grad: &Tensor<'t>) -> Option<Tensor<'t>> {
        let (_, dtype) = self.attributes.inputs[2];
        self.needs[2].then(|| self.tape.empty(&grad.dims()[1..], dtype))
    }
}

/// A 4-bit weight in `dtype`; scales that were quantised themselves are made float32 first (`dequantize_4bit` in
/// `functional.py`).
fn dequantised<'t>(tape: &'t Tape, dims: &[u32], dtype: Dtype, nested_scales: u64) -> Tensor<'t> {
    let scales = float32_scales(tape, nested_scales);
    let weight = tape.empty(dims, dtype);
    drop(scales);
    weight
}

/// So many scales of a weight in float32, if there are any.
fn float32_scales(tape: &Tape, count: u64) -> Option<Tensor<'_>> {
    (count > 0).then(|| tape.bytes(count * 4, Category::Temporary))
}

impl<'t> EightBit<'t> {
    /// Rows and columns of the weight.
    fn dims(&self) -> [u32; 2] {
        [self.out_features, self.in_features]
    }

    /// `int8_vectorwise_dequant` of the weight.
    pub(super) fn dequantised(&self, tape: &'t Tape) -> Tensor<'t> {
        let scaled = tape.empty(&self.dims(), Dtype::Float32);
        let weight = tape.empty(&self.dims(), Dtype::Float32);
        drop(scaled);
        weight
    }

    /// This layer with another weight, which is quantised.
    pub(super) fn quantised_again(&self, weight: Tensor<'t>) -> Self {
        weight.tape.eight_bit(weight, self.finds_outliers, self.release)
    }

    /// `Linear8bitLt.forward`, no column of whose input has an outlier.
    pub(super) fn forward(&self, input: &Tensor<'t>, bias: Option<&Tensor<'t>>) -> Tensor<'t> {
        match self.release.has_tiled_int8 {
            true => self.tiled_product(input, bias),
            false => self.product(input, bias),
        }
    }

    /// The product of releases with tiles.
    fn tiled_product(&self, input: &Tensor<'t>, bias: Option<&Tensor<'t>>) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = backward.tape;
            let [(input, dtype), (weight, _), ..] = backward.attributes.inputs;
            let bias = backward.bias_gradient(grad);
            if !backward.needs[0] {
                return [None, None, bias, None];
            }
            let flat = grad.reshaped(&grad.rows_and_width());
            let [rows, width] = flat.rows_and_width();
            let half = flat.to(Dtype::Float16);
            let scales = [rows, width].map(|count| tape.empty(&[count], Dtype::Float32));
            let quantised = [0, 1].map(|_| tape.empty(&[rows, width], Dtype::Int8));
            drop(half);
            let rows = tape.undo_layout(&weight);
            let dequantised = tape.empty(&weight, dtype);
            drop(rows);
            let this = tape.empty(&input, dtype);
            drop((dequantised, quantised, scales));
            [Some(this), None, bias, None]
        }
        let tape = input.tape;
        let [rows, width] = input.rows_and_width();
        let frozen = self.weight.borrow().clone();
        let record = match bias {
            Some(bias) => tape.record(&[input, &frozen, bias], derivative),
            None => tape.record(&[input, &frozen], derivative),
        };
        let mut record = record.argument(1, &self.dims(), Dtype::Int8);
        let half = input.to(Dtype::Float16).detach();
        let scales = [rows, width].map(|count| tape.empty(&[count], Dtype::Float32));
        let counts = self.finds_outliers.then(|| {
            let [in_rows, in_columns] = COUNTED;
            let blocks = rows.next_multiple_of(in_rows) * width.div_ceil(in_columns);
            tape.empty(&[blocks + 1], Dtype::Int32)
        });
        let transposed = tape.empty(&[rows, width], Dtype::Int8);
        let quantised = tape.empty(&[rows, width], Dtype::Int8);
        drop((counts, half));
        // They take the place of the rows when the product is made.
        let tiles = (!self.is_tiled.replace(true)).then(|| tape.tiles(self.dims()));
        let tiled = tape.empty(&[rows, width.next_multiple_of(TILE)], Dtype::Int8);
        let sums = tape.empty(&[rows, self.out_features.next_multiple_of(TILE)], Dtype::Int32);
        let half = tape.empty(&[rows, self.out_features], Dtype::Float16);
        let cast = half.to(input.dtype()).detach();
        drop(half);
        // What has a batch and a length is cloned.
        let output = match input.dims().len() {
            3 => cast.like(cast.dtype()),
            _ => cast.clone(),
        };
        drop((cast, sums, tiled, quantised, scales));
        if input.requires_grad() {
            record.keep_unseen(&transposed);
            if self.release.keeps_int8_inputs {
                record.keep_unseen(input);
            }
        }
        drop(transposed);
        if let Some(tiles) = tiles {
            drop(self.weight.replace(tiles));
        }
        drop(frozen);
        record.finish(output.reshaped(&input.view.layout.dims.with_last(self.out_features)))
    }

    /// The product of releases without tiles.
    fn product(&self, input: &Tensor<'t>, bias: Option<&Tensor<'t>>) -> Tensor<'t> {
        fn derivative<'t>(backward: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            let tape = backward.tape;
            let [(input, dtype), (weight, _), ..] = backward.attributes.inputs;
            let bias = backward.bias_gradient(grad);
            if !backward.needs[0] {
                return [None, None, bias, None];
            }
            let flat = grad.reshaped(&grad.rows_and_width());
            let dequantised = tape.empty(&weight, dtype);
            let scales = tape.empty(&weight[..1], Dtype::Float32);
            drop(scales);
            let cast = flat.to(dtype);
            let this = tape.empty(&input, dtype);
            drop((dequantised, cast));
            [Some(this), None, bias, None]
        }
        let tape = input.tape;
        let weight = self.weight.borrow().clone();
        let mut record = match bias {
            Some(bias) => tape.record(&[input, &weight, bias], derivative),
            None => tape.record(&[input, &weight], derivative),
        };
        let [rows, width] = input.rows_and_width();
        let out_features = self.out_features;
        let half = input.to(Dtype::Float16).detach();
        let row_scales = tape.empty(&[rows], Dtype::Float32);
        let quantised = tape.empty(&[rows, width], Dtype::Int8);
        let outliers = self.finds_outliers.then(|| {
            let magnitude = half.like(Dtype::Float16);
            let outliers = half.like(Dtype::Bool);
            drop(magnitude);
            outliers
        });
        drop((outliers, half));
        let sums = tape.empty(&[rows, out_features], Dtype::Int32);
        let half = tape.empty(&[rows, out_features], Dtype::Float16);
        let output = half.to(input.dtype()).detach();
        drop((half, sums, quantised, row_scales));
        // Kept on the context itself, where checkpointing does not see it; not for a bias' gradient.
        if input.requires_grad() {
            record.keep_unseen(input);
        }
        record.finish(output.reshaped(&input.view.layout.dims.with_last(out_features)))
    }
}
