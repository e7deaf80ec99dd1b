//! The interface of an optimizer.

use candle_core::Result;

use crate::{carried::Carrier, param::Param};

/// Updates weights by their gradients. The first step creates the state.
pub trait Optimizer {
    /// Creates the state if there is none, for a step that is skipped: memory does not depend on numbers.
    ///
    /// # Errors
    /// As [`Self::step`].
    fn prepare(&mut self, params: &mut [&mut Param]) -> Result<()>;

    /// Updates every parameter that has a gradient. Every call takes the same parameters in the same order.
    ///
    /// # Errors
    /// Errors of candle, and of an optimizer that finds nothing to work on.
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()>;

    /// Saves or restores the state, which there must be ([`prepare`](Self::prepare)).
    ///
    /// # Errors
    /// Those of the carrier.
    fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()>;

    /// Frees the state.
    fn release(&mut self);
}

/// True if the kernels can update these parameters, which share a device.
pub(super) fn have_kernels(params: &[&mut Param]) -> bool {
    params.first().is_some_and(|param| param.value.has_kernels())
}
