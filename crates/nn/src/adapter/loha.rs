//! LoHa (Hyeon-Woo et al. 2021, arXiv:2108.06098): `scale · (A₁ B₁) ∘ (A₂ B₂)` is added to the weight. As in PEFT A₁, B₁
//! and A₂ are uniform, and B₂ starts at zero.

use std::ops::Range;

use arch::ModuleName;
use base::random::{self, unit};
use candle_core::{Device, Result, Tensor as Candle};
use kernels::Element;
use kernels::hadamard::{Factors, ROWS, scratch_len};
use memory::Buffer;
use options::AdapterOptions;
use options::methods::HADA;
use rand_chacha::rand_core::RngCore;
use trace::Category;

use super::{
    change::{Change, Saved},
    interface::{Adapter, Delta, DeltaGradients},
};
use crate::{
    convert::{self, Converted},
    operand::ComputedRows,
    param::Param,
    tensor::{Tensor, floating, for_format},
};

/// LoHa's adapter of a linear layer.
#[derive(Debug)]
pub struct Loha {
    /// A₁ `[out, rank]`, B₁ `[rank, in]`, A₂ and B₂.
    factors: [Param; 4],
    scale: f64,
}

impl Loha {
    /// The adapter of a layer `[rows, columns]` before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(
        options: &AdapterOptions,
        seed: u64,
        module: ModuleName,
        (rows, columns): (usize, usize),
        device: &Device,
    ) -> Result<Self> {
        let name = module.to_string();
        let rank = options.rank_of(&name);
        let factor = |at: usize| -> Result<Param> {
            let shape = if at.is_multiple_of(2) {
                (rows, rank)
            } else {
                (rank, columns)
            };
            let bound = if at == 3 { 0.0 } else { 1.0 / (shape.1 as f32).sqrt() };
            uniform(options, seed, module, HADA[at], shape, bound, device)
        };
        Ok(Self {
            factors: [factor(0)?, factor(1)?, factor(2)?, factor(3)?],
            scale: options.scale_of(&name),
        })
    }

    fn wide(&self) -> Result<Wide<'_>> {
        let [a1, b1, a2, b2] = self.factors.each_ref().map(|factor| convert::widen(&factor.value));
        Ok(Wide {
            factors: [a1?, b1?, a2?, b2?],
            scale: self.scale as f32,
        })
    }

    /// The two products, by candle's ops.
    fn products(&self) -> Result<[Candle; 2]> {
        let [a1, b1, a2, b2] = self.factors.each_ref().map(|factor| factor.value.to_candle_f32());
        Ok([a1?.matmul(&b1?)?, a2?.matmul(&b2?)?])
    }
}

/// A factor with uniform numbers within a bound, which follow from the seed and the names.
pub(super) fn uniform(
    options: &AdapterOptions,
    seed: u64,
    module: ModuleName,
    part: &'static str,
    shape: (usize, usize),
    bound: f32,
    device: &Device,
) -> Result<Param> {
    let mut random = random::stream(seed, &format!("{module}.{part}"));
    let _scope = memory::scope(Category::Adapter);
    let value = for_format!(floating(options.dtype), E => {
        let number = |_| Element::narrow(bound * (2.0 * unit(random.next_u32()) - 1.0));
        let values = Buffer::<E>::from_fn(shape.0 * shape.1, number);
        Tensor::on_device(values, shape, device)
    })?;
    Ok(Param::adapter(module.part(part), value))
}

/// The factors in float32.
struct Wide<'a> {
    factors: [Converted<'a>; 4],
    scale: f32,
}

impl Wide<'_> {
    fn factors(&self) -> Result<Factors<'_>> {
        let [a1, b1, a2, b2] = self.factors.each_ref().map(|factor| factor.values::<f32>());
        Ok(Factors {
            values: [a1?, b1?, a2?, b2?],
            rank: self.factors[0].cols(),
            columns: self.factors[1].cols(),
            scale: self.scale,
        })
    }
}

impl ComputedRows for Wide<'_> {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        if let Ok(factors) = self.factors() {
            factors.row(row, cols.start, out);
        }
    }
}

