//! A parameter's state in the host's memory, which comes to the device for the parameter's step.

use candle_core::Result;

use crate::{
    memory::{Category, tiers::HostCopy},
    nn::tensor::Tensor,
};

/// The elements of a parameter's state tensors, which keep their shapes alone meanwhile.
#[derive(Debug)]
pub(super) struct HostState(Vec<HostCopy>);

impl HostState {
    /// Moves the state of a parameter to the host.
    pub(super) fn of<'a>(tensors: impl IntoIterator<Item = &'a mut Tensor>) -> Result<Self> {
        let copies = tensors.into_iter().map(|tensor| HostCopy::of(tensor.slot()));
        Ok(Self(copies.collect::<Result<_>>()?))
    }

    /// Brings the state to the device.
    pub(super) fn fetch<'a>(&self, tensors: impl IntoIterator<Item = &'a mut Tensor>) -> Result<()> {
        for (copy, tensor) in self.0.iter().zip(tensors) {
            let mut storage = copy.reserve(Category::OptimizerState);
            copy.copy_to(&mut storage)?;
            tensor.slot().put(storage);
        }
        Ok(())
    }

    /// Returns the state that a step changed.
    pub(super) fn give_back<'a>(&mut self, tensors: impl IntoIterator<Item = &'a mut Tensor>) -> Result<()> {
        for (copy, tensor) in self.0.iter_mut().zip(tensors) {
            copy.take_back(tensor.slot())?;
        }
        Ok(())
    }
}
