//! A tensor of a layer: elements in this process's memory for the kernels, a tensor of candle's for plain ops, or a
//! size alone in a dry run.

use candle_core::{DType, Device, Result, WithDType};
use half::{bf16, f16};
use kernels::Dispatch as _;
use kernels::Element;
use memory::{Buffer, Plain, tiers::Slot};
use options::Dtype;
use trace::Category;

/// Rows and columns of a matrix, or the elements of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; 2],
    rank: usize,
}

impl Shape {
    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims().iter().product()
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<usize> for Shape {
    fn from(elements: usize) -> Self {
        Self {
            dims: [elements, 1],
            rank: 1,
        }
    }
}

impl From<(usize, usize)> for Shape {
    fn from((rows, cols): (usize, usize)) -> Self {
        Self {
            dims: [rows, cols],
            rank: 2,
        }
    }
}

/// A matrix or a vector. It owns its memory: whoever has it mutably may compute in place, and whoever drops it frees
/// it.
#[derive(Debug)]
pub struct Tensor {
    shape: Shape,
    data: Data,
}

/// The elements in their format.
#[derive(Debug)]
pub enum Data {
    /// float32.
    F32(Buffer<f32>),
    /// float16.
    F16(Buffer<f16>),
    /// bfloat16.
    Bf16(Buffer<bf16>),
    /// On any device; computed with by candle's ops alone.
    Candle(candle_core::Tensor),
}

/// A format of elements.
pub trait Format: Plain + Default + WithDType {
    /// Its name in timelines.
    const NAME: &'static str;
    /// These elements.
    fn wrap(values: Buffer<Self>) -> Data;
    /// The elements, if they have this format.
    fn of(data: &Data) -> Option<&Buffer<Self>>;
    /// The elements, to be changed, if they have this format.
    fn of_mut(data: &mut Data) -> Option<&mut Buffer<Self>>;
}

/// A format of activations, gradients and weights.
pub trait Float: Format + Element {}

impl<E: Format + Element> Float for E {}

macro_rules! implement_format {
    ($type:ty, $variant:ident, $name:literal) => {
        impl Format for $type {
            const NAME: &'static str = $name;

            fn wrap(values: Buffer<Self>) -> Data {
                Data::$variant(values)
            }

            fn of(data: &Data) -> Option<&Buffer<Self>> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn of_mut(data: &mut Data) -> Option<&mut Buffer<Self>> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}
implement_format!(f32, F32, "float32");
implement_format!(f16, F16, "float16");
implement_format!(bf16, Bf16, "bfloat16");

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
        if $crate::tensor::multiplies_bfloat16($dtype) {
            type $P = half::bf16;
            $body
        } else {
            type $P = f32;
            $body
        }
    };
}
pub(crate) use for_number;

/// True if products of this hidden dtype are computed in bfloat16.
pub fn multiplies_bfloat16(dtype: DType) -> bool {
    use kernels::{InstructionSet, gemm::multiply::Multiply};
    let level = memory::dry_run_instruction_set().unwrap_or_else(InstructionSet::current);
    dtype == DType::BF16 && bf16::is_native(level)
}

/// The format that values of a dtype are computed in: its own, or bfloat16 for quantised weights.
pub fn floating(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Float32 => DType::F32,
        Dtype::Float16 => DType::F16,
        Dtype::Bfloat16 | Dtype::Int8 | Dtype::Int4 => DType::BF16,
    }
}

impl Tensor {
    /// A tensor of these elements, as many as the shape has.
    pub fn new<E: Format>(values: Buffer<E>, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        debug_assert_eq!(values.len(), shape.len());
        values.describe(E::NAME, shape.dims());
        Self {
            shape,
            data: E::wrap(values),
        }
    }

    /// A tensor in this process's memory whose elements are written before they are read.
    pub fn unwritten(shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        let shape = shape.into();
        for_format!(dtype, E => Ok(Self::new(Buffer::<E>::unwritten(shape.len()), shape)))
    }

