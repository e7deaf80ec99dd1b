//! Adam with its moments in a low-rank basis of each matrix's gradient. A projection finds the basis: `galore` or
//! `rsvd`. AdamW trains matrices with a side of `rank` or less, and tensors that are not matrices.
//!
//! As in galore-torch, a new basis leaves the moments as they are, and weight decay is AdamW's.

use base::random;
use candle_core::{DType, Result};
use kernels::{
    adamw::{self, Coefficients},
    low_rank,
};
use memory::{Buffer, tiers::Slot};
use options::{AdamwOptions, LowRankOptions};

use super::{
    adamw::{AdamW, AdamwRule, moments_plain},
    elementwise::{Elementwise, Rule, state},
    gradient::Gradient,
    host_state::HostState,
    optimizer::Optimizer,
    projection::{GradientProjection, ProjectionSide},
};
use crate::{
    carried::Carrier,
    param::Param,
    tensor::{Tensor, for_format},
};

/// Adam in a low-rank basis.
pub(super) struct LowRankAdam<P> {
    projection: P,
    rule: AdamwRule,
    options: LowRankOptions,
    is_offloaded: bool,
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
    /// The tensors in the host's memory; `None` if they stay on the device.
    host: Option<HostState>,
    /// The step that computed the basis; `None` until there is a gradient that is not zero.
    refreshed: Option<usize>,
}

impl State {
    fn slots(&mut self) -> [&mut dyn Slot; 3] {
        [&mut self.basis, &mut self.m, &mut self.v].map(Tensor::slot)
    }

    /// Saves or restores it. Steps count from 1, so 0 is a basis that is not computed yet.
    fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()> {
        let mut refreshed = self.refreshed.unwrap_or(0);
        carrier.count(&mut refreshed)?;
        self.refreshed = Some(refreshed).filter(|step| *step > 0);
        if let Some(host) = &mut self.host {
            return host.carry(carrier);
        }
        let mut slots = self.slots().into_iter();
        slots.try_for_each(|slot| carrier.elements(slot.as_bytes_mut()))
    }
}

impl<P: GradientProjection> LowRankAdam<P> {
    /// An optimizer whose state waits in the host's memory if `is_offloaded`.
    pub(super) fn new(projection: P, adamw_options: AdamwOptions, options: LowRankOptions, is_offloaded: bool) -> Self {
        Self {
            projection,
            is_offloaded,
            rule: AdamwRule(adamw_options),
            options,
            steps: 0,
            adamw: AdamW::new(Elementwise(AdamwRule(adamw_options)), is_offloaded),
            states: Vec::new(),
        }
    }

    fn is_projected(&self, param: &Param) -> bool {
        matches!(*param.value.dims(), [rows, columns] if rows.min(columns) > self.options.rank)
    }

