//! Optimizers that update each parameter by its own gradient and state: one rule a file.

use candle_core::Result;
use memory::tiers::Slot;
use rayon::prelude::*;

use super::host_state::HostState;
use super::optimizer::{Optimizer, have_kernels};
use crate::{carried::Carrier, param::Param};

/// The rule that a parameter follows.
pub(super) trait ParamRule: Sync {
    /// The state of a parameter.
    type State: Send;

    /// The state before the first step, of zeros.
    fn new_state(&self, param: &Param) -> Result<Self::State>;

    /// The places of the state's elements, always in the same order.
    fn slots(state: &mut Self::State) -> impl Iterator<Item = &mut dyn Slot>;

    /// The `step`th step (from 1), by the CPU's kernels. A parameter without a gradient stays as it is.
    fn update(&self, param: &mut Param, state: &mut Self::State, step: usize, learning_rate: f64) -> Result<()>;

    /// The `step`th step (from 1), by candle's ops.
    fn update_plain(&self, param: &mut Param, state: &mut Self::State, step: usize, learning_rate: f64) -> Result<()>;
}

/// An optimizer of one rule.
#[derive(Debug)]
pub(super) struct EachParam<R: ParamRule> {
    rule: R,
    steps: usize,
    /// One for each parameter, in their order.
    pub(super) states: Vec<R::State>,
    /// The states' elements in the host's memory; `None` if they stay on the device.
    host: Option<Vec<HostState>>,
}

impl<R: ParamRule> EachParam<R> {
    /// An optimizer whose state waits in the host's memory if `is_offloaded`.
    pub(super) fn new(rule: R, is_offloaded: bool) -> Self {
        Self {
            rule,
            steps: 0,
            states: Vec::new(),
            host: is_offloaded.then(Vec::new),
        }
    }

    fn make_states(&mut self, params: &[&mut Param]) -> Result<()> {
        self.states.reserve_exact(params.len());
        for param in params {
            let _module = memory::whole(param.name.in_timeline());
            let mut state = self.rule.new_state(param)?;
            if let Some(host) = &mut self.host {
                host.push(HostState::of(R::slots(&mut state))?);
            }
            self.states.push(state);
        }
        Ok(())
    }

    /// One parameter after the other: its state comes, is changed, and goes.
    fn step_from_host(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()> {
        let states = self.states.iter_mut().zip(self.host.iter_mut().flatten());
        for (param, (state, host)) in params.iter_mut().zip(states) {
            host.fetch(R::slots(state))?;
            let is_away = param.has_gradient_away();
            param.bring_gradient_back()?;
            if !memory::is_dry_run() {
                let learning_rate = learning_rate * param.lr_ratio;
                if param.value.has_kernels() {
                    self.rule.update(param, state, self.steps, learning_rate)?;
                } else {
                    self.rule.update_plain(param, state, self.steps, learning_rate)?;
                }
            }
            host.give_back(R::slots(state))?;
            if is_away {
                param.send_gradient_away()?;
            }
        }
        Ok(())
    }
}

impl<R: ParamRule> Optimizer for EachParam<R> {
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
        let (rule, steps) = (&self.rule, self.steps);
        if have_kernels(params) {
            // All parameters share a parallel region: adapters are many and small.
            let pairs = params.par_iter_mut().zip(&mut self.states);
            return pairs.try_for_each(|(param, state)| {
                let learning_rate = learning_rate * param.lr_ratio;
                rule.update(param, state, steps, learning_rate)
            });
        }
        for (param, state) in params.iter_mut().zip(&mut self.states) {
            let learning_rate = learning_rate * param.lr_ratio;
            rule.update_plain(param, state, steps, learning_rate)?;
        }
        Ok(())
    }

    fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()> {
        carrier.count(&mut self.steps)?;
        if let Some(host) = &mut self.host {
            return host.iter_mut().try_for_each(|state| state.carry(carrier));
        }
        let mut slots = self.states.iter_mut().flat_map(R::slots);
        slots.try_for_each(|slot| carrier.elements(slot.as_bytes_mut()))
    }

    fn release(&mut self) {
        self.states = Vec::new();
        if let Some(host) = &mut self.host {
            *host = Vec::new();
        }
    }
}
