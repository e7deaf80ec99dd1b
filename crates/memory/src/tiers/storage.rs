//! Tensors' memory of any format, which leaves the device's tier and comes back.

use std::mem;

use candle_core::Result;
use half::{bf16, f16};
use trace::Category;

use super::host_tensor::HostTensor;
use super::traffic::count_copied;
use crate::{Buffer, scope};

/// The elements of a tensor in one of the formats that weights are stored in. One that left its place is empty.
#[derive(Debug)]
pub enum Storage {
    /// Codes.
    U8(Buffer<u8>),
    /// Codes with a sign.
    I8(Buffer<i8>),
    /// Single precision.
    F32(Buffer<f32>),
    /// Half precision.
    F16(Buffer<f16>),
    /// bfloat16.
    Bf16(Buffer<bf16>),
    /// On any device.
    Candle(candle_core::Tensor),
}

/// A place that holds a tensor's memory while it is on the device.
pub trait Slot {
    /// The memory; the place is empty from now on.
    fn take(&mut self) -> Storage;

    /// Puts back memory of the place's format.
    fn put(&mut self, storage: Storage);

    /// The elements as bytes, in this machine's order; `None` of candle's tensors.
    fn as_bytes_mut(&mut self) -> Option<&mut [u8]>;
}

/// A tensor's memory in the host's tier, and what it takes to bring it back.
#[derive(Debug)]
pub struct HostCopy(OnHost);

#[derive(Debug)]
enum OnHost {
    /// In this process's memory, as on the device.
    Buffer(Storage),
    Candle(Box<HostTensor>),
}

macro_rules! implement_slot {
    ($type:ty, $variant:ident) => {
        impl Slot for Buffer<$type> {
            fn take(&mut self) -> Storage {
                Storage::$variant(mem::replace(self, Buffer::empty()))
            }

            fn put(&mut self, storage: Storage) {
                let Storage::$variant(buffer) = storage else {
                    unreachable!("a place gets back memory of its own format");
                };
                *self = buffer;
            }

            fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
                Some(Buffer::as_bytes_mut(self))
            }
        }
    };
}
implement_slot!(u8, U8);
implement_slot!(i8, I8);
implement_slot!(f32, F32);
implement_slot!(f16, F16);
implement_slot!(bf16, Bf16);

impl Slot for candle_core::Tensor {
    fn take(&mut self) -> Storage {
        Storage::Candle(self.clone())
    }

    fn put(&mut self, storage: Storage) {
        let Storage::Candle(tensor) = storage else {
            unreachable!("a place gets back memory of its own format");
        };
        *self = tensor;
    }

    fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl Storage {
    /// Memory of the same format and length, of the category of the thread's scope, whose elements are not written yet.
    fn unwritten_like(&self) -> Self {
        match self {
            Self::U8(buffer) => Self::U8(Buffer::unwritten(buffer.len())),
            Self::I8(buffer) => Self::I8(Buffer::unwritten(buffer.len())),
            Self::F32(buffer) => Self::F32(Buffer::unwritten(buffer.len())),
            Self::F16(buffer) => Self::F16(Buffer::unwritten(buffer.len())),
            Self::Bf16(buffer) => Self::Bf16(Buffer::unwritten(buffer.len())),
            Self::Candle(tensor) => Self::Candle(tensor.clone()),
        }
    }

    /// Copies all elements of memory of the same format and length.
    fn copy_from(&mut self, from: &Self) {
        fn copy<T: Copy>(to: &mut Buffer<T>, from: &Buffer<T>) {
            to.values_mut().copy_from_slice(from.values());
        }
        match (self, from) {
            (Self::U8(to), Self::U8(from)) => copy(to, from),
            (Self::I8(to), Self::I8(from)) => copy(to, from),
            (Self::F32(to), Self::F32(from)) => copy(to, from),
            (Self::F16(to), Self::F16(from)) => copy(to, from),
            (Self::Bf16(to), Self::Bf16(from)) => copy(to, from),
            _ => unreachable!("memory is copied to memory of its own format"),
        }
    }

    fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::U8(buffer) => Some(buffer.as_bytes_mut()),
            Self::I8(buffer) => Some(buffer.as_bytes_mut()),
            Self::F32(buffer) => Some(buffer.as_bytes_mut()),
            Self::F16(buffer) => Some(buffer.as_bytes_mut()),
            Self::Bf16(buffer) => Some(buffer.as_bytes_mut()),
            Self::Candle(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::U8(buffer) => buffer.bytes(),
            Self::I8(buffer) => buffer.bytes(),
            Self::F32(buffer) => buffer.bytes(),
            Self::F16(buffer) => buffer.bytes(),
            Self::Bf16(buffer) => buffer.bytes(),
            Self::Candle(tensor) => tensor.elem_count() * tensor.dtype().size_in_bytes(),
        }
    }
}

impl HostCopy {
    /// Copies the memory of `slot` to the host's tier and frees it on the device.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn of(slot: &mut dyn Slot) -> Result<Self> {
        let taken = slot.take();
        count_copied(taken.bytes());
        if let Storage::Candle(tensor) = &taken {
            let host = HostTensor::of(tensor)?;
            slot.put(Storage::Candle(host.stand_in()));
            return Ok(Self(OnHost::Candle(Box::new(host))));
        }
        let mut storage = {
            let _scope = scope(Category::Offloaded);
            taken.unwritten_like()
        };
        storage.copy_from(&taken);
        Ok(Self(OnHost::Buffer(storage)))
    }

    /// Allocates the memory on the device, of category `category`. [`Self::copy_to`] fills it, and allocates that of
    /// candle's tensors.
    pub fn reserve(&self, category: Category) -> Storage {
        let _scope = scope(category);
        match &self.0 {
            OnHost::Buffer(storage) => {
                count_copied(storage.bytes());
                storage.unwritten_like()
            }
            OnHost::Candle(host) => {
                count_copied(host.bytes());
                Storage::Candle(host.stand_in())
            }
        }
    }

    /// Copies the elements into memory that [`Self::reserve`] made.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn copy_to(&self, reserved: &mut Storage) -> Result<()> {
        match &self.0 {
            OnHost::Buffer(storage) => reserved.copy_from(storage),
            OnHost::Candle(host) => *reserved = Storage::Candle(host.to_device()?),
        }
        Ok(())
    }

    /// Copies elements that changed on the device back, and frees them there.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn take_back(&mut self, slot: &mut dyn Slot) -> Result<()> {
        let taken = slot.take();
        match (&mut self.0, &taken) {
            (OnHost::Candle(host), Storage::Candle(tensor)) => {
                host.update(tensor)?;
                slot.put(Storage::Candle(host.stand_in()));
            }
            (OnHost::Buffer(storage), taken) if mem::discriminant(storage) == mem::discriminant(taken) => {
                storage.copy_from(taken);
            }
            // Candle's ops made a tensor of what was a buffer.
            _ => {
                slot.put(taken);
                *self = Self::of(slot)?;
                return Ok(());
            }
        }
        count_copied(taken.bytes());
        Ok(())
    }

    /// The elements as bytes, in this machine's order; `None` of candle's tensors.
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            OnHost::Buffer(storage) => storage.as_bytes_mut(),
            OnHost::Candle(_) => None,
        }
    }

    /// The device's memory is of no more use: frees it, and leaves an empty place.
    pub fn release(&self, slot: &mut dyn Slot) {
        let taken = slot.take();
        if let (Storage::Candle(_), OnHost::Candle(host)) = (&taken, &self.0) {
            slot.put(Storage::Candle(host.stand_in()));
        }
    }
}
