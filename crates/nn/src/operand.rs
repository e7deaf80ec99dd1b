//! What the products of a linear layer are taken of: tensors, and weights in few bits.

use std::ops::Range;

use candle_core::{DType, Result};
use half::{bf16, f16};
use kernels::Dispatch as _;
use kernels::{
    Element, InstructionSet,
    gemm::{
        OperandReader,
        multiply::Multiply,
        operand::{Number, ROWS_AHEAD, prefetch},
    },
};
use quant::Quantized;

use super::{
    tensor::{Data, Tensor},
    weight::Weight,
};

/// The elements of a tensor in their format.
#[derive(Clone, Copy)]
enum Elements<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

/// A matrix of activations or dense weights, from one of its rows and columns on.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    elements: Elements<'a>,
    /// The first element.
    start: usize,
    /// Elements from one row to the next.
    stride: usize,
}

impl<'a> Matrix<'a> {
    /// # Errors
    /// If the elements are candle's.
    pub(super) fn new(tensor: &'a Tensor) -> Result<Self> {
        let elements = match tensor.data() {
            Data::F32(values) => Elements::F32(values.values()),
            Data::F16(values) => Elements::F16(values.values()),
            Data::Bf16(values) => Elements::Bf16(values.values()),
            Data::Candle(_) => candle_core::bail!("a kernel was given a tensor of candle's: {tensor:?}"),
        };
        Ok(Self {
            elements,
            start: 0,
            stride: tensor.cols(),
        })
    }

    /// This matrix without its first columns.
    pub(super) fn skip_columns(mut self, columns: usize) -> Self {
        self.start += columns;
        self
    }

    /// Element `at` from the start on.
    pub(super) fn value(&self, at: usize) -> f32 {
        match self.elements {
            Elements::F32(values) => values[self.start + at],
            Elements::F16(values) => values[self.start + at].widen(),
            Elements::Bf16(values) => values[self.start + at].widen(),
        }
    }

    /// The matrix without its first rows.
    pub(super) fn skip_rows(mut self, rows: usize) -> Self {
        self.start += rows * self.stride;
        self
    }

    /// The elements of a row in float32.
    pub(super) fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        let at = self.range(row, cols);
        match self.elements {
            Elements::F32(values) => out.copy_from_slice(&values[at]),
            Elements::F16(values) => kernels::convert::widen(&values[at], out),
            Elements::Bf16(values) => kernels::convert::widen(&values[at], out),
        }
    }

    fn range(&self, row: usize, cols: Range<usize>) -> Range<usize> {
        let start = self.start + row * self.stride;
        start + cols.start..start + cols.end
    }
}

impl<P: Multiply> OperandReader<P> for Matrix<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        let at = self.range(row, cols);
        match self.elements {
            Elements::F32(values) => P::read(&values[at], buffer),
            Elements::F16(values) => P::read(&values[at], buffer),
            Elements::Bf16(values) => P::read(&values[at], buffer),
        }
    }

    fn lend(&self) -> Option<(&[P], usize)> {
        let values = match self.elements {
            Elements::F32(values) => P::lend(&values[self.start..]),
            Elements::F16(values) => P::lend(&values[self.start..]),
            Elements::Bf16(values) => P::lend(&values[self.start..]),
        };
        values.map(|values| (values, self.stride))
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        let at = self.range(row, cols);
        match self.elements {
            Elements::F32(values) => prefetch(&values[at]),
            Elements::F16(values) => prefetch(&values[at]),
            Elements::Bf16(values) => prefetch(&values[at]),
        }
    }
}

/// A matrix that is computed as it is read.
pub trait ComputedRows: Sync {
    /// Writes elements of a row.
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]);

    /// Asks for the cache lines that elements of a row are computed from.
    fn prefetch(&self, row: usize, cols: Range<usize>) {
        let _ = (row, cols);
    }
}

