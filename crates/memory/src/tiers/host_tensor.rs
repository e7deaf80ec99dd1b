//! Tensors of candle's in the host's memory.

use candle_core::{Device, Result, Tensor};

#[cfg(feature = "cuda")]
use super::pinned::Pinned;

/// The elements of a tensor of candle's in the host's memory: page-locked if they come from a GPU.
#[derive(Debug)]
pub(super) struct HostTensor {
    /// The tensor that takes the place of the device's meanwhile.
    stand_in: Tensor,
    elements: Elements,
}

#[derive(Debug)]
enum Elements {
    /// The stand-in has them, and this device gets them back.
    StandIn(Device),
    #[cfg(feature = "cuda")]
    Pinned(Pinned),
}

impl HostTensor {
    /// Copies a tensor's elements to the host. A tensor of the CPU's, which tests alone offload, shares them instead.
    ///
    /// # Errors
    /// Errors of candle.
    pub(super) fn of(tensor: &Tensor) -> Result<Self> {
        #[cfg(feature = "cuda")]
        if let Some(pinned) = Pinned::of(tensor)? {
            // One element stands for all: the shape and the dtype are asked for while the others are away.
            let stand_in = Tensor::zeros((), tensor.dtype(), &Device::Cpu)?.broadcast_as(tensor.shape())?;
            let elements = Elements::Pinned(pinned);
            return Ok(Self { stand_in, elements });
        }
        Ok(Self {
            stand_in: tensor.to_device(&Device::Cpu)?,
            elements: Elements::StandIn(tensor.device().clone()),
        })
    }

    /// The elements on the device that they came from.
    ///
    /// # Errors
    /// If the device has no room for them.
    pub(super) fn to_device(&self) -> Result<Tensor> {
        match &self.elements {
            Elements::StandIn(device) => self.stand_in.to_device(device),
            #[cfg(feature = "cuda")]
            Elements::Pinned(pinned) => pinned.to_device(),
        }
    }

    /// Takes over the elements of a tensor that is on the device and changed there.
    ///
    /// # Errors
    /// Errors of candle.
    pub(super) fn update(&mut self, tensor: &Tensor) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Elements::Pinned(pinned) = &mut self.elements {
            return pinned.update(tensor);
        }
        *self = Self::of(tensor)?;
        Ok(())
    }

    /// The tensor for the device's place while the elements are here.
    pub(super) fn stand_in(&self) -> Tensor {
        self.stand_in.clone()
    }

    pub(super) fn bytes(&self) -> usize {
        self.stand_in.elem_count() * self.stand_in.dtype().size_in_bytes()
    }
}
