//! MiSS (Kang & Yin 2024, arXiv:2409.15371): the input is cut into shards of `rank` features, and their sum is
//! multiplied with a trained block. That is a low-rank term whose first factor is known, so it is neither held nor
//! trained. As in PEFT the last shard is filled up with zeros, and the block starts at zero.

use std::ops::Range;

use arch::ModuleName;
use candle_core::{Device, Result};
use kernels::Element;
use memory::Buffer;
use options::{AdapterOptions, Miss};
use trace::Category;

use super::{
    change::{Change, Saved},
    down::Down,
    low_rank::LowRank,
    up::Up,
};
use crate::{
    dropout::Dropout,
    param::Param,
    tensor::{Tensor, floating, for_format},
};

/// A block `[rank, width]` is added to each shard of the columns, transposed. Fewer rows than W has are repeated.
pub(super) struct Shards<'a> {
    block: &'a [f32],
    width: usize,
}

impl<'a> Shards<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Self {
        Self {
            block: saved.values(options::methods::MISS),
            width: saved.shape(options::methods::MISS).get(1).copied().unwrap_or(1),
        }
    }
}

impl Change for Shards<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        for (at, row) in rows.zip(values.chunks_mut(columns)) {
            let column = self.block.iter().skip(at % self.width).step_by(self.width).cycle();
            row.iter_mut().zip(column).for_each(|(value, added)| *value += added);
        }
    }
}

impl LowRank {
    /// MiSS's term of a layer with so many outputs before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn miss(
        miss: &Miss,
        options: &AdapterOptions,
        seed: u64,
        module: ModuleName,
        outputs: usize,
        device: &Device,
    ) -> Result<Self> {
        let shape = (options.rank, miss.repeated().unwrap_or(outputs));
        let dropout = Dropout::new(seed, module, miss.miss_dropout);
        let _scope = memory::scope(Category::Adapter);
        let zeros = for_format!(floating(options.dtype), E => {
            let zeros = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(0.0));
            Tensor::on_device(zeros, shape, device)
        })?;
        Ok(Self {
            down: Down::Shards(options.rank),
            up: Up::Block {
                block: Param::adapter(module.part(options::methods::MISS), zeros),
                outputs,
            },
            scale: 1.0,
            dropout,
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;
    use options::{AdapterMethod, MissInit};

    use super::*;
    use crate::{
        linear::{Linear, Projection},
        testing::{
            assert_close, autograd, biased, dropout_pass, pass, take_gradients, tensor, uniform, values_of,
            with_plain_ops,
        },
    };

    const INPUTS: usize = 33;
    const WIDTHS: [usize; 3] = [40, 16, 8];
    const OUTPUTS: usize = 64;

    /// A fused layer with a block that is not zero.
    fn layer(rank: usize, mini_r: Option<usize>, dropout: f64) -> Projection<3> {
        let miss = Miss {
            init_weights: if mini_r.is_some() {
                MissInit::Mini
            } else {
                MissInit::Default
            },
            mini_r,
            miss_dropout: dropout,
        };
        let options = AdapterOptions::of_rank(AdapterMethod::Miss(miss.clone()), rank);
        let name = ModuleName::new("qkv");
        let mut miss = LowRank::miss(&miss, &options, 7, name, OUTPUTS, &Device::Cpu).unwrap();
        if let Up::Block { block, .. } = &mut miss.up {
            let dims = block.value.dims().to_vec();
            block.set(tensor(&uniform("block", &dims)));
        }
        let linear = Linear {
            adapter: Some(Box::new(miss)),
            ..biased("qkv", OUTPUTS, INPUTS, 0, false)
        };
        Projection::new(vec![linear], WIDTHS)
    }

    /// Outputs, the gradient of the input, and that of the block.
    fn results(mut layer: Projection<3>, x: &Candle, dy: &Candle, pass: &crate::Pass) -> Vec<Candle> {
        let starts = [0, WIDTHS[0], WIDTHS[0] + WIDTHS[1]];
        let dys = [0, 1, 2].map(|at| tensor(&dy.narrow(1, starts[at], WIDTHS[at]).unwrap()));
        let x = tensor(x);
        let ys = layer.forward(&x, pass).unwrap().map(|y| y.to_candle().unwrap());
        let dx = layer.backward(&x, dys.each_ref(), pass).unwrap();
        let mut results = vec![Candle::cat(&ys, 1).unwrap(), dx.to_candle().unwrap()];
        results.extend(take_gradients(&mut layer));
        results
    }

    #[test]
    fn shards_are_summed_and_multiplied_with_the_block() {
        let (x, dy) = (uniform("x", &[40, INPUTS]), uniform("dy", &[40, OUTPUTS]));
        let w = uniform("qkv", &[OUTPUTS, INPUTS]);
        let bias = uniform("qkv bias", &[OUTPUTS]);
        for (rank, mini_r) in [(11, None), (7, None), (7, Some(8)), (1, Some(1)), (33, Some(64))] {
            let block = values_of(&mut layer(rank, mini_r, 0.0)).remove(0);
            let forward = |inputs: &[Candle]| {
                let [x, block] = inputs else { panic!("two inputs") };
                // As PEFT pads and sums.
                let shards = INPUTS.div_ceil(rank);
                let padded = x.pad_with_zeros(1, 0, shards * rank - INPUTS).unwrap();
                let sums = padded.reshape((40, shards, rank)).unwrap().sum(1).unwrap();
                let block = block.repeat((1, OUTPUTS / block.dim(1).unwrap())).unwrap();
                let y = (x.matmul(&w.t().unwrap()).unwrap() + sums.matmul(&block).unwrap()).unwrap();
                y.broadcast_add(&bias).unwrap()
            };
            let y = forward(&[x.clone(), block.clone()]);
            let gradients = autograd(&[&x, &block], &dy, forward);
            let check = || {
                let got = results(layer(rank, mini_r, 0.0), &x, &dy, &pass(2, 20));
                for (got, want) in got.iter().zip([&y, &gradients[0], &gradients[1]]) {
                    assert_close(got, want, 1e-4, &format!("rank {rank}, mini_r {mini_r:?}"));
                }
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn dropped_inputs_are_those_of_plain_ops() {
        let (x, dy) = (uniform("x", &[40, INPUTS]), uniform("dy", &[40, OUTPUTS]));
        let run = || results(layer(7, Some(8), 0.25), &x, &dy, &dropout_pass(2, 20, 1));
        for (kernels, plain) in run().iter().zip(&with_plain_ops(run)) {
            assert_close(kernels, plain, 1e-4, "with dropout");
        }
    }
}