impl Adapter for Loha {
    fn delta(&self) -> Option<&dyn Delta> {
        Some(self)
    }

    fn delta_mut(&mut self) -> Option<&mut dyn Delta> {
        Some(self)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        params.extend(&mut self.factors);
    }
}

impl Delta for Loha {
    fn rows(&self) -> Result<Box<dyn ComputedRows + '_>> {
        Ok(Box::new(self.wide()?))
    }

    fn gradients(&self) -> Result<Box<dyn DeltaGradients + '_>> {
        let zeros = |factor: &Param| Tensor::written(factor.value.shape(), |zeros: &mut [f32]| zeros.fill(0.0));
        let (rank, columns) = (self.factors[0].value.cols(), self.factors[1].value.cols());
        Ok(Box::new(Gradients {
            wide: self.wide()?,
            scratch: Buffer::unwritten(scratch_len(ROWS, columns, rank)),
            sums: self.factors.each_ref().map(zeros),
        }))
    }

    fn accumulate(&mut self, gradients: Vec<Tensor>) -> Result<()> {
        let mut pairs = self.factors.iter_mut().zip(gradients);
        pairs.try_for_each(|(factor, gradient)| factor.accumulate(gradient))
    }

    fn plain(&self) -> Result<Candle> {
        let [first, second] = self.products()?;
        (first * second)? * self.scale
    }

    fn accumulate_plain(&mut self, gradient: &Candle) -> Result<()> {
        let products = self.products()?;
        let gradient = (gradient * self.scale)?;
        for which in 0..2 {
            let inner = (&gradient * &products[1 - which])?;
            let [a, b] = [2 * which, 2 * which + 1].map(|at| self.factors[at].value.to_candle_f32());
            let (da, db) = (inner.matmul(&b?.t()?)?, a?.t()?.matmul(&inner)?);
            self.factors[2 * which].accumulate(Tensor::from_candle(da)?)?;
            self.factors[2 * which + 1].accumulate(Tensor::from_candle(db)?)?;
        }
        Ok(())
    }
}

/// The gradients of the factors.
struct Gradients<'a> {
    wide: Wide<'a>,
    scratch: Buffer<f32>,
    sums: [Tensor; 4],
}

impl DeltaGradients for Gradients<'_> {
    fn add(&mut self, first: usize, rows: &[f32]) -> Result<()> {
        let factors = self.wide.factors()?;
        let [a1, b1, a2, b2] = self.sums.each_mut().map(Tensor::values_mut::<f32>);
        let (a1, b1, a2, b2) = (a1?, b1?, a2?, b2?);
        for (at, rows) in rows.chunks(ROWS * factors.columns).enumerate() {
            let sums = [&mut *a1, &mut *b1, &mut *a2, &mut *b2];
            factors.add_gradients(first + at * ROWS, rows, self.scratch.values_mut(), sums);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<Tensor> {
        self.sums.into()
    }
}

/// W with the product added.
pub(super) struct Added<'a>(Factors<'a>);

impl<'a> Added<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Self {
        Self(Factors {
            values: HADA.map(|part| saved.values(part)),
            rank: saved.shape(HADA[1]).first().copied().unwrap_or(0),
            columns: saved.columns,
            scale: saved.options.scale_of(saved.module) as f32,
        })
    }
}

impl Change for Added<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        let mut added = vec![0f32; columns];
        for (row, values) in rows.zip(values.chunks_mut(columns)) {
            self.0.row(row, 0, &mut added);
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
        for (rows, columns) in [(20, 33), (70, 300)] {
            let options = AdapterOptions::of_rank(AdapterMethod::Loha(options::Loha::default()), 3);
            let make = || {
                let mut loha = Loha::new(&options, 7, ModuleName::new("w"), (rows, columns), &Device::Cpu).unwrap();
                let dims = loha.factors[3].value.dims().to_vec();
                loha.factors[3].set(tensor(&numbers("b2", &dims)));
                loha
            };
            assert_delta(make, (rows, columns), |params| {
                let product = |at: usize| params[at].matmul(&params[at + 1]).unwrap();
                ((product(0) * product(2)).unwrap() * (8.0 / 3.0)).unwrap()
            });
        }
    }
}
