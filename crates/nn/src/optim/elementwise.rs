//! Optimizers that move each element by its own gradient and state: one rule a file.

use candle_core::{DType, Result, Tensor as Candle};
use kernels::convert;
use memory::tiers::Slot;
use trace::Category;

use super::each_param::ParamRule;
use crate::{
    param::Param,
    tensor::{Float, Shape, Tensor, for_format},
};

/// The rule that an element follows, with `N` numbers of state, which it computes with in float32.
pub(super) trait Rule<const N: usize>: Sync {
    /// Numbers that all elements of a step share.
    type Coefficients: Copy + Sync;

    /// The numbers of the `step`th step (from 1).
    fn coefficients(&self, step: usize, learning_rate: f64) -> Self::Coefficients;

    /// One step in place, by the CPU's kernel.
    fn update<E: Float>(values: &mut [E], gradients: &[E], states: [&mut [f32]; N], c: Self::Coefficients);

    /// One step by candle's ops in float32: the new values. Puts new states in the place of the old ones.
    fn update_plain(
        values: &Candle,
        gradients: &Candle,
        states: &mut [Candle; N],
        c: Self::Coefficients,
    ) -> Result<Candle>;
}

/// The rule of a parameter whose elements follow `R`, with `N` tensors of state of its shape.
#[derive(Debug)]
pub(super) struct Elementwise<R, const N: usize>(pub(super) R);

impl<R: Rule<N>, const N: usize> ParamRule for Elementwise<R, N> {
    type State = [Tensor; N];

    fn new_state(&self, param: &Param) -> Result<[Tensor; N]> {
        let (shape, device) = (param.value.shape(), param.value.device());
        all((0..N).map(|_| state(shape, param.state_dtype(), device)))
    }

    fn slots(states: &mut [Tensor; N]) -> impl Iterator<Item = &mut dyn Slot> {
        states.iter_mut().map(Tensor::slot)
    }

    fn update(&self, param: &mut Param, states: &mut [Tensor; N], step: usize, learning_rate: f64) -> Result<()> {
        update::<R, N>(param, states, self.0.coefficients(step, learning_rate))
    }

    fn update_plain(&self, param: &mut Param, states: &mut [Tensor; N], step: usize, learning_rate: f64) -> Result<()> {
        update_plain::<R, N>(param, states, self.0.coefficients(step, learning_rate))
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
    states: &mut [Tensor; N],
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
    states: &mut [Tensor; N],
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
