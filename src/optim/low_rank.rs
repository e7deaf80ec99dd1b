//! Adam with its moments in a low-rank basis of each matrix's gradient. A projection finds the basis: `galore` or `rsvd`.
//! AdamW trains matrices with a side of `rank` or less, and tensors that are not matrices.
//!
//! As in galore-torch, a new basis leaves the moments as they are, and weight decay is AdamW's.

use candle_core::{Result, Tensor};

use super::{
    adamw::{AdamW, coefficients, moments_plain, state},
    gradient::Gradient,
    optimizer::{Optimizer, have_kernels},
    projection::{Projection, ProjectionSide, transposed},
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
    options::{AdamwOptions, LowRankOptions},
    random,
};

/// Adam in a low-rank basis.
pub(super) struct LowRank<P> {
    projection: P,
    adamw_options: AdamwOptions,
    options: LowRankOptions,
    steps: usize,
    /// Trains the parameters that are not projected.
    adamw: AdamW,
    /// One for each projected matrix, in the order of the parameters.
    states: Vec<State>,
}

struct State {
    basis: Tensor,
    m: Tensor,
    v: Tensor,
    /// The step that computed the basis; `None` until there is a gradient that is not zero.
    refreshed: Option<usize>,
}

impl<P: Projection> LowRank<P> {
    pub(super) fn new(projection: P, adamw_options: AdamwOptions, options: LowRankOptions) -> Self {
        Self {
            projection,
            adamw_options,
            options,
            steps: 0,
            adamw: AdamW::new(adamw_options),
            states: Vec::new(),
        }
    }

    fn is_projected(&self, param: &Param) -> bool {
        matches!(*param.value.dims(), [rows, columns] if rows.min(columns) > self.options.rank)
    }

    fn new_state(&self, param: &Param) -> Result<State> {
        let _module = memory::module_of(&param.name);
        let ((rows, columns), rank) = (param.value.dims2()?, self.options.rank);
        let (basis, moment) = match self.projection.side(rows, columns) {
            ProjectionSide::Rows => ((rows, rank), (rank, columns)),
            ProjectionSide::Columns => ((rank, columns), (rows, rank)),
        };
        let device = param.value.device();
        Ok(State {
            basis: state(basis.into(), device)?,
            m: state(moment.into(), device)?,
            v: state(moment.into(), device)?,
            refreshed: None,
        })
    }

    /// Computes a new basis if the current one is due.
    fn refresh_basis(&self, name: &str, state: &mut State, gradient: &Gradient) -> Result<()> {
        if state
            .refreshed
            .is_some_and(|step| self.steps - step < self.options.update_proj_gap)
        {
            return Ok(());
        }
        let purpose = format!("basis {name} {}", self.steps);
        let random = random::stream(self.options.seed, &purpose);
        let basis = self.projection.basis(gradient, self.options.rank, random)?;
        if basis.iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        let basis = match self.projection.side(gradient.rows, gradient.columns) {
            ProjectionSide::Rows => transposed(&basis, gradient.rows),
            ProjectionSide::Columns => basis,
        };
        let basis: Vec<f32> = basis.into_iter().map(|value| value as f32).collect();
        let shape = state.basis.dims2()?;
        if host::has_kernels(state.basis.device()) {
            host::change(&state.basis, |held: &mut [f32]| held.copy_from_slice(&basis))?;
        } else {
            state.basis = gradient.to_device(basis, shape)?;
            memory::label(&state.basis, Category::OptimizerState);
        }
        state.refreshed = Some(self.steps);
        Ok(())
    }

    /// One step of a projected matrix.
    fn update_param(&self, param: &mut Param, state: &mut State, kernels: bool, c: Coefficients) -> Result<()> {
        let Some(gradient) = param.gradient().cloned() else {
            return Ok(());
        };
        let gradient = Gradient::new(&gradient)?;
        self.refresh_basis(&param.name, state, &gradient)?;
        let side = self.projection.side(gradient.rows, gradient.columns);
        let projected = match side {
            ProjectionSide::Rows => gradient.transposed_times(&state.basis)?,
            ProjectionSide::Columns => gradient.times(&state.basis)?,
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
            ProjectionSide::Rows => (&state.basis, &change),
            ProjectionSide::Columns => (&change, &state.basis),
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
        let decayed = (param.f32()? * f64::from(c.decay))?;
        param.set((decayed - change)?.to_dtype(param.value.dtype())?);
        Ok(())
    }
}

impl<P: Projection> Optimizer for LowRank<P> {
    /// # Errors
    /// If no parameter would be projected, and errors of candle.
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        let kernels = have_kernels(params);
        let each = params.iter_mut().map(|param| &mut **param);
        let (mut matrices, mut others): (Vec<&mut Param>, Vec<&mut Param>) =
            each.partition(|param| self.is_projected(param));
        if matrices.is_empty() {
            candle_core::bail!(
                "optim_rank: no trained matrix has more than {} rows and columns, so there is nothing to project",
                self.options.rank
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
        let coefficients = coefficients(self.adamw_options, self.steps, learning_rate);
        // One after the other: the work space of a basis grows with the gradient's sides, and is freed before the next.
        let mut states = std::mem::take(&mut self.states);
        for (param, state) in matrices.iter_mut().zip(&mut states) {
            self.update_param(param, state, kernels, coefficients)?;
        }
        self.states = states;
        Ok(())
    }

    fn release(&mut self) {
        self.states = Vec::new();
        self.adamw.release();
    }
}

#[cfg(test)]
mod tests;
