//! CPU tensors as slices, for the kernels; and what the layers need of conversions and sums on any device.

use std::{
    cell::Cell,
    marker::PhantomData,
    ops::{Deref, Range},
};

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Result, Shape, Storage, Tensor, WithDType};

use crate::{
    kernels::{
        Element,
        buffer::written,
        convert,
        gemm::{Source, multiply::Multiply, operand::prefetch},
    },
    memory,
};

/// Runs a body with `$E` standing for the Rust type of a floating-point dtype.
macro_rules! for_format {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            candle_core::DType::F32 => {
                type $E = f32;
                $body
            }
            candle_core::DType::F16 => {
                type $E = half::f16;
                $body
            }
            candle_core::DType::BF16 => {
                type $E = half::bf16;
                $body
            }
            other => Err(candle_core::Error::Msg(format!(
                "activations are not kept in {other:?}"
            ))),
        }
    };
}
pub(crate) use for_format;

/// Runs a body with `$P` standing for the format that products of a hidden dtype are computed from.
macro_rules! for_number {
    ($dtype:expr, $P:ident => $body:expr) => {
        if $dtype == candle_core::DType::BF16
            && <half::bf16 as crate::kernels::gemm::multiply::Multiply>::is_native(
                crate::kernels::InstructionSet::current(),
            )
        {
            type $P = half::bf16;
            $body
        } else {
            type $P = f32;
            $body
        }
    };
}
pub(crate) use for_number;

/// Whether the kernels are for this device. On any other, candle's ops compute the same.
pub(crate) fn has_kernels(device: &Device) -> bool {
    #[cfg(test)]
    if super::testing::plain_only() {
        return false;
    }
    device.is_cpu()
}

/// A format of tensors that the kernels compute on.
pub(crate) trait Format: Element + WithDType {
    fn of_storage_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

macro_rules! implement_format {
    ($type:ty, $variant:ident) => {
        impl Format for $type {
            fn of_storage_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                match storage {
                    CpuStorage::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}
implement_format!(f32, F32);
implement_format!(half::f16, F16);
implement_format!(half::bf16, BF16);

/// The elements of a contiguous CPU tensor, borrowed.
pub(crate) struct Values<G, E> {
    storage: G,
    start: usize,
    len: usize,
    format: PhantomData<E>,
}

/// Borrows the elements of a tensor.
///
/// # Errors
/// Where it is not on the CPU, not contiguous, or of another dtype.
pub(crate) fn values<E: Format>(tensor: &Tensor) -> Result<Values<impl Deref<Target = Storage> + use<'_, E>, E>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a kernel was given a tensor that is not contiguous: {layout:?}");
    };
    match &*storage {
        Storage::Cpu(values) if tensor.dtype() == E::DTYPE => E::cpu_storage_as_slice(values)?,
        _ => candle_core::bail!("a CPU kernel for {:?} was given {:?}", E::DTYPE, tensor.dtype()),
    };
    Ok(Values {
        storage,
        start,
        len: end - start,
        format: PhantomData,
    })
}

impl<G: Deref<Target = Storage>, E: Format> Deref for Values<G, E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &*self.storage {
            Storage::Cpu(values) => match E::cpu_storage_as_slice(values) {
                Ok(slice) => &slice[self.start..][..self.len],
                Err(_) => unreachable!("the dtype was checked when the tensor was borrowed"),
            },
            _ => unreachable!("the device was checked when the tensor was borrowed"),
        }
    }
}

/// A contiguous CPU matrix in whatever format it is stored, borrowed.
pub(crate) struct Matrix<'a> {
    storage: Box<dyn Deref<Target = Storage> + Sync + 'a>,
    start: usize,
    cols: usize,
}

/// Borrows a matrix.
///
/// # Errors
/// Where it is not on the CPU or not contiguous.
pub(crate) fn matrix(tensor: &Tensor) -> Result<Matrix<'_>> {
    let cols = tensor.dim(candle_core::D::Minus1)?;
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(_) | CpuStorage::F16(_) | CpuStorage::BF16(_)), Some((start, _))) => Ok(Matrix {
            storage: Box::new(storage),
            start,
            cols,
        }),
        _ => candle_core::bail!("a product was given a tensor that is not a contiguous matrix: {layout:?}"),
    }
}

impl Matrix<'_> {
    /// The same rows without their first columns.
    pub(crate) fn skip_columns(mut self, column: usize) -> Self {
        self.start += column;
        self
    }

    /// The matrix without its first rows.
    pub(crate) fn skip_rows(mut self, row: usize) -> Self {
        self.start += row * self.cols;
        self
    }
}

