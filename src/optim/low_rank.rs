//! Adam whose moments are kept in a low-rank basis of each matrix's gradient. What the basis is, and on which side, is the
//! projection's: `galore` and `rsvd`. Matrices that have a side of `rank` or less, and tensors that are no matrices, are
//! AdamW's.
//!
//! As galore-torch has it, the moments stay as they are where a basis is renewed, and weight decay is AdamW's.

use candle_core::{Result, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    Optimizer,
    adamw::{AdamW, Options, moments_plain, state},
    gradient::Gradient,
    have_kernels,
};
use crate::{
    kernels::{
        adamw::{self, Coefficients},
        low_rank,
    },
    memory::{self, Category},
    nn::{
        host::{self, for_format},
        param::Param,
    },
    random,
};

/// On which side of the gradient the basis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The basis is `[rows, rank]`, moments are `[rank, columns]`.
    Rows,
    /// The basis is `[rank, columns]`, moments are `[rows, rank]`.
    Columns,
}

/// What a basis is made of.
pub trait Projection {
    fn side(&self, rows: usize, columns: usize) -> Side;

    /// What the step is multiplied with when it leaves the basis.
    fn scale(&self) -> f64;

    /// `rank` orthonormal rows, each as long as the side; where the gradient has fewer directions, the others are zero.
    fn basis(&self, gradient: &Gradient, rank: usize, random: ChaCha8Rng) -> Result<Vec<f64>>;
}

/// How far the projection goes, and when it is renewed.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    pub rank: usize,
    /// Steps after which a basis is made anew.
    pub gap: usize,
    pub seed: u64,
}

pub struct LowRank<P> {
    projection: P,
    options: Options,
    reach: Reach,
    steps: usize,
    /// For what is not projected.
    adamw: AdamW,
    /// Of each matrix that is projected, in the order the parameters are given.
    states: Vec<State>,
}

struct State {
    basis: Tensor,
    m: Tensor,
    v: Tensor,
    /// The step in which the basis was made; none as long as there was no gradient to make it from.
    made: Option<usize>,
}

impl<P: Projection> LowRank<P> {
    pub fn new(projection: P, options: Options, reach: Reach) -> Self {
        Self {
            projection,
            options,
            reach,
            steps: 0,
            adamw: AdamW::new(options),
            states: Vec::new(),
        }
    }

    fn is_projected(&self, param: &Param) -> bool {
        matches!(*param.value.dims(), [rows, columns] if rows.min(columns) > self.reach.rank)
    }

    fn new_state(&self, param: &Param) -> Result<State> {
        let _module = memory::module_of(&param.name);
        let ((rows, columns), rank) = (param.value.dims2()?, self.reach.rank);
        let (basis, moment) = match self.projection.side(rows, columns) {
            Side::Rows => ((rows, rank), (rank, columns)),
            Side::Columns => ((rank, columns), (rows, rank)),
        };
        let device = param.value.device();
        Ok(State {
            basis: state(basis.into(), device)?,
            m: state(moment.into(), device)?,
            v: state(moment.into(), device)?,
            made: None,
        })
    }

    /// Makes the basis where it is time to.
    fn renew(&self, name: &str, state: &mut State, gradient: &Gradient) -> Result<()> {
        if state.made.is_some_and(|made| self.steps - made < self.reach.gap) {
            return Ok(());
        }
        let purpose = format!("basis {name} {}", self.steps);
        let random = random::stream(self.reach.seed, &purpose);
        let basis = self.projection.basis(gradient, self.reach.rank, random)?;
        if basis.iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        let basis = match self.projection.side(gradient.rows, gradient.columns) {
            Side::Rows => transposed(&basis, gradient.rows),
            Side::Columns => basis,
        };
        let basis: Vec<f32> = basis.into_iter().map(|value| value as f32).collect();
        let shape = state.basis.dims2()?;
        if host::has_kernels(state.basis.device()) {
            host::change(&state.basis, |held: &mut [f32]| held.copy_from_slice(&basis))?;
        } else {
            state.basis = gradient.to_device(basis, shape)?;
            memory::label(&state.basis, Category::OptimizerState);
        }
        state.made = Some(self.steps);
        Ok(())
    }

    fn move_param(&self, param: &mut Param, state: &mut State, kernels: bool, c: Coefficients) -> Result<()> {
        let Some(gradient) = param.gradient().cloned() else {
            return Ok(());
        };
        let gradient = Gradient::new(&gradient)?;
        self.renew(&param.name, state, &gradient)?;
        let side = self.projection.side(gradient.rows, gradient.columns);
        let projected = match side {
            Side::Rows => gradient.transposed_times(&state.basis)?,
            Side::Columns => gradient.times(&state.basis)?,
        };
        let change = if kernels {
            let (m, v) = (&state.m, &state.v);
            host::change(&projected, |gradients: &mut [f32]| {
                host::change(m, |m: &mut [f32]| {
                    host::change(v, |v: &mut [f32]| adamw::change(gradients, m, v, c))
                })
            })???;
            projected
        } else {
            moments_plain(&projected, &mut state.m, &mut state.v, c)?
        };
        let (left, right) = match side {
            Side::Rows => (&state.basis, &change),
            Side::Columns => (&change, &state.basis),
        };
        let scale = self.projection.scale() as f32;
        if kernels {
            let (left, right) = (host::values::<f32>(left)?, host::values::<f32>(right)?);
            return for_format!(param.value.dtype(), E => {
                host::change(&param.value, |values: &mut [E]| {
                    low_rank::move_by(values, gradient.columns, c.decay, scale, (&left, &right));
                })
            });
        }
        let change = (left.matmul(right)? * f64::from(scale))?;
        let kept = (param.f32()? * f64::from(c.decay))?;
        param.set((kept - change)?.to_dtype(param.value.dtype())?);
        Ok(())
    }
}

impl<P: Projection> Optimizer for LowRank<P> {
    /// # Errors
    /// Where nothing would be projected, and what candle says.
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        let kernels = have_kernels(params);
        let each = params.iter_mut().map(|param| &mut **param);
        let (mut matrices, mut others): (Vec<&mut Param>, Vec<&mut Param>) =
            each.partition(|param| self.is_projected(param));
        if matrices.is_empty() {
            candle_core::bail!(
                "optim_rank: no trained matrix has more than {} rows and columns, so there is nothing to project",
                self.reach.rank
            );
        }
        if self.states.is_empty() {
            self.states = matrices
                .iter()
                .map(|param| self.new_state(param))
                .collect::<Result<_>>()?;
        }
        self.adamw.step(&mut others, learning_rate)?;
        self.steps += 1;
        let coefficients = self.options.coefficients(self.steps, learning_rate);
        // One after the other: what a basis is made with is as large as the gradient's sides, and freed before the next.
        let mut states = std::mem::take(&mut self.states);
        for (param, state) in matrices.iter_mut().zip(&mut states) {
            self.move_param(param, state, kernels, coefficients)?;
        }
        self.states = states;
        Ok(())
    }

    fn release(&mut self) {
        self.states = Vec::new();
        self.adamw.release();
    }
}

/// Values between -1 and 1, whose directions are those that a basis is looked for from.
pub(super) fn uniform(random: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// A matrix of rows of `len` elements, column by column.
pub(super) fn transposed(rows: &[f64], len: usize) -> Vec<f64> {
    let count = rows.len() / len;
    (0..rows.len()).map(|at| rows[at % count * len + at / count]).collect()
}

#[cfg(test)]
mod tests;
