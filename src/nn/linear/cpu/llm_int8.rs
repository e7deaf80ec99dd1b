//! LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339): products of int8 weights with inputs that are quantised by rows.

use candle_core::Result;

use crate::kernels::{
    gemm::{OperandReader, operand::Number},
    int8::{self, MAX_COLUMNS, Matrix},
};
use crate::memory::{self, Buffer};
use crate::nn::{
    linear::{cut::Cut, layer::Linear},
    tensor::{Tensor, for_format},
    weight::Weight,
};
use crate::quant::Quantized;

/// The integer part of some outputs.
pub(super) struct IntegerProducts {
    /// The sums of each output in float32, `[tokens, width]`.
    pub(super) sums: Vec<Buffer<f32>>,
    /// The inputs that they leave out, in ascending order.
    pub(super) outliers: Vec<usize>,
}

impl IntegerProducts {
    /// The outputs `cuts` of layers that share the input `x`; `None` if it is not quantised.
    pub(super) fn of(linears: &[Linear], cuts: impl Iterator<Item = Cut> + Clone, x: &Tensor) -> Result<Option<Self>> {
        let Some(threshold) = linears[0].weight.outlier_threshold() else {
            return Ok(None);
        };
        let (tokens, columns) = (x.rows(), x.cols());
        if columns > MAX_COLUMNS {
            candle_core::bail!("llm_int8_threshold: sums of {columns} products of int8 can overflow");
        }
        let sums = cuts.clone().map(|cut| Buffer::unwritten(tokens * cut.width));
        let mut sums: Vec<Buffer<f32>> = sums.collect();
        let (mut codes, mut scales) = (Buffer::<i8>::unwritten(x.len()), Buffer::<f32>::unwritten(tokens));
        if memory::is_dry_run() {
            return Ok(Some(Self {
                sums,
                outliers: Vec::new(),
            }));
        }
        let outliers = for_format!(x.dtype(), E => {
            let (codes, scales) = (codes.values_mut(), scales.values_mut());
            Ok(int8::quantize_activations(x.values::<E>()?, columns, threshold, codes, scales))
        })?;
        let left = Matrix {
            codes: codes.values(),
            scales: scales.values(),
            columns,
        };
        for (cut, sums) in cuts.zip(&mut sums) {
            int8::product(left, right(&linears[cut.linear], cut)?, sums.values_mut());
        }
        Ok(Some(Self { sums, outliers }))
    }
}

/// The rows of a layer's weight that belong to a cut.
fn right(linear: &Linear, cut: Cut) -> Result<Matrix<'_>> {
    let Weight::Quantized {
        matrix: Quantized::Int8(matrix),
        ..
    } = &linear.weight
    else {
        candle_core::bail!("layers that share an input have weights of one format");
    };
    let columns = matrix.cols();
    Ok(Matrix {
        codes: &matrix.codes()[cut.first * columns..][..cut.width * columns],
        scales: &matrix.scales()[cut.first..][..cut.width],
        columns,
    })
}

/// A matrix of zeros: the operand of a product without another.
pub(super) struct Zeros;

impl<P: Number> OperandReader<P> for Zeros {
    fn row<'a>(&'a self, _: usize, _: std::ops::Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        buffer.fill(P::ZERO);
        buffer
    }
}
