//! Labels: the category of a tensor that is kept for another purpose than it was made for, and its dtype and shape.

use std::ptr::NonNull;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, DType, Layout, Storage, Tensor};

use super::allocator::{self, installed};
use super::category::Category;
use super::timeline;

/// Labels a tensor's memory with `category` from now on. The whole buffer is labelled, so a view labels the tensor that it
/// views. Does nothing on devices other than the CPU, and nothing in a process without a ledger.
pub fn label(tensor: &Tensor, category: Category) {
    if !installed() {
        return;
    }
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { return };
    if let Some(buffer) = storage_start(storage) {
        // SAFETY: the global allocator allocated a vector with a capacity, and the borrowed storage keeps it alive.
        unsafe { allocator::relabel(buffer, category) };
    }
    if timeline::is_recording() {
        describe_storage(storage, layout);
    }
}

/// Records the dtype and shape of a tensor that has its buffer for itself in the timeline, as [`label`] does, too.
/// Without a recording, this only reads a flag.
#[inline]
pub fn describe(tensor: &Tensor) {
    if timeline::is_recording() {
        let (storage, layout) = tensor.storage_and_layout();
        if let Storage::Cpu(storage) = &*storage {
            describe_storage(storage, layout);
        }
    }
}

/// Records the dtype and shape of a buffer outside tensors in the timeline. `dtype` is one of the names that
/// [`dtype_name`] returns. Without a recording, this only reads a flag.
#[inline]
pub fn describe_buffer<T>(values: &Vec<T>, dtype: &str, dimensions: &[usize]) {
    if !timeline::is_recording() {
        return;
    }
    let Some(number) = dtype_names().position(|name| name == dtype) else {
        debug_assert!(false, "a timeline has no number for the dtype {dtype}");
        return;
    };
    if let Some(buffer) = start(values) {
        let bytes = (values.capacity() * size_of::<T>()) as u64;
        // SAFETY: the global allocator allocated a vector with a capacity, and keeps the ledger during a recording. The
        // vector is borrowed here.
        unsafe { allocator::describe(buffer, bytes, number as u8, dimensions) };
    }
}

fn describe_storage(storage: &CpuStorage, layout: &Layout) {
    let Some(number) = DTYPES.iter().position(|(dtype, _)| *dtype == storage.dtype()) else {
        return;
    };
    if let Some(buffer) = storage_start(storage)
        && layout.start_offset() == 0
    {
        let bytes = (layout.shape().elem_count() * storage.dtype().size_in_bytes()) as u64;
        // SAFETY: as in `label`; the global allocator keeps the ledger during a recording.
        unsafe { allocator::describe(buffer, bytes, number as u8, layout.dims()) };
    }
}

/// The dtypes of a training run's tensors, by their number in a timeline.
const DTYPES: [(DType, &str); 8] = [
    (DType::F32, "float32"),
    (DType::BF16, "bfloat16"),
    (DType::F16, "float16"),
    (DType::F64, "float64"),
    (DType::U8, "uint8"),
    (DType::U32, "uint32"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
];

/// The formats of packed weights, which are not tensors. They are numbered after the dtypes.
const PACKED: [&str; 2] = ["int8", "nf4"];

/// All names, by their number.
fn dtype_names() -> impl Iterator<Item = &'static str> {
    DTYPES.into_iter().map(|(_, name)| name).chain(PACKED)
}

/// The name of the dtype or packed format with this number in a timeline.
pub fn dtype_name(number: u8) -> Option<&'static str> {
    dtype_names().nth(usize::from(number))
}

fn storage_start(storage: &CpuStorage) -> Option<NonNull<u8>> {
    match storage {
        CpuStorage::U8(values) => start(values),
        CpuStorage::U32(values) => start(values),
        CpuStorage::I16(values) => start(values),
        CpuStorage::I32(values) => start(values),
        CpuStorage::I64(values) => start(values),
        CpuStorage::BF16(values) => start(values),
        CpuStorage::F16(values) => start(values),
        CpuStorage::F32(values) => start(values),
        CpuStorage::F64(values) => start(values),
        CpuStorage::F8E4M3(values) => start(values),
        CpuStorage::F6E2M3(values) | CpuStorage::F6E3M2(values) => start(values),
        CpuStorage::F4(values) | CpuStorage::F8E8M0(values) => start(values),
    }
}

/// The start of a vector's allocation; `None` if the vector has none.
fn start<T>(values: &Vec<T>) -> Option<NonNull<u8>> {
    (values.capacity() > 0)
        .then(|| NonNull::new(values.as_ptr().cast_mut().cast()))
        .flatten()
}
