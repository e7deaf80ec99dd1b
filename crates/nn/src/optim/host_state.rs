//! A parameter's state in the host's memory, which comes to the device for the parameter's step.

use candle_core::Result;
use memory::tiers::{HostCopy, Slot};
use trace::Category;

use crate::carried::Carrier;

/// The elements of a parameter's state, whose places are empty meanwhile.
#[derive(Debug)]
pub(super) struct HostState(Vec<HostCopy>);

impl HostState {
    /// Moves the state of a parameter to the host.
    pub(super) fn of<'a>(slots: impl IntoIterator<Item = &'a mut dyn Slot>) -> Result<Self> {
        let copies = slots.into_iter().map(HostCopy::of);
        Ok(Self(copies.collect::<Result<_>>()?))
    }

    /// Brings the state to the device.
    pub(super) fn fetch<'a>(&self, slots: impl IntoIterator<Item = &'a mut dyn Slot>) -> Result<()> {
        for (copy, slot) in self.0.iter().zip(slots) {
            let mut storage = copy.reserve(Category::OptimizerState);
            copy.copy_to(&mut storage)?;
            slot.put(storage);
        }
        Ok(())
    }

    /// Returns the state that a step changed.
    pub(super) fn give_back<'a>(&mut self, slots: impl IntoIterator<Item = &'a mut dyn Slot>) -> Result<()> {
        for (copy, slot) in self.0.iter_mut().zip(slots) {
            copy.take_back(slot)?;
        }
        Ok(())
    }

    /// Saves or restores the elements.
    pub(super) fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()> {
        let mut copies = self.0.iter_mut();
        copies.try_for_each(|copy| carrier.elements(copy.as_bytes_mut()))
    }
}
