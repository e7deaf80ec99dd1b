//! VeRA (Kopiczko et al. 2023, arXiv:2310.11454): two frozen random factors that all layers share, and two trained
//! vectors of each layer: `λb ∘ (B (λd ∘ (A x)))`. As in PEFT λb starts at zero.

use std::ops::Range;
use std::sync::Arc;

use arch::ModuleName;
use candle_core::{Device, Result};
use kernels::Element;
use memory::Buffer;
use options::{AdapterOptions, Vera};
use trace::Category;

use super::{
    change::{Change, Saved, add_product},
    down::Down,
    low_rank::LowRank,
    shared::SharedFactors,
    up::Up,
};
use crate::{
    dropout::Dropout,
    param::Param,
    tensor::{Tensor, floating, for_format},
};

/// W + B A of the factors that layers share, with a factor for each column of B and for each row.
pub(super) struct Scaled<'a> {
    /// With the factors of B's columns.
    a: Vec<f32>,
    b: &'a [f32],
    of_rows: &'a [f32],
}

impl<'a> Scaled<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Option<Self> {
        let [a, b] = saved.shared?;
        let rows = a.values.chunks(a.shape[1]).zip(saved.values(options::methods::VERA_D));
        let scaled = rows.flat_map(|(row, factor)| row[..saved.columns].iter().map(move |value| factor * value));
        Some(Self {
            a: scaled.collect(),
            b: &b.values,
            of_rows: saved.values(options::methods::VERA_B),
        })
    }
}

impl Change for Scaled<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        let rank = self.a.len() / columns;
        let of_b = self.b[rows.start * rank..rows.end * rank].chunks(rank);
        let of_b = of_b.zip(&self.of_rows[rows.clone()]);
        let b: Vec<f32> = of_b
            .flat_map(|(row, factor)| row.iter().map(move |value| factor * value))
            .collect();
        add_product(values, columns, 0..rows.len(), 1.0, (&b, &self.a));
    }
}

impl LowRank {
    /// VeRA's term of a layer with so many outputs before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn vera(
        vera: &Vera,
        options: &AdapterOptions,
        shared: Arc<SharedFactors>,
        seed: u64,
        module: ModuleName,
        outputs: usize,
        device: &Device,
    ) -> Result<Self> {
        let dropout = Dropout::new(seed, module, vera.vera_dropout);
        let _scope = memory::scope(Category::Adapter);
        let vector = |len: usize, value: f64| {
            for_format!(floating(options.dtype), E => {
                let values = Buffer::<E>::from_fn(len, |_| Element::narrow(value as f32));
                Tensor::on_device(values, len, device)
            })
        };
        let of_rows = Param::adapter(module.part(options::methods::VERA_B), vector(outputs, 0.0)?);
        let of_columns = Param::adapter(
            module.part(options::methods::VERA_D),
            vector(options.rank, vera.d_initial)?,
        );
        Ok(Self {
            down: Down::Shared(Arc::clone(&shared)),
            up: Up::Scaled {
                shared,
                of_rows,
                of_columns,
            },
            scale: 1.0,
            dropout,
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;
    use options::{AdapterMethod, Dtype};

    use super::*;
    use crate::{
        adapter::Adapter,
        linear::{Linear, Projection},
        testing::{
            assert_close, autograd, biased, dropout_pass, pass, take_gradients, tensor, uniform, values_of,
            with_plain_ops,
        },
    };

    const INPUTS: usize = 33;
    const WIDTHS: [usize; 2] = [40, 9];
    const RANK: usize = 5;

    /// The factors, with more rows and columns than the layer needs.
    fn shared() -> SharedFactors {
        SharedFactors::new(3, RANK, (64, 40), Dtype::Float32, &Device::Cpu).unwrap()
    }

    /// A fused layer with vectors that are not those of the start.
    fn layer(dropout: f64) -> Projection<2> {
        let outputs = WIDTHS.iter().sum();
        let own = Vera {
            vera_dropout: dropout,
            ..Vera::default()
        };
        let options = AdapterOptions::of_rank(AdapterMethod::Vera(own.clone()), RANK);
        let (shared, name) = (Arc::new(shared()), ModuleName::new("qk"));
        let mut vera = LowRank::vera(&own, &options, shared, 7, name, outputs, &Device::Cpu).unwrap();
        let mut params = Vec::new();
        vera.params(&mut params);
        for (param, values) in params.into_iter().zip(["b", "d"]) {
            param.set(tensor(&uniform(values, param.value.dims())));
        }
        let linear = Linear {
            adapter: Some(Box::new(vera)),
            ..biased("qk", outputs, INPUTS, 0, false)
        };
        Projection::new(vec![linear], WIDTHS)
    }

    /// Outputs, the gradient of the input, and those of the vectors.
    fn results(mut layer: Projection<2>, x: &Candle, dy: &Candle, pass: &crate::Pass) -> Vec<Candle> {
        let starts = [0, WIDTHS[0]];
        let dys = [0, 1].map(|at| tensor(&dy.narrow(1, starts[at], WIDTHS[at]).unwrap()));
        let x = tensor(x);
        let ys = layer.forward(&x, pass).unwrap().map(|y| y.to_candle().unwrap());
        let dx = layer.backward(&x, dys.each_ref(), pass).unwrap();
        let mut results = vec![Candle::cat(&ys, 1).unwrap(), dx.to_candle().unwrap()];
        results.extend(take_gradients(&mut layer));
        results
    }

    #[test]
    fn the_shared_factors_are_scaled_by_the_vectors() {
        let outputs: usize = WIDTHS.iter().sum();
        let (x, dy) = (uniform("x", &[40, INPUTS]), uniform("dy", &[40, outputs]));
        let (w, bias) = (uniform("qk", &[outputs, INPUTS]), uniform("qk bias", &[outputs]));
        let SharedFactors { a, b } = shared();
        let a = a
            .to_candle()
            .unwrap()
            .narrow(1, 0, INPUTS)
            .unwrap()
            .contiguous()
            .unwrap();
        let b = b.to_candle().unwrap().narrow(0, 0, outputs).unwrap();
        let forward = |inputs: &[Candle]| {
            let [x, of_rows, of_columns] = inputs else {
                panic!("three inputs")
            };
            let h = x.matmul(&a.t().unwrap()).unwrap().broadcast_mul(of_columns).unwrap();
            let term = h.matmul(&b.t().unwrap()).unwrap().broadcast_mul(of_rows).unwrap();
            let y = (x.matmul(&w.t().unwrap()).unwrap() + term).unwrap();
            y.broadcast_add(&bias).unwrap()
        };
        let values = values_of(&mut layer(0.0));
        let inputs = [&x, &values[0], &values[1]];
        let y = forward(&inputs.map(Candle::clone));
        let gradients = autograd(&inputs, &dy, forward);
        let check = || {
            let got = results(layer(0.0), &x, &dy, &pass(2, 20));
            for (got, want) in got.iter().zip([&y].into_iter().chain(&gradients)) {
                assert_close(got, want, 1e-4, "VeRA");
            }
        };
        check();
        with_plain_ops(check);
    }

    #[test]
    fn dropped_inputs_are_those_of_plain_ops() {
        let dy = uniform("dy", &[40, WIDTHS.iter().sum()]);
        let x = uniform("x", &[40, INPUTS]);
        let run = || results(layer(0.25), &x, &dy, &dropout_pass(2, 20, 1));
        for (kernels, plain) in run().iter().zip(&with_plain_ops(run)) {
            assert_close(kernels, plain, 1e-4, "with dropout");
        }
    }
}
