//! Page-locked copies of a GPU's tensors. A stream of its own copies them while candle's computes. In a context with
//! more streams than one, cudarc keeps an event of each tensor's last write and last reads, and every use waits for
//! them on the GPU; so neither stream reads what the other still writes, nor frees what it still reads.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::{CudaStream, DeviceRepr, PinnedHostSlice};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::{CudaDevice, CudaStorage, DType, Result, Shape, Storage, Tensor, op::BackpropOp};
use half::{bf16, f16};

/// The elements of a tensor in page-locked memory, and the way back to its GPU.
#[derive(Debug)]
pub(super) struct Pinned {
    elements: Elements,
    shape: Shape,
    device: CudaDevice,
    copies: Arc<CudaStream>,
}

#[derive(Debug)]
enum Elements {
    U8(PinnedHostSlice<u8>),
    F32(PinnedHostSlice<f32>),
    F16(PinnedHostSlice<f16>),
    Bf16(PinnedHostSlice<bf16>),
}

impl Pinned {
    /// Begins to copy a tensor's elements; `None` if they are not a GPU's, or of a dtype that nothing here has.
    pub(super) fn of(tensor: &Tensor) -> Result<Option<Self>> {
        let tensor = tensor.contiguous()?;
        let (storage, _) = tensor.storage_and_layout();
        let Storage::Cuda(on_device) = &*storage else {
            return Ok(None);
        };
        let device = on_device.device.clone();
        let copies = copy_stream(&device)?;
        let len = tensor.elem_count();
        let elements = match tensor.dtype() {
            DType::U8 => Elements::U8(allocate(&copies, len)?),
            DType::F32 => Elements::F32(allocate(&copies, len)?),
            DType::F16 => Elements::F16(allocate(&copies, len)?),
            DType::BF16 => Elements::Bf16(allocate(&copies, len)?),
            _ => return Ok(None),
        };
        let shape = tensor.shape().clone();
        let mut pinned = Self {
            elements,
            shape,
            device,
            copies,
        };
        pinned.update(&tensor)?;
        Ok(Some(pinned))
    }

    /// Begins to copy the elements of a tensor of the same shape and dtype.
    pub(super) fn update(&mut self, tensor: &Tensor) -> Result<()> {
        let tensor = tensor.contiguous()?;
        let copies = &self.copies;
        match &mut self.elements {
            Elements::U8(pinned) => to_host(copies, &tensor, pinned),
            Elements::F32(pinned) => to_host(copies, &tensor, pinned),
            Elements::F16(pinned) => to_host(copies, &tensor, pinned),
            Elements::Bf16(pinned) => to_host(copies, &tensor, pinned),
        }
    }

    /// Begins to copy the elements to new memory of the GPU.
    pub(super) fn to_device(&self) -> Result<Tensor> {
        let (copies, device) = (&self.copies, &self.device);
        let storage = match &self.elements {
            Elements::U8(pinned) => to_device(copies, device, pinned),
            Elements::F32(pinned) => to_device(copies, device, pinned),
            Elements::F16(pinned) => to_device(copies, device, pinned),
            Elements::Bf16(pinned) => to_device(copies, device, pinned),
        }?;
        let storage = Storage::Cuda(storage);
        Ok(Tensor::from_storage(
            storage,
            self.shape.clone(),
            BackpropOp::none(),
            false,
        ))
    }
}

fn allocate<T: DeviceRepr>(copies: &CudaStream, len: usize) -> Result<PinnedHostSlice<T>> {
    // SAFETY: the memory is not set; `to_host` writes it before anything reads it. No flags: the processor and the GPU
    // may both read and write it.
    unsafe { copies.context().alloc_pinned_with_flags(len, 0) }.w()
}

fn to_host<T: DeviceRepr + CudaDType>(
    copies: &Arc<CudaStream>,
    tensor: &Tensor,
    pinned: &mut PinnedHostSlice<T>,
) -> Result<()> {
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cuda(storage), Some((start, end))) = (&*storage, layout.contiguous_offsets()) else {
        candle_core::bail!("a tensor of {:?} does not leave a GPU", tensor.device());
    };
    let elements = storage.as_cuda_slice::<T>()?.slice(start..end);
    copies.memcpy_dtoh(&elements, pinned).w()
}

fn to_device<T: DeviceRepr + CudaDType>(
    copies: &Arc<CudaStream>,
    device: &CudaDevice,
    pinned: &PinnedHostSlice<T>,
) -> Result<CudaStorage> {
    let elements = copies.clone_htod(pinned).w()?;
    Ok(CudaStorage::wrap_cuda_slice(elements, device.clone()))
}

/// The stream that copies for a device, one for each of candle's contexts.
fn copy_stream(device: &CudaDevice) -> Result<Arc<CudaStream>> {
    static STREAMS: Mutex<Vec<Arc<CudaStream>>> = Mutex::new(Vec::new());
    let context = device.cuda_stream().context().clone();
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.iter().find(|stream| Arc::ptr_eq(stream.context(), &context)) {
        return Ok(Arc::clone(stream));
    }
    let stream = context.new_stream().w()?;
    streams.push(Arc::clone(&stream));
    Ok(stream)
}
