//! IA3 (Liu et al. 2022, arXiv:2205.05638): a trained factor for each output of keys and values, or for each input of
//! the feed-forward layer's last product. As in PEFT, outputs are scaled with their bias, and all factors start at 1.

use std::ops::Range;

use arch::ModuleName;
use candle_core::{Device, Result};
use kernels::Element;
use memory::Buffer;
use options::Dtype;
use trace::Category;

use super::change::{Change, Saved};
use super::interface::{Adapter, InputMap, OutputScale};
use crate::{
    convert,
    param::Param,
    tensor::{Tensor, floating, for_format},
    weight::Weight,
};

/// IA3's adapter of a linear layer.
#[derive(Debug)]
pub struct Ia3 {
    /// `[out, 1]`, or `[1, in]` of a feed-forward layer.
    factors: Param,
    is_feedforward: bool,
}

impl Ia3 {
    /// The adapter of a layer `[rows, cols]` before training. A feed-forward layer's inputs are scaled.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(
        module: ModuleName,
        (rows, cols): (usize, usize),
        is_feedforward: bool,
        dtype: Dtype,
        device: &Device,
    ) -> Result<Self> {
        let shape = if is_feedforward { (1, cols) } else { (rows, 1) };
        let _scope = memory::scope(Category::Adapter);
        let ones = for_format!(floating(dtype), E => {
            let ones = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(1.0));
            Tensor::on_device(ones, shape, device)
        })?;
        Ok(Self {
            factors: Param::adapter(module.part(options::methods::IA3), ones),
            is_feedforward,
        })
    }

    /// The factors as a vector, float32.
    fn vector(&self) -> Result<Tensor> {
        let value = &self.factors.value;
        if !value.has_kernels() {
            return Tensor::from_candle(value.to_candle_f32()?.flatten_all()?);
        }
        let wide = convert::widen(value)?;
        let values = wide.values::<f32>()?;
        Ok(Tensor::written(value.len(), |vector: &mut [f32]| {
            vector.copy_from_slice(values);
        }))
    }

    fn accumulate(&mut self, gradient: Tensor) -> Result<()> {
        let shape = self.factors.value.shape();
        self.factors.accumulate(gradient.reshaped(shape)?)
    }
}

/// A factor for each row, or for each column.
pub(super) enum Factors<'a> {
    Outputs(&'a [f32]),
    Inputs(&'a [f32]),
}

impl<'a> Factors<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Self {
        let factors = saved.values(options::methods::IA3);
        match saved.shape(options::methods::IA3) {
            [_, 1] => Self::Outputs(factors),
            _ => Self::Inputs(factors),
        }
    }
}

impl Change for Factors<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        match self {
            Self::Outputs(factors) => {
                for (row, factor) in values.chunks_mut(columns).zip(&factors[rows]) {
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Self::Inputs(factors) => {
                for row in values.chunks_mut(columns) {
                    row.iter_mut()
                        .zip(*factors)
                        .for_each(|(value, factor)| *value *= factor);
                }
            }
        }
    }

    fn changes_bias(&self) -> bool {
        matches!(self, Self::Outputs(_))
    }
}

impl Adapter for Ia3 {
    fn output_scale(&self, _: &Weight) -> Result<Option<Box<OutputScale>>> {
        if self.is_feedforward {
            return Ok(None);
        }
        Ok(Some(Box::new(OutputScale {
            factors: self.vector()?,
            scales_bias: true,
        })))
    }

    fn accumulate_output_scale(&mut self, gradient: Tensor) -> Result<()> {
        self.accumulate(gradient)
    }

    fn input_map(&self) -> Result<Option<Box<InputMap>>> {
        match self.is_feedforward {
            true => Ok(Some(Box::new(InputMap::Factors(self.vector()?)))),
            false => Ok(None),
        }
    }