/// A matrix as it is stored.
pub(super) enum Stored<'a> {
    Dense(Matrix<'a>),
    Quantized {
        matrix: &'a Quantized,
        /// The row of the matrix that is row 0 here.
        first: usize,
        /// The format that values are rounded to.
        products: DType,
    },
    Computed(Box<dyn ComputedRows + 'a>),
}

impl<'a> Stored<'a> {
    pub(super) fn tensor(tensor: &'a Tensor) -> Result<Self> {
        Matrix::new(tensor).map(Self::Dense)
    }

    /// The rows of a weight from `first` on.
    pub(super) fn weight(weight: &'a Weight, first: usize) -> Result<Self> {
        match weight {
            Weight::Dense(param) => Ok(Self::Dense(Matrix::new(&param.value)?.skip_rows(first))),
            Weight::Quantized { matrix, products } => Ok(Self::Quantized {
                matrix,
                first,
                products: *products,
            }),
            Weight::OnDevice { .. } => candle_core::bail!("a CPU kernel was given a weight of another device"),
        }
    }
}

impl Stored<'_> {
    /// Asks for the cache lines that a part of a row is made of.
    fn ask_for(&self, row: usize, cols: Range<usize>) {
        match self {
            Self::Dense(matrix) => OperandReader::<f32>::prefetch(matrix, row, cols),
            Self::Quantized { matrix, first, .. } => {
                let start = (first + row) * matrix.cols();
                matrix.prefetch(start + cols.start..start + cols.end);
            }
            Self::Computed(rows) => rows.prefetch(row, cols),
        }
    }

    /// How many rows ahead it is asked for. Memory takes longer to answer than 8 rows of few bits take to be
    /// dequantised.
    fn ahead(&self) -> usize {
        match self {
            Self::Quantized { .. } => 32,
            _ => ROWS_AHEAD,
        }
    }
}

/// Elements of a row of a computed matrix, in the format of a product.
fn fill<P: Number>(rows: &dyn ComputedRows, row: usize, cols: Range<usize>, buffer: &mut [P]) {
    const CHUNK: usize = 128;
    let mut values = [0f32; CHUNK];
    for (at, out) in buffer.chunks_mut(CHUNK).enumerate() {
        let start = cols.start + at * CHUNK;
        let values = &mut values[..out.len()];
        rows.fill(row, start..start + out.len(), values);
        kernels::convert::narrow(values, out);
    }
}

/// Some columns of a matrix.
pub(super) struct Gathered<'a> {
    pub(super) matrix: &'a Stored<'a>,
    pub(super) columns: &'a [usize],
}

impl<P: Number> OperandReader<P> for Gathered<'_>
where
    for<'a> Stored<'a>: OperandReader<P>,
{
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        for (value, column) in buffer.iter_mut().zip(&self.columns[cols]) {
            let mut one = [P::ZERO];
            *value = self.matrix.row(row, *column..column + 1, &mut one)[0];
        }
        buffer
    }
}

impl OperandReader<bf16> for Stored<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [bf16]) -> &'a [bf16] {
        match self {
            Self::Dense(matrix) => matrix.row(row, cols, buffer),
            Self::Quantized { matrix, first, .. } => {
                matrix.dequantize_serial((first + row) * matrix.cols() + cols.start, buffer);
                buffer
            }
            Self::Computed(rows) => {
                fill(&**rows, row, cols, buffer);
                buffer
            }
        }
    }

    fn lend(&self) -> Option<(&[bf16], usize)> {
        match self {
            Self::Dense(matrix) => matrix.lend(),
            _ => None,
        }
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        self.ask_for(row, cols);
    }

    fn rows_ahead(&self) -> usize {
        self.ahead()
    }
}

/// Quantised values are rounded here too, to the format that bitsandbytes computes their products from
/// (`bnb_4bit_compute_dtype`).
impl OperandReader<f32> for Stored<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [f32]) -> &'a [f32] {
        match self {
            Self::Dense(matrix) => matrix.row(row, cols, buffer),
            Self::Quantized {
                matrix,
                first,
                products,
            } => {
                matrix.dequantize_serial((first + row) * matrix.cols() + cols.start, buffer);
                match products {
                    DType::F32 => {}
                    DType::F16 => round::<f16>(buffer),
                    _ => round::<bf16>(buffer),
                }
                buffer
            }
            Self::Computed(rows) => {
                rows.fill(row, cols, buffer);
                buffer
            }
        }
    }

    fn lend(&self) -> Option<(&[f32], usize)> {
        match self {
            Self::Dense(matrix) => matrix.lend(),
            _ => None,
        }
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        self.ask_for(row, cols);
    }

    fn rows_ahead(&self) -> usize {
        self.ahead()
    }
}

fn round<E: Element>(values: &mut [f32]) {
    InstructionSet::current().run(
        #[inline(always)]
        || {
            for value in values {
                *value = E::narrow(*value).widen();
            }
        },
    );
}

