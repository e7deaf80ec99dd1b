//! LoKr (Yeh et al. 2023, arXiv:2309.14859): `scale · W₁ ⊗ W₂` is added to the weight. Either matrix may be a product of
//! two factors. As in PEFT the first one starts at zero, the second one is uniform.

use std::ops::Range;

use arch::ModuleName;
use candle_core::{Device, Result, Tensor as Candle};
use kernels::kronecker::Matrices;
use memory::Buffer;
use options::methods::{LOKR_W1, LOKR_W2};
use options::{AdapterOptions, Lokr as Options};

use super::{
    change::{Change, Saved},
    interface::{Adapter, Delta, DeltaGradients},
    loha::uniform,
};
use crate::{convert, operand::ComputedRows, param::Param, tensor::Tensor};

/// LoKr's adapter of a linear layer.
#[derive(Debug)]
pub struct Lokr {
    first: Matrix,
    second: Matrix,
    scale: f64,
}

/// One of the two matrices.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a layer has two of them")]
enum Matrix {
    Whole(Param),
    /// A product of `[rows, rank]` and `[rank, columns]`.
    Product(Param, Param),
}

impl Matrix {
    fn params(&mut self) -> Vec<&mut Param> {
        match self {
            Self::Whole(param) => vec![param],
            Self::Product(a, b) => vec![a, b],
        }
    }

    fn shape(&self) -> [usize; 2] {
        match self {
            Self::Whole(param) => [param.value.rows(), param.value.cols()],
            Self::Product(a, b) => [a.value.rows(), b.value.cols()],
        }
    }

    /// The elements in float32.
    fn values(&self) -> Result<Buffer<f32>> {
        let [rows, columns] = self.shape();
        let mut values = Buffer::<f32>::unwritten(rows * columns);
        match self {
            Self::Whole(param) => {
                let wide = convert::widen(&param.value)?;
                if !memory::is_dry_run() {
                    values.values_mut().copy_from_slice(wide.values::<f32>()?);
                }
            }
            Self::Product(a, b) => {
                let (a, b) = (convert::widen(&a.value)?, convert::widen(&b.value)?);
                if !memory::is_dry_run() {
                    product(
                        (a.values::<f32>()?, a.cols()),
                        (b.values::<f32>()?, columns),
                        values.values_mut(),
                    );
                }
            }
        }
        Ok(values)
    }

    /// Adds the gradients of what is trained, given that of the matrix.
    fn accumulate(&mut self, gradient: Tensor) -> Result<()> {
        let (a, b) = match self {
            Self::Whole(param) => return param.accumulate(gradient),
            Self::Product(a, b) => (a, b),
        };
        let [wide_a, wide_b] = [convert::widen(&a.value)?, convert::widen(&b.value)?];
        let (rows, rank, columns) = (wide_a.rows(), wide_a.cols(), wide_b.cols());
        let of = gradient.values::<f32>()?;
        let (in_a, in_b) = (wide_a.values::<f32>()?, wide_b.values::<f32>()?);
        let da = Tensor::written((rows, rank), |da: &mut [f32]| {
            for (da, of) in da.chunks_mut(rank).zip(of.chunks(columns)) {
                for (da, b) in da.iter_mut().zip(in_b.chunks(columns)) {
                    *da = of.iter().zip(b).map(|(x, y)| x * y).sum();
                }
            }
        });
        let db = Tensor::written((rank, columns), |db: &mut [f32]| {
            db.fill(0.0);
            for (a, of) in in_a.chunks(rank).zip(of.chunks(columns)) {
                for (a, db) in a.iter().zip(db.chunks_mut(columns)) {
                    db.iter_mut().zip(of).for_each(|(sum, value)| *sum += a * value);
                }
            }
        });
        drop((wide_a, wide_b));
        a.accumulate(da)?;
        b.accumulate(db)
    }

    fn plain(&self) -> Result<Candle> {
        match self {
            Self::Whole(param) => param.value.to_candle_f32(),
            Self::Product(a, b) => a.value.to_candle_f32()?.matmul(&b.value.to_candle_f32()?),
        }
    }

