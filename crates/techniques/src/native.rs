//! The 16-bit format that a cell's GPU computes.

use cell::Cell;
use options::{FloatDtype, Stack};
use torch::gpu::{Gpu, NATIVE_BFLOAT16};

/// bfloat16, but float16 on a GPU before Ampere, on which PyTorch emulates bfloat16.
pub(super) fn native_half(cell: &Cell) -> FloatDtype {
    let gpu = cell.gpu.as_deref().and_then(|name| Gpu::named(name).ok());
    match gpu {
        Some(gpu) if cell.stack == Stack::Torch && gpu.capability < NATIVE_BFLOAT16 => FloatDtype::Float16,
        _ => FloatDtype::Bfloat16,
    }
}

/// The price in words of another format of 16 bits.
pub(super) const EMULATED: &str = "float16, which this GPU computes; it emulates bfloat16";