/// Matrices of as many columns, one below the other.
pub(super) struct Stack<'a> {
    first: (usize, Stored<'a>),
    others: Vec<(usize, Stored<'a>)>,
}

impl<'a> Stack<'a> {
    /// Takes each matrix with its number of rows; `None` without any.
    pub(super) fn new(parts: Vec<(usize, Stored<'a>)>) -> Option<Self> {
        let mut parts = parts.into_iter();
        Some(Self {
            first: parts.next()?,
            others: parts.collect(),
        })
    }

    /// The matrix that has a row, and which of its own it is.
    fn part(&self, mut row: usize) -> (&Stored<'a>, usize) {
        let (mut rows, mut part) = (self.first.0, &self.first.1);
        for (next_rows, next) in &self.others {
            if row < rows {
                break;
            }
            row -= rows;
            (rows, part) = (*next_rows, next);
        }
        (part, row)
    }
}

impl<P: Number> OperandReader<P> for Stack<'_>
where
    for<'s> Stored<'s>: OperandReader<P>,
{
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        let (part, row) = self.part(row);
        part.row(row, cols, buffer)
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        let (part, row) = self.part(row);
        part.ask_for(row, cols);
    }
}

#[cfg(test)]
mod tests {
    use quant::{Builder, Format};

    use super::*;
    use crate::testing::{tensor, uniform};

    /// The elements of some columns of a row.
    fn row<P: Number>(source: &dyn OperandReader<P>, row: usize, cols: Range<usize>) -> Vec<f32> {
        let mut buffer = vec![P::ZERO; cols.len()];
        source
            .row(row, cols, &mut buffer)
            .iter()
            .map(|value| value.widen())
            .collect()
    }

    fn values(shape: [usize; 2]) -> (Tensor, Vec<Vec<f32>>) {
        let x = uniform("x", &shape);
        (tensor(&x), x.to_vec2().unwrap())
    }

    #[test]
    fn a_matrix_is_read_past_skipped_rows_and_columns() {
        let (x, rows) = values([7, 5]);
        let part = Matrix::new(&x).unwrap().skip_rows(2).skip_columns(1);
        assert_eq!(row::<f32>(&part, 3, 1..3), rows[5][2..4]);
        let rounded = rows[5][2..4].iter().map(|value| bf16::from_f32(*value).to_f32());
        assert_eq!(row::<bf16>(&part, 3, 1..3), rounded.collect::<Vec<_>>());
        let (lent, stride) = OperandReader::<f32>::lend(&part).unwrap();
        assert_eq!((lent[3 * stride + 1], stride), (rows[5][2], 5));
        assert!(OperandReader::<bf16>::lend(&part).is_none());
        let candle = Tensor::from_candle(x.to_candle().unwrap()).unwrap();
        assert!(Matrix::new(&candle).is_err());
    }

    #[test]
    fn quantised_rows_are_those_of_the_matrix_rounded() {
        let (_, rows) = values([6, 65]);
        for format in [Format::nf4(true), Format::Int8] {
            let mut read = Vec::new();
            for products in [DType::BF16, DType::F16, DType::F32] {
                let mut builder = Builder::new(format, 6, 65);
                builder.push(&rows.concat()).unwrap();
                let matrix = builder.finish().unwrap();
                let weight = Weight::Quantized { matrix, products };
                let part = Stored::weight(&weight, 2).unwrap();
                let want: Vec<f32> = weight.rows_f32(5..6).unwrap().flatten_all().unwrap().to_vec1().unwrap();
                assert_eq!(row::<f32>(&part, 3, 1..65), want[1..]);
                if products == DType::BF16 {
                    assert_eq!(row::<bf16>(&part, 3, 1..65), want[1..]);
                }
                read.push(want);
            }
            assert!(read[0] != read[1] && read[1] != read[2], "each format rounds otherwise");
        }
    }

    #[test]
    fn stacked_matrices_are_one_below_the_other() {
        let (x, rows) = values([7, 5]);
        let below = |first, count| (count, Stored::Dense(Matrix::new(&x).unwrap().skip_rows(first)));
        let stack = Stack::new(vec![below(4, 2), below(0, 1), below(5, 2)]).unwrap();
        let read: Vec<Vec<f32>> = (0..5).map(|at| row::<f32>(&stack, at, 0..5)).collect();
        assert_eq!(read, [4, 5, 0, 5, 6].map(|at| rows[at].clone()));
    }
}