    fn accumulate_plain(&mut self, gradient: &Candle) -> Result<()> {
        match self {
            Self::Whole(param) => param.accumulate(Tensor::from_candle(gradient.clone())?),
            Self::Product(a, b) => {
                let da = gradient.matmul(&b.value.to_candle_f32()?.t()?)?;
                let db = a.value.to_candle_f32()?.t()?.matmul(gradient)?;
                a.accumulate(Tensor::from_candle(da)?)?;
                b.accumulate(Tensor::from_candle(db)?)
            }
        }
    }
}

/// The product of two small matrices, given with their columns.
fn product((a, rank): (&[f32], usize), (b, columns): (&[f32], usize), out: &mut [f32]) {
    for (a, out) in a.chunks(rank).zip(out.chunks_mut(columns)) {
        out.fill(0.0);
        for (a, b) in a.iter().zip(b.chunks(columns)) {
            out.iter_mut().zip(b).for_each(|(sum, value)| *sum += a * value);
        }
    }
}

impl Lokr {
    /// The adapter of a layer before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(
        lokr: &Options,
        options: &AdapterOptions,
        seed: u64,
        module: ModuleName,
        (rows, columns): (usize, usize),
        device: &Device,
    ) -> Result<Self> {
        let name = module.to_string();
        let shape = lokr.shape(options.rank_of(&name), rows, columns);
        let factor = |part: &'static str, [rows, columns]: [usize; 2], is_zero: bool| {
            let bound = if is_zero { 0.0 } else { 1.0 / (columns as f32).sqrt() };
            uniform(options, seed, module, part, (rows, columns), bound, device)
        };
        let matrix = |parts: [&'static str; 3], [rows, columns]: [usize; 2], rank: Option<usize>, is_zero: bool| {
            Ok::<_, candle_core::Error>(match rank {
                None => Matrix::Whole(factor(parts[0], [rows, columns], is_zero)?),
                Some(rank) => Matrix::Product(
                    factor(parts[1], [rows, rank], is_zero)?,
                    factor(parts[2], [rank, columns], false)?,
                ),
            })
        };
        Ok(Self {
            first: matrix(LOKR_W1, shape.first, shape.first_rank, true)?,
            second: matrix(LOKR_W2, shape.second, shape.second_rank, false)?,
            scale: options.scale_of(&name),
        })
    }

    fn values(&self) -> Result<Values> {
        Ok(Values {
            first: self.first.values()?,
            second: self.second.values()?,
            first_columns: self.first.shape()[1],
            second_shape: self.second.shape(),
            scale: self.scale as f32,
        })
    }
}

/// The two matrices in float32.
struct Values {
    first: Buffer<f32>,
    second: Buffer<f32>,
    first_columns: usize,
    second_shape: [usize; 2],
    scale: f32,
}

impl Values {
    fn matrices(&self) -> Matrices<'_> {
        Matrices {
            first: self.first.values(),
            second: self.second.values(),
            first_columns: self.first_columns,
            second_shape: self.second_shape,
            scale: self.scale,
        }
    }
}

impl ComputedRows for Values {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        self.matrices().row(row, cols.start, out);
    }
}

impl Adapter for Lokr {
    fn delta(&self) -> Option<&dyn Delta> {
        Some(self)
    }

    fn delta_mut(&mut self) -> Option<&mut dyn Delta> {
        Some(self)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        params.extend(self.first.params());
        params.extend(self.second.params());
    }
}

impl Delta for Lokr {
    fn rows(&self) -> Result<Box<dyn ComputedRows + '_>> {
        Ok(Box::new(self.values()?))
    }

    fn gradients(&self) -> Result<Box<dyn DeltaGradients + '_>> {
        let shapes = [self.first.shape(), self.second.shape()];
        let zeros = |[rows, columns]: [usize; 2]| Tensor::written((rows, columns), |zeros: &mut [f32]| zeros.fill(0.0));
        Ok(Box::new(Gradients {
            values: self.values()?,
            sums: shapes.map(zeros),
        }))
    }

    fn accumulate(&mut self, gradients: Vec<Tensor>) -> Result<()> {
        let mut pairs = [&mut self.first, &mut self.second].into_iter().zip(gradients);
        pairs.try_for_each(|(matrix, gradient)| matrix.accumulate(gradient))
    }

    fn plain(&self) -> Result<Candle> {
        let ([l, m], [k, n]) = (self.first.shape(), self.second.shape());
        let first = self.first.plain()?.reshape((l, 1, m, 1))?;
        let second = self.second.plain()?.reshape((1, k, 1, n))?;
        first.broadcast_mul(&second)?.reshape((l * k, m * n))? * self.scale
    }

    fn accumulate_plain(&mut self, gradient: &Candle) -> Result<()> {
        let ([l, m], [k, n]) = (self.first.shape(), self.second.shape());
        let gradient = (gradient.reshape((l, k, m, n))? * self.scale)?;
        let first = self.first.plain()?.reshape((l, 1, m, 1))?;
        let second = self.second.plain()?.reshape((1, k, 1, n))?;
        let d_first = gradient.broadcast_mul(&second)?.sum((1, 3))?;
        let d_second = gradient.broadcast_mul(&first)?.sum((0, 2))?;
        self.first.accumulate_plain(&d_first)?;
        self.second.accumulate_plain(&d_second)
    }
}