    /// Zeros on a device.
    pub fn zeros(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Self> {
        let shape = shape.into();
        if !device.is_cpu() {
            return candle_core::Tensor::zeros(shape.dims(), dtype, device).map(Self::from_candle_unchecked);
        }
        for_format!(dtype, E => Ok(Self::new(Buffer::<E>::zeros(shape.len()), shape)))
    }

    /// A tensor in this process's memory of these values, rounded to `dtype`.
    ///
    /// # Errors
    /// If there are more or fewer values than the shape has elements, or `dtype` is not a format of activations.
    pub fn from_f32(values: &[f32], shape: impl Into<Shape>, dtype: DType) -> Result<Self> {
        let shape = shape.into();
        if values.len() != shape.len() {
            candle_core::bail!("{} values for a tensor of {:?}", values.len(), shape.dims());
        }
        for_format!(dtype, E => Ok(Self::written::<E>(shape, |out| kernels::convert::narrow(values, out))))
    }

    /// A tensor of `shape`, every element of which `fill` writes.
    pub fn written<E: Format>(shape: impl Into<Shape>, fill: impl FnOnce(&mut [E])) -> Self {
        let shape = shape.into();
        let mut values = Buffer::unwritten(shape.len());
        if !memory::is_dry_run() {
            fill(values.values_mut());
        }
        Self::new(values, shape)
    }

    /// These elements on a device. Those of a dry run stay where they are.
    pub fn on_device<E: Format>(values: Buffer<E>, shape: impl Into<Shape>, device: &Device) -> Result<Self> {
        let shape = shape.into();
        if device.is_cpu() {
            return Ok(Self::new(values, shape));
        }
        candle_core::Tensor::from_slice(values.values(), shape.dims(), device).map(Self::from_candle_unchecked)
    }

    /// A tensor of candle's, with one or two dimensions.
    pub fn from_candle(tensor: candle_core::Tensor) -> Result<Self> {
        match tensor.rank() {
            1 | 2 => Ok(Self::from_candle_unchecked(tensor)),
            rank => candle_core::bail!("a layer's tensor has one or two dimensions, not {rank}"),
        }
    }

    fn from_candle_unchecked(tensor: candle_core::Tensor) -> Self {
        let shape = match *tensor.dims() {
            [rows, cols] => Shape::from((rows, cols)),
            _ => Shape::from(tensor.elem_count()),
        };
        Self {
            shape,
            data: Data::Candle(tensor),
        }
    }

    /// This tensor's elements in another shape of as many.
    pub fn reshaped(self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        match self.data {
            Data::Candle(tensor) => Self::from_candle(tensor.reshape(shape.dims())?),
            data => Ok(Self { shape, data }),
        }
    }

    /// This tensor for candle's ops: shared if it is candle's already, else copied.
    pub fn to_candle(&self) -> Result<candle_core::Tensor> {
        fn copy<E: Format>(values: &Buffer<E>, shape: Shape) -> Result<candle_core::Tensor> {
            candle_core::Tensor::from_slice(values.values(), shape.dims(), &Device::Cpu)
        }
        match &self.data {
            Data::F32(values) => copy(values, self.shape),
            Data::F16(values) => copy(values, self.shape),
            Data::Bf16(values) => copy(values, self.shape),
            Data::Candle(tensor) => Ok(tensor.clone()),
        }
    }

    /// This tensor in float32, for candle's ops.
    pub fn to_candle_f32(&self) -> Result<candle_core::Tensor> {
        self.to_candle()?.to_dtype(DType::F32)
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The dimensions, one or two.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// The first dimension.
    pub fn rows(&self) -> usize {
        self.shape.dims[0]
    }

    /// The second dimension; 1 for a vector.
    pub fn cols(&self) -> usize {
        self.shape.dims[1]
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        match &self.data {
            Data::F32(_) => DType::F32,
            Data::F16(_) => DType::F16,
            Data::Bf16(_) => DType::BF16,
            Data::Candle(tensor) => tensor.dtype(),
        }
    }

    /// The device that holds the elements.
    pub fn device(&self) -> &Device {
        match &self.data {
            Data::Candle(tensor) => tensor.device(),
            _ => &Device::Cpu,
        }
    }

    /// True if the kernels compute on it; else candle's ops compute the same.
    pub fn has_kernels(&self) -> bool {
        !matches!(self.data, Data::Candle(_)) && !crate::plain_ops::is_on()
    }

    /// The elements; none in a dry run.
    ///
    /// # Errors
    /// If they are of another format, or candle's.
    pub fn values<E: Format>(&self) -> Result<&[E]> {
        match E::of(&self.data) {
            Some(values) => Ok(values.values()),
            None => Err(self.not_in::<E>()),
        }
    }

    /// The elements, to be changed; none in a dry run.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn values_mut<E: Format>(&mut self) -> Result<&mut [E]> {
        if E::of(&self.data).is_none() {
            return Err(self.not_in::<E>());
        }
        Ok(E::of_mut(&mut self.data).map_or(&mut [], Buffer::values_mut))
    }

    fn not_in<E: Format>(&self) -> candle_core::Error {
        candle_core::Error::Msg(format!(
            "a kernel for {:?} was given {:?} of {:?}",
            E::DTYPE,
            self.dtype(),
            self.device()
        ))
    }

    /// A tensor of candle's on `device`; others are on the CPU, where they stay.
    pub fn moved_to(self, device: &Device) -> Result<Self> {
        match &self.data {
            Data::Candle(tensor) => tensor.to_device(device).map(Self::from_candle_unchecked),
            _ => Ok(self),
        }
    }

    /// The place of the elements, which they may leave.
    pub fn slot(&mut self) -> &mut dyn Slot {
        match &mut self.data {
            Data::F32(values) => values,
            Data::F16(values) => values,
            Data::Bf16(values) => values,
            Data::Candle(tensor) => tensor,
        }
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    /// Labels the memory with `category` from now on. Does nothing for tensors of candle's.
    pub fn label(&self, category: Category) {
        match &self.data {
            Data::F32(values) => self.label_buffer(values, category),
            Data::F16(values) => self.label_buffer(values, category),
            Data::Bf16(values) => self.label_buffer(values, category),
            Data::Candle(_) => {}
        }
    }

    fn label_buffer<E: Format>(&self, values: &Buffer<E>, category: Category) {
        values.label(category);
        values.describe(E::NAME, self.dims());
    }

    /// The tensor, kept for the backward pass.
    pub fn kept(self) -> Self {
        self.label(Category::Activation);
        self
    }

    /// The elements in float32, in this process's memory.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn to_vec_f32(&self) -> Result<Vec<f32>> {
        if let Data::Candle(tensor) = &self.data {
            return tensor
                .to_dtype(DType::F32)?
                .to_device(&Device::Cpu)?
                .flatten_all()?
                .to_vec1();
        }
        for_format!(self.dtype(), E => Ok(self.values::<E>()?.iter().map(|value| Element::widen(*value)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use options::InstructionSet;

    use super::*;
    use crate::testing::{assert_close, elements, tensor, uniform};

    #[test]
    fn candles_tensors_are_copied_with_shape_and_format() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for shape in [&[5, 7][..], &[35]] {
                let values = uniform("x", shape).to_dtype(dtype).unwrap();
                let copy = tensor(&values);
                assert_eq!((copy.dims(), copy.len(), copy.dtype()), (shape, 35, dtype));
                assert!(copy.has_kernels() && !Tensor::from_candle(values.clone()).unwrap().has_kernels());
                assert_close(&copy, &values, 0.0, "copy");
                assert_close(&copy.to_candle().unwrap(), &values, 0.0, "and back");
            }
        }
        assert!(Tensor::from_candle(uniform("x", &[1, 2, 3])).is_err());
    }

    #[test]
    fn elements_are_given_out_in_their_format_alone() {
        let mut x = Tensor::written((2, 3), |out: &mut [bf16]| out.fill(bf16::ONE));
        assert_eq!(x.values::<bf16>().unwrap(), [bf16::ONE; 6]);
        let error = x.values::<f32>().unwrap_err().to_string();
        assert!(error.contains("a kernel for F32 was given BF16"), "{error}");
        assert!(x.values_mut::<f16>().is_err());
        x.values_mut::<bf16>().unwrap()[5] = bf16::ZERO;
        assert_eq!(elements(&x), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
        let candle = Tensor::from_candle(uniform("x", &[2, 3])).unwrap();
        assert!(candle.values::<f32>().is_err());
    }

    #[test]
    fn a_tensor_of_a_dry_run_has_a_size_and_no_elements() {
        let ((), trace) = memory::dry_run(InstructionSet::Portable, 0, || {
            let x = Tensor::written((1 << 20, 1 << 20), |_: &mut [f32]| unreachable!("nothing is computed"));
            assert_eq!((x.dims(), x.len()), (&[1 << 20, 1 << 20][..], 1 << 40));
            assert!(x.has_kernels() && x.values::<f32>().unwrap().is_empty());
        });
        assert_eq!(trace.blocks(), 1);
    }

    #[test]
    fn a_dry_run_multiplies_as_its_instruction_set_does() {
        let multiplies = |level| memory::dry_run(level, 0, || multiplies_bfloat16(DType::BF16)).0;
        assert!(!multiplies(InstructionSet::Portable));
        assert!(InstructionSet::ALL.into_iter().any(multiplies));
    }
}
