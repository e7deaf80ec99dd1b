//! The category of a tensor that is kept for another purpose than it was made for.

use std::ptr::NonNull;

use candle_core::{CpuStorage, Storage, Tensor};

use super::allocator::{self, installed};
use super::category::Category;

/// Says what a tensor's memory is held for from now on. The whole buffer is labelled, so a view labels what it is a view
/// of. Does nothing on other devices than the CPU, and where the process keeps no ledger.
pub fn label(tensor: &Tensor, category: Category) {
    if !installed() {
        return;
    }
    let (storage, _) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { return };
    if let Some(buffer) = buffer(storage) {
        // SAFETY: a vector that has a capacity was allocated by the global allocator, and lives as long as the storage
        // that is borrowed here.
        unsafe { allocator::relabel(buffer, category) };
    }
}

fn buffer(storage: &CpuStorage) -> Option<NonNull<u8>> {
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

/// Where a vector's allocation begins; none where it has none.
fn start<T>(values: &Vec<T>) -> Option<NonNull<u8>> {
    (values.capacity() > 0)
        .then(|| NonNull::new(values.as_ptr().cast_mut().cast()))
        .flatten()
}