impl<P: Multiply> Source<P> for Matrix<'_> {
    fn row<'a>(&'a self, row: usize, cols: Range<usize>, buffer: &'a mut [P]) -> &'a [P] {
        let at = self.start + row * self.cols + cols.start..self.start + row * self.cols + cols.end;
        match &**self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => P::read(&values[at], buffer),
            Storage::Cpu(CpuStorage::F16(values)) => P::read(&values[at], buffer),
            Storage::Cpu(CpuStorage::BF16(values)) => P::read(&values[at], buffer),
            _ => unreachable!("the format was checked when the matrix was borrowed"),
        }
    }

    fn lend(&self) -> Option<(&[P], usize)> {
        let values = match &**self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => P::lend(&values[self.start..]),
            Storage::Cpu(CpuStorage::F16(values)) => P::lend(&values[self.start..]),
            Storage::Cpu(CpuStorage::BF16(values)) => P::lend(&values[self.start..]),
            _ => None,
        };
        values.map(|values| (values, self.cols))
    }

    fn prefetch(&self, row: usize, cols: Range<usize>) {
        let at = self.start + row * self.cols + cols.start..self.start + row * self.cols + cols.end;
        match &**self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => prefetch(&values[at]),
            Storage::Cpu(CpuStorage::F16(values)) => prefetch(&values[at]),
            Storage::Cpu(CpuStorage::BF16(values)) => prefetch(&values[at]),
            _ => {}
        }
    }
}

/// A new CPU tensor of `shape`, every element of which `fill` writes.
pub(crate) fn tensor<E: Format>(shape: impl Into<Shape>, fill: impl FnOnce(&mut [E])) -> Result<Tensor> {
    let shape = shape.into();
    new(written(shape.elem_count(), fill), shape)
}

/// A new CPU tensor of these elements.
pub(crate) fn new<E: Format>(values: Vec<E>, shape: impl Into<Shape>) -> Result<Tensor> {
    let tensor = Tensor::from_vec(values, shape.into(), &Device::Cpu)?;
    memory::describe(&tensor);
    Ok(tensor)
}

/// Changes the elements of a contiguous CPU tensor in place. Whoever shares its storage sees the change.
pub(crate) fn change<E: Format, R>(tensor: &Tensor, change: impl FnOnce(&mut [E]) -> R) -> Result<R> {
    let op = InPlace {
        change: Cell::new(Some(change)),
        outcome: Cell::new(None),
        format: PhantomData,
    };
    tensor.inplace_op1(&op)?;
    op.outcome
        .take()
        .ok_or_else(|| candle_core::Error::Msg("a kernel was not run".into()))
}

/// candle's way of giving out elements for writing.
struct InPlace<F, R, E> {
    change: Cell<Option<F>>,
    outcome: Cell<Option<R>>,
    format: PhantomData<E>,
}

impl<E: Format, R, F: FnOnce(&mut [E]) -> R> InplaceOp1 for InPlace<F, R, E> {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (Some((start, end)), Some(values)) = (layout.contiguous_offsets(), E::of_storage_mut(storage)) else {
            candle_core::bail!(
                "a kernel was given a tensor of another dtype, or one that is not contiguous: {layout:?}"
            );
        };
        self.outcome
            .set(self.change.take().map(|change| change(&mut values[start..end])));
        Ok(())
    }
}

/// The tensor in float32, contiguous: itself where it is so, else a copy.
pub(crate) fn widen(x: &Tensor) -> Result<Tensor> {
    if x.dtype() == DType::F32 || !has_kernels(x.device()) {
        return x.to_dtype(DType::F32)?.contiguous();
    }
    let x = x.contiguous()?;
    for_format!(x.dtype(), E => {
        let from = values::<E>(&x)?;
        tensor(x.shape(), |to: &mut [f32]| convert::widen(&from, to))
    })
}

/// A float32 tensor in `dtype`: itself where that is float32, else a rounded copy.
pub(crate) fn narrow(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if dtype == DType::F32 || !has_kernels(x.device()) {
        return x.to_dtype(dtype);
    }
    let x = x.contiguous()?;
    for_format!(dtype, E => {
        let from = values::<f32>(&x)?;
        tensor(x.shape(), |to: &mut [E]| convert::narrow(&from, to))
    })
}
