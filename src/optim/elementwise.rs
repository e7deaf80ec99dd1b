//! Optimizers that move each element by its own gradient and state: one rule a file.

use candle_core::{DType, Result, Tensor as Candle};
use rayon::prelude::*;

use super::optimizer::{Optimizer, have_kernels};
use crate::{
    memory::{self, Category},
    nn::{
        param::Param,
        tensor::{Float, Shape, Tensor, for_format},
    },
};

/// The rule that an element follows, with `N` numbers of state in float32 for every dtype of the parameter.
pub(super) trait Rule<const N: usize>: Sync {
    /// Numbers that all elements of a step share.
    type Coefficients: Copy + Sync;

    /// The numbers of the `step`th step (from 1).
    fn coefficients(&self, step: usize, learning_rate: f64) -> Self::Coefficients;

    /// One step in place, by the CPU's kernel.
    fn update<E: Float>(values: &mut [E], gradients: &[E], states: [&mut [f32]; N], c: Self::Coefficients);

    /// The same by candle's ops in float32: the new values. Puts new states in the place of the old ones.
    fn update_plain(
        values: &Candle,
        gradients: &Candle,
        states: &mut [Candle; N],
        c: Self::Coefficients,
    ) -> Result<Candle>;
}

/// An optimizer of one rule.
#[derive(Debug)]
pub(super) struct Elementwise<R, const N: usize> {
    rule: R,
    steps: usize,
    /// The states of each parameter, in the order of the parameters.
    states: Vec<[Tensor; N]>,
}

impl<R: Rule<N>, const N: usize> Elementwise<R, N> {
    pub(super) fn new(rule: R) -> Self {
        Self {
            rule,
            steps: 0,
            states: Vec::new(),
        }
    }
}

impl<R: Rule<N>, const N: usize> Optimizer for Elementwise<R, N> {
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        if self.states.is_empty() {
            for param in params.iter() {
                let _module = memory::whole(param.name.in_timeline());
                let states: [Result<Tensor>; N] =
                    std::array::from_fn(|_| state(param.value.shape(), param.value.device()));
                self.states.push(all(states)?);
            }
        }
        self.steps += 1;
        if memory::is_dry_run() {
            return Ok(());
        }
        let coefficients = self.rule.coefficients(self.steps, learning_rate);
        if have_kernels(params) {
            // All parameters share a parallel region: adapters are many and small.
            let states = self.states.par_iter_mut();
            return params
                .par_iter_mut()
                .zip(states)
                .try_for_each(|(param, states)| update::<R, N>(param, states, coefficients));
        }
        for (param, states) in params.iter_mut().zip(&mut self.states) {
            update_plain::<R, N>(param, states, coefficients)?;
        }
        Ok(())
    }

    fn release(&mut self) {
        self.states = Vec::new();
    }
}

/// A state tensor of zeros.
pub(super) fn state(shape: Shape, device: &candle_core::Device) -> Result<Tensor> {
    let _scope = memory::scope(Category::OptimizerState);
    Tensor::zeros(shape, DType::F32, device)
}

fn update<R: Rule<N>, const N: usize>(
    param: &mut Param,
    states: &mut [Tensor; N],
    coefficients: R::Coefficients,
) -> Result<()> {
    let (value, Some(gradient)) = param.value_and_gradient() else {
        return Ok(());
    };
    let states = all(states.each_mut().map(Tensor::values_mut::<f32>))?;
    for_format!(value.dtype(), E => {
        R::update(value.values_mut::<E>()?, gradient.values::<E>()?, states, coefficients);
        Ok(())
    })
}

fn update_plain<R: Rule<N>, const N: usize>(
    param: &mut Param,
    states: &mut [Tensor; N],
    coefficients: R::Coefficients,
) -> Result<()> {
    let Some(gradient) = param.gradient() else {
        return Ok(());
    };
    let gradient = gradient.to_candle_f32()?;
    let mut plain = all(states.each_ref().map(Tensor::to_candle))?;
    let value = R::update_plain(&param.value.to_candle_f32()?, &gradient, &mut plain, coefficients)?;
    *states = all(plain.map(Tensor::from_candle))?;
    param.set(Tensor::from_candle(value.to_dtype(param.value.dtype())?)?);
    Ok(())
}

/// All values, or an error.
fn all<T, const N: usize>(results: [Result<T>; N]) -> Result<[T; N]> {
    let mut error = None;
    let values = results.map(|result| result.map_err(|reason| error = Some(reason)).ok());
    match error {
        Some(error) => Err(error),
        None => Ok(values.map(|value| value.unwrap_or_else(|| unreachable!("an error was looked for")))),
    }
}
