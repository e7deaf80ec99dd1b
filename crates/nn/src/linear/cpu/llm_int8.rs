//! LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339): products of int8 weights with inputs that are quantised by
//! rows.

use candle_core::Result;
use kernels::{
    gemm::{Epilogue, OperandReader, operand::Number},
    int8::{self, MAX_COLUMNS, Matrix, Onto},
};
use memory::Buffer;
use quant::Quantized;

use crate::{
    linear::{cut::Cut, layer::Linear},
    tensor::{Tensor, for_format},
    weight::Weight,
};

/// An input in codes of 8 bits.
pub(super) struct QuantizedInput {
    codes: Buffer<i8>,
    /// The scale of each row.
    scales: Buffer<f32>,
    /// The columns that the codes leave out, in ascending order.
    pub(super) outliers: Vec<usize>,
}

impl QuantizedInput {
    /// The input `x` that these layers share; `None` if they do not quantise it.
    pub(super) fn of(linears: &[Linear], x: &Tensor) -> Result<Option<Self>> {
        let Some(threshold) = linears[0].weight.outlier_threshold() else {
            return Ok(None);
        };
        let columns = x.cols();
        if columns > MAX_COLUMNS {
            candle_core::bail!("llm_int8_threshold: sums of {columns} products of int8 can overflow");
        }
        let (mut codes, mut scales) = (Buffer::<i8>::unwritten(x.len()), Buffer::<f32>::unwritten(x.rows()));
        let mut outliers = Vec::new();
        if !memory::is_dry_run() {
            outliers = for_format!(x.dtype(), E => {
                let (codes, scales) = (codes.values_mut(), scales.values_mut());
                Ok(int8::quantize_activations(x.values::<E>()?, columns, threshold, codes, scales))
            })?;
        }
        Ok(Some(Self {
            codes,
            scales,
            outliers,
        }))
    }

    /// Adds the product with a cut of a layer's weight to what `then` gets.
    pub(super) fn onto<'a>(&'a self, linear: &'a Linear, cut: Cut, then: &'a dyn Epilogue) -> Result<Onto<'a>> {
        let right = right(linear, cut)?;
        let left = Matrix {
            codes: self.codes.values(),
            scales: self.scales.values(),
            columns: right.columns,
        };
        Ok(Onto::new(left, right, then))
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