    /// The parameters that are projected, and the others.
    fn partition<'p>(&self, params: &'p mut [&mut Param]) -> (Vec<&'p mut Param>, Vec<&'p mut Param>) {
        let each = params.iter_mut().map(|param| &mut **param);
        each.partition(|param| self.is_projected(param))
    }

    fn new_state(&self, param: &Param) -> Result<State> {
        let _module = memory::whole(param.name.in_timeline());
        let (rows, columns, rank) = (param.value.rows(), param.value.cols(), self.options.rank);
        let (basis, moment) = match self.projection.side(rows, columns) {
            ProjectionSide::Rows => ((rows, rank), (rank, columns)),
            ProjectionSide::Columns => ((rank, columns), (rows, rank)),
        };
        let device = param.value.device();
        let mut state = State {
            basis: state(basis.into(), DType::F32, device)?,
            m: state(moment.into(), DType::F32, device)?,
            v: state(moment.into(), DType::F32, device)?,
            host: None,
            refreshed: None,
        };
        if self.is_offloaded {
            state.host = Some(HostState::of(state.slots())?);
        }
        Ok(state)
    }

    /// Computes a new basis if the current one is due.
    fn refresh_basis(&self, param: &Param, state: &mut State, gradient: &Gradient) -> Result<()> {
        if state
            .refreshed
            .is_some_and(|step| self.steps - step < self.options.update_proj_gap)
        {
            return Ok(());
        }
        let purpose = format!("basis {} {}", param.name, self.steps);
        let random = random::stream(self.options.seed, &purpose);
        let basis = self.projection.basis(gradient, self.options.rank, random)?;
        // A dry run takes it for granted that a gradient is not zero.
        if !memory::is_dry_run() && basis.values().iter().all(|value| *value == 0.0) {
            return Ok(());
        }
        self.store_basis(&basis, state, gradient)?;
        state.refreshed = Some(self.steps);
        Ok(())
    }

    /// Rounds a basis to float32, in the layout of its side.
    fn store_basis(&self, basis: &Buffer<f64>, state: &mut State, gradient: &Gradient) -> Result<()> {
        let (rows, columns) = (state.basis.rows(), state.basis.cols());
        let side = self.projection.side(gradient.rows, gradient.columns);
        let element = |at: usize| {
            let at = match side {
                ProjectionSide::Rows => at % columns * rows + at / columns,
                ProjectionSide::Columns => at,
            };
            basis.values().get(at).map_or(0.0, |value| *value as f32)
        };
        if state.basis.has_kernels() {
            for (at, value) in state.basis.values_mut::<f32>()?.iter_mut().enumerate() {
                *value = element(at);
            }
        } else {
            state.basis = gradient.on_device((rows, columns), element)?;
        }
        Ok(())
    }

    /// One step of a projected matrix.
    fn update_param(&self, param: &mut Param, state: &mut State, c: Coefficients) -> Result<()> {
        let Some(gradient) = param.gradient() else {
            return Ok(());
        };
        let gradient = Gradient::new(gradient);
        self.refresh_basis(param, state, &gradient)?;
        let side = self.projection.side(gradient.rows, gradient.columns);
        let mut projected = match side {
            ProjectionSide::Rows => gradient.transposed_times(&state.basis)?,
            ProjectionSide::Columns => gradient.times(&state.basis)?,
        };
        if !projected.has_kernels() {
            return self.update_plain(param, state, &projected, c);
        }
        if memory::is_dry_run() {
            return Ok(());
        }
        adamw::change(projected.values_mut()?, state.m.values_mut()?, state.v.values_mut()?, c);
        let (left, right) = match side {
            ProjectionSide::Rows => (&state.basis, &projected),
            ProjectionSide::Columns => (&projected, &state.basis),
        };
        let (left, right) = (left.values::<f32>()?, right.values::<f32>()?);
        let (columns, scale) = (gradient.columns, self.projection.scale() as f32);
        for_format!(param.value.dtype(), E => {
            low_rank::move_by(param.value.values_mut::<E>()?, columns, c.decay, scale, (left, right));
            Ok(())
        })
    }

    /// One step of a projected matrix by candle's ops, into new tensors.
    fn update_plain(&self, param: &mut Param, state: &mut State, projected: &Tensor, c: Coefficients) -> Result<()> {
        let (mut m, mut v) = (state.m.to_candle()?, state.v.to_candle()?);
        let change = moments_plain(&projected.to_candle()?, &mut m, &mut v, c)?;
        (state.m, state.v) = (Tensor::from_candle(m)?, Tensor::from_candle(v)?);
        let basis = state.basis.to_candle()?;
        let change = match self.projection.side(param.value.rows(), param.value.cols()) {
            ProjectionSide::Rows => basis.matmul(&change)?,
            ProjectionSide::Columns => change.matmul(&basis)?,
        };
        let change = (change * self.projection.scale())?;
        let decayed = (param.value.to_candle_f32()? * f64::from(c.decay))?;
        param.set(Tensor::from_candle((decayed - change)?.to_dtype(param.value.dtype())?)?);
        Ok(())
    }
}

impl<P: GradientProjection> Optimizer for LowRankAdam<P> {
    /// # Errors
    /// If no parameter would be projected, and errors of candle.
    fn prepare(&mut self, params: &mut [&mut Param]) -> Result<()> {
        let (matrices, mut others) = self.partition(params);
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
        self.adamw.prepare(&mut others)
    }

    /// # Errors
    /// As [`Self::prepare`].
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        self.prepare(params)?;
        let (mut matrices, mut others) = self.partition(params);
        self.adamw.step(&mut others, learning_rate)?;
        self.steps += 1;
        // One after the other: the work space of a basis grows with the gradient's sides, and is freed before the next.
        let mut states = std::mem::take(&mut self.states);
        for (param, state) in matrices.iter_mut().zip(&mut states) {
            let host = state.host.take();
            if let Some(host) = &host {
                host.fetch(state.slots())?;
            }
            let is_away = param.has_gradient_away();
            param.bring_gradient_back()?;
            let coefficients = self.rule.coefficients(self.steps, learning_rate * param.lr_ratio);
            self.update_param(param, state, coefficients)?;
            if let Some(mut host) = host {
                host.give_back(state.slots())?;
                state.host = Some(host);
            }
            if is_away {
                param.send_gradient_away()?;
            }
        }
        self.states = states;
        Ok(())
    }

    fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()> {
        carrier.count(&mut self.steps)?;
        self.adamw.carry(carrier)?;
        self.states.iter_mut().try_for_each(|state| state.carry(carrier))
    }

    fn release(&mut self) {
        self.states = Vec::new();
        self.adamw.release();
    }
}

#[cfg(test)]
mod tests;
