//! Adafactor (Shazeer & Stern 2018, arXiv:1804.04235) as transformers' Trainer sets it: the learning rate is given, and
//! there is no first moment. A matrix keeps the mean squares of its rows and columns, a vector those of its elements,
//! in float32.

use candle_core::{D, DType, Result, Tensor as Candle};
use kernels::adafactor::{self, Coefficients, EPSILON};
use memory::tiers::Slot;

use super::{each_param::ParamRule, elementwise::state};
use crate::{
    param::Param,
    tensor::{Tensor, for_format},
};

/// The decay of the second moment at step `t` is `1 - t^DECAY_RATE`.
const DECAY_RATE: f64 = -0.8;

/// The rule of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdafactorRule {
    pub(super) weight_decay: f64,
}

/// Mean squares.
#[derive(Debug)]
pub(super) enum State {
    Matrix { rows: Tensor, columns: Tensor },
    Vector(Tensor),
}

impl AdafactorRule {
    fn coefficients(&self, step: usize, learning_rate: f64) -> Coefficients {
        Coefficients {
            beta2: (1.0 - (step as f64).powf(DECAY_RATE)) as f32,
            decay: (1.0 - learning_rate * self.weight_decay) as f32,
            rate: learning_rate as f32,
        }
    }
}

impl ParamRule for AdafactorRule {
    type State = State;

    fn new_state(&self, param: &Param) -> Result<State> {
        let zeros = |count: usize| state(count.into(), DType::F32, param.value.device());
        Ok(match *param.value.dims() {
            [rows, columns] => State::Matrix {
                rows: zeros(rows)?,
                columns: zeros(columns)?,
            },
            _ => State::Vector(zeros(param.value.len())?),
        })
    }

    fn slots(state: &mut State) -> impl Iterator<Item = &mut dyn Slot> {
        let (first, second) = match state {
            State::Matrix { rows, columns } => (rows, Some(columns)),
            State::Vector(elements) => (elements, None),
        };
        std::iter::once(first).chain(second).map(Tensor::slot)
    }

    fn update(&self, param: &mut Param, state: &mut State, step: usize, learning_rate: f64) -> Result<()> {
        let c = self.coefficients(step, learning_rate);
        let (value, Some(gradient)) = param.value_and_gradient() else {
            return Ok(());
        };
        for_format!(value.dtype(), E => {
            let (values, gradients) = (value.values_mut::<E>()?, gradient.values::<E>()?);
            match state {
                State::Matrix { rows, columns } => {
                    adafactor::step_matrix(values, gradients, rows.values_mut()?, columns.values_mut()?, c);
                }
                State::Vector(means) => adafactor::step_vector(values, gradients, means.values_mut()?, c),
            }
            Ok(())
        })
    }

    fn update_plain(&self, param: &mut Param, state: &mut State, step: usize, learning_rate: f64) -> Result<()> {
        let c = self.coefficients(step, learning_rate);
        let Some(gradient) = param.gradient() else {
            return Ok(());
        };
        let gradient = gradient.to_candle_f32()?;
        let squares = (gradient.sqr()? + f64::from(EPSILON))?;
        let average = |means: &mut Tensor, of: Candle| -> Result<Candle> {
            let mean = ((means.to_candle()? * f64::from(c.beta2))? + (of * f64::from(1.0 - c.beta2))?)?;
            *means = Tensor::from_candle(mean.clone())?;
            Ok(mean)
        };
        let update = match state {
            State::Matrix { rows, columns } => {
                let rows = average(rows, squares.mean(D::Minus1)?)?;
                let columns = average(columns, squares.mean(0)?)?;
                let rows = rows.broadcast_div(&rows.mean_keepdim(0)?)?.sqrt()?.unsqueeze(1)?;
                let columns = columns.sqrt()?.unsqueeze(0)?;
                gradient.broadcast_div(&rows)?.broadcast_div(&columns)?
            }
            State::Vector(means) => (gradient / average(means, squares)?.sqrt()?)?,
        };
        let root_mean_square = f64::from(update.sqr()?.mean_all()?.to_scalar::<f32>()?).sqrt();
        let update = (update * (f64::from(c.rate) / root_mean_square.max(1.0)))?;
        let value = ((param.value.to_candle_f32()? * f64::from(c.decay))? - update)?;
        param.set(Tensor::from_candle(value.to_dtype(param.value.dtype())?)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{each_param::EachParam, testing::assert_kernel_and_plain_ops_agree};

    #[test]
    fn kernel_and_plain_ops_agree() {
        let shapes = [vec![40, 21], vec![3, 500], vec![33], vec![150, 130], vec![1, 1]];
        let optimizer = || EachParam::new(AdafactorRule { weight_decay: 0.1 }, false);
        assert_kernel_and_plain_ops_agree(&shapes, None, optimizer, 1e-5);
    }
}
