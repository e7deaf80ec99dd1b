//! Optimizers that move each element by its own gradient and state: one rule a file.

use candle_core::{DType, Result, Tensor as Candle};
use rayon::prelude::*;

use super::host_state::HostState;
use super::optimizer::{Optimizer, have_kernels};
use crate::{
    kernels::convert,
    memory::{self, Category},
    nn::{
        param::Param,
        tensor::{Float, Shape, Tensor, for_format},
    },
};

/// The rule that an element follows, with `N` numbers of state, which it computes with in float32.
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
    /// `N` tensors of each parameter, in the order of the parameters.
    pub(super) states: Vec<Tensor>,
    /// The same in the host's memory, one for each parameter; `None` if they stay on the device.
    host: Option<Vec<HostState>>,
}

impl<R: Rule<N>, const N: usize> Elementwise<R, N> {
    /// An optimizer whose state waits in the host's memory if `is_offloaded`.
    pub(super) fn new(rule: R, is_offloaded: bool) -> Self {
        Self {
            rule,
            steps: 0,
            states: Vec::new(),
            host: is_offloaded.then(Vec::new),
        }
    }

    /// The state tensors of all parameters, made by the first step.
    fn make_states(&mut self, params: &[&mut Param]) -> Result<()> {
        self.states.reserve_exact(N * params.len());
        for param in params {
            let _module = memory::whole(param.name.in_timeline());
            let first = self.states.len();
            for _ in 0..N {
                let (shape, device) = (param.value.shape(), param.value.device());
                self.states.push(state(shape, param.state_dtype(), device)?);
            }
            if let Some(host) = &mut self.host {
                host.push(HostState::of(&mut self.states[first..])?);
            }
        }
        Ok(())
    }

    /// One parameter after the other: its state comes, is changed, and goes.
    fn step_from_host(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        let states = self.states.chunks_exact_mut(N).zip(self.host.iter_mut().flatten());
        for (param, (states, host)) in params.iter_mut().zip(states) {
            host.fetch(&mut *states)?;
            let is_away = param.has_gradient_away();
            param.bring_gradient_back()?;
            if !memory::is_dry_run() {
                let coefficients = self.rule.coefficients(self.steps, learning_rate * param.lr_ratio);
                if param.value.has_kernels() {
                    update::<R, N>(param, states, coefficients)?;
                } else {
                    update_plain::<R, N>(param, states, coefficients)?;
                }
            }
            host.give_back(states)?;
            if is_away {
                param.send_gradient_away()?;
            }
        }
        Ok(())
    }
}

impl<R: Rule<N>, const N: usize> Optimizer for Elementwise<R, N> {
    fn prepare(&mut self, params: &mut [&mut Param]) -> Result<()> {
        if self.states.is_empty() {
            self.make_states(params)?;
        }
        Ok(())
    }

    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        self.prepare(params)?;
        self.steps += 1;
        if self.host.is_some() {
            return self.step_from_host(params, learning_rate);
        }
        if memory::is_dry_run() {
            return Ok(());
        }
        if have_kernels(params) {
            // All parameters share a parallel region: adapters are many and small.
            let states = self.states.par_chunks_exact_mut(N);
            return params.par_iter_mut().zip(states).try_for_each(|(param, states)| {
                let coefficients = self.rule.coefficients(self.steps, learning_rate * param.lr_ratio);
                update::<R, N>(param, states, coefficients)
            });
        }
        for (param, states) in params.iter_mut().zip(self.states.chunks_exact_mut(N)) {
            let coefficients = self.rule.coefficients(self.steps, learning_rate * param.lr_ratio);
            update_plain::<R, N>(param, states, coefficients)?;
        }
        Ok(())
    }

    fn release(&mut self) {
        self.states = Vec::new();
        if let Some(host) = &mut self.host {
            *host = Vec::new();
        }
    }
}

/// A state tensor of zeros.
pub(super) fn state(shape: Shape, dtype: DType, device: &candle_core::Device) -> Result<Tensor> {
    let _scope = memory::scope(Category::OptimizerState);
    Tensor::zeros(shape, dtype, device)
}

/// Elements whose states are widened at a time.
const WIDENED: usize = 512;

fn update<R: Rule<N>, const N: usize>(
    param: &mut Param,
    states: &mut [Tensor],
    coefficients: R::Coefficients,
) -> Result<()> {
    let dtype = param.state_dtype();
    let (value, Some(gradient)) = param.value_and_gradient() else {
        return Ok(());
    };
    for_format!(value.dtype(), E => {
        let (values, gradients) = (value.values_mut::<E>()?, gradient.values::<E>()?);
        if dtype == DType::F32 {
            R::update(values, gradients, all(states.iter_mut().map(Tensor::values_mut))?, coefficients);
        } else {
            // Only adapters' states are not float32, and have the dtype of their values.
            let states = all(states.iter_mut().map(Tensor::values_mut::<E>))?;
            update_rounded::<R, E, N>(values, gradients, states, coefficients);
        }
        Ok(())
    })
}

/// One step with states that are rounded after it, as PyTorch's fused kernels round them.
fn update_rounded<R: Rule<N>, E: Float, const N: usize>(
    values: &mut [E],
    gradients: &[E],
    mut states: [&mut [E]; N],
    coefficients: R::Coefficients,
) {
    let mut wide = [[0f32; WIDENED]; N];
    let parts = values.chunks_mut(WIDENED).zip(gradients.chunks(WIDENED));
    for (at, (values, gradients)) in parts.enumerate() {
        let part = at * WIDENED..at * WIDENED + values.len();
        for (wide, state) in wide.iter_mut().zip(&states) {
            convert::widen(&state[part.clone()], &mut wide[..part.len()]);
        }
        R::update(
            values,
            gradients,
            wide.each_mut().map(|wide| &mut wide[..part.len()]),
            coefficients,
        );
        for (wide, state) in wide.iter().zip(&mut states) {
            convert::narrow(&wide[..part.len()], &mut state[part.clone()]);
        }
    }
}

fn update_plain<R: Rule<N>, const N: usize>(
    param: &mut Param,
    states: &mut [Tensor],
    coefficients: R::Coefficients,
) -> Result<()> {
    let Some(gradient) = param.gradient() else {
        return Ok(());
    };
    let gradient = gradient.to_candle_f32()?;
    let mut plain = all(states.iter().map(Tensor::to_candle_f32))?;
    let value = R::update_plain(&param.value.to_candle_f32()?, &gradient, &mut plain, coefficients)?;
    for (state, plain) in states.iter_mut().zip(plain) {
        *state = Tensor::from_candle(plain.to_dtype(state.dtype())?)?;
    }
    param.set(Tensor::from_candle(value.to_dtype(param.value.dtype())?)?);
    Ok(())
}

/// The values of one parameter, or the first error.
fn all<T, const N: usize>(values: impl Iterator<Item = Result<T>>) -> Result<[T; N]> {
    let values: Vec<T> = values.collect::<Result<_>>()?;
    values
        .try_into()
        .map_err(|_| candle_core::Error::Msg("an optimizer lost a state".into()))
}