    fn accumulate_input_map(&mut self, gradient: Tensor) -> Result<()> {
        self.accumulate(gradient)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        params.push(&mut self.factors);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;

    use super::*;
    use crate::{
        linear::Linear,
        testing::{
            Values, assert_close, assert_gradients, autograd, biased, pass, side_by_side, tensor, uniform, values_of,
            with_plain_ops,
        },
    };

    /// A layer with a bias and factors that are not 1.
    fn layer(name: &'static str, shape: (usize, usize), is_feedforward: bool) -> Linear {
        let module = ModuleName::new(name);
        let mut ia3 = Ia3::new(module, shape, is_feedforward, Dtype::Float32, &Device::Cpu).unwrap();
        let dims = ia3.factors.value.dims().to_vec();
        ia3.factors.set(tensor(&uniform(&format!("{name} factors"), &dims)));
        Linear {
            adapter: Some(Box::new(ia3)),
            ..biased(name, shape.0, shape.1, 0, false)
        }
    }

    /// Layers that share an input, of which one scales it, one its outputs, and one nothing.
    #[test]
    fn outputs_and_gradients_are_those_of_autograd() {
        let widths = [17, 40, 9];
        let x = uniform("x", &[37, 33]);
        let weights = uniform("dy", &[37, widths.iter().sum()]);
        let make = || {
            side_by_side([
                layer("k", (widths[0], 33), false),
                layer("gate", (widths[1], 33), true),
                biased("v", widths[2], 33, 0, false),
            ])
        };
        let names = ["k", "gate", "v"];
        let w: Vec<Candle> = names
            .iter()
            .zip(widths)
            .map(|(name, width)| uniform(name, &[width, 33]))
            .collect();
        let bias = |(name, width)| uniform(&format!("{name} bias"), &[width]);
        let b: Vec<Candle> = names.into_iter().zip(widths).map(bias).collect();
        let outputs = |inputs: &[Candle]| {
            let [x, l_k, l_gate] = inputs else { panic!("three") };
            let product = |x: &Candle, at: usize| {
                let y = x.matmul(&w[at].t().unwrap()).unwrap();
                y.broadcast_add(&b[at]).unwrap()
            };
            let k = product(x, 0).broadcast_mul(&l_k.t().unwrap()).unwrap();
            let gate = product(&x.broadcast_mul(l_gate).unwrap(), 1);
            Candle::cat(&[k, gate, product(x, 2)], 1).unwrap()
        };
        let values = values_of(&mut make());
        let inputs = [&x, &values[0], &values[1]];
        let want = outputs(&inputs.map(Clone::clone));
        let gradients = autograd(&inputs, &weights, outputs);
        let check = || {
            let mut layers = make();
            let (pass, x) = (pass(1, 37), tensor(&x));
            let ys = layers.forward(&x, &pass).unwrap();
            let ys = ys.map(|y| y.to_candle().unwrap());
            assert_close(&Candle::cat(&ys, 1).unwrap(), &want, 1e-5, "y");
            let starts = [0, widths[0], widths[0] + widths[1]];
            let dys = [0, 1, 2].map(|at| tensor(&weights.narrow(1, starts[at], widths[at]).unwrap()));
            let dx = layers.backward(&x, dys.each_ref(), &pass).unwrap();
            assert_close(&dx, &gradients[0], 1e-5, "dx");
            assert_gradients(&mut layers, &gradients[1..], 1e-4);
        };
        check();
        with_plain_ops(check);
    }

    #[test]
    fn a_new_adapter_changes_nothing() {
        for is_feedforward in [false, true] {
            let new = || {
                Ia3::new(
                    ModuleName::new("k"),
                    (5, 7),
                    is_feedforward,
                    Dtype::Bfloat16,
                    &Device::Cpu,
                )
                .unwrap()
            };
            for ia3 in [new(), with_plain_ops(new)] {
                assert_eq!(ia3.factors.value.dims(), if is_feedforward { [1, 7] } else { [5, 1] });
                assert!(ia3.vector().unwrap().elements().iter().all(|factor| *factor == 1.0));
            }
        }
    }
}