/// The gradients of the matrices.
struct Gradients {
    values: Values,
    sums: [Tensor; 2],
}

impl DeltaGradients for Gradients {
    fn add(&mut self, first: usize, rows: &[f32]) -> Result<()> {
        if !rows.is_empty() {
            let [d_first, d_second] = self.sums.each_mut().map(Tensor::values_mut::<f32>);
            self.values.matrices().add_gradients(first, rows, d_first?, d_second?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Tensor> {
        self.sums.into()
    }
}

/// W with the product added.
pub(super) struct Added(Values);

impl Added {
    pub(super) fn of(saved: &Saved<'_>) -> Self {
        let matrix = |parts: [&str; 3]| match saved.shape(parts[0]) {
            &[rows, columns] => ([rows, columns], Buffer::from(saved.values(parts[0]).to_vec())),
            _ => {
                let shape = |part: &str, at: usize| saved.shape(part).get(at).copied().unwrap_or(0);
                let (rows, rank, columns) = (shape(parts[1], 0), shape(parts[1], 1), shape(parts[2], 1));
                let mut values = vec![0f32; rows * columns];
                product(
                    (saved.values(parts[1]), rank.max(1)),
                    (saved.values(parts[2]), columns.max(1)),
                    &mut values,
                );
                ([rows, columns], Buffer::from(values))
            }
        };
        let (first, second) = (matrix(LOKR_W1), matrix(LOKR_W2));
        Self(Values {
            first: first.1,
            second: second.1,
            first_columns: first.0[1],
            second_shape: second.0,
            scale: saved.options.scale_of(saved.module) as f32,
        })
    }
}

impl Change for Added {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        let mut added = vec![0f32; columns];
        for (row, values) in rows.zip(values.chunks_mut(columns)) {
            self.0.matrices().row(row, 0, &mut added);
            values.iter_mut().zip(&added).for_each(|(value, added)| *value += added);
        }
    }
}

#[cfg(test)]
mod tests {
    use options::AdapterMethod;

    use super::*;
    use crate::testing::{assert_delta, tensor, uniform as numbers};

    #[test]
    fn the_kernels_are_plain_ops_and_the_gradients_autograds() {
        for (decompose_both, rank) in [(false, 2), (true, 1), (false, 100)] {
            let (rows, columns) = (40, 66);
            let own = Options {
                decompose_both,
                ..Options::default()
            };
            let options = AdapterOptions::of_rank(AdapterMethod::Lokr(own.clone()), rank);
            let make = || {
                let mut lokr =
                    Lokr::new(&own, &options, 7, ModuleName::new("w"), (rows, columns), &Device::Cpu).unwrap();
                let first = lokr.first.params().remove(0);
                let dims = first.value.dims().to_vec();
                first.set(tensor(&numbers("w1", &dims)));
                lokr
            };
            assert_delta(make, (rows, columns), |params| {
                let matrix = |part: &[Candle]| match part {
                    [whole] => whole.clone(),
                    factors => factors[0].matmul(&factors[1]).unwrap(),
                };
                let cut = if decompose_both { 2 } else { 1 };
                let (first, second) = (matrix(&params[..cut]), matrix(&params[cut..]));
                let ((l, m), (k, n)) = (first.dims2().unwrap(), second.dims2().unwrap());
                let first = first.reshape((l, 1, m, 1)).unwrap();
                let second = second.reshape((1, k, 1, n)).unwrap();
                let product = first.broadcast_mul(&second).unwrap().reshape((rows, columns)).unwrap();
                (product * (8.0 / rank as f64)).unwrap()
            });
        }
    }
}
