//! A dense tensor of the model, and its gradient if it is trained.

use arch::WeightName;
use candle_core::{DType, Result};
use kernels::embedding;
use memory::{
    Buffer,
    tiers::{HostCopy, Slot, count_copied},
};
use trace::Category;

use super::{
    convert::{self, Converted},
    tensor::{Float, Tensor, for_format},
};

/// A tensor that may be trained. Only a trainable one ever holds a gradient.
#[derive(Debug)]
pub struct Param {
    /// Hugging Face's name, such as `model.layers.0.input_layernorm.weight`.
    pub name: WeightName,
    /// The value, in the dtype that it is stored and trained in.
    pub value: Tensor,
    /// True if it is trained.
    pub trainable: bool,
    /// Its learning rate over the step's.
    pub lr_ratio: f64,
    /// True for the table of an embedding.
    pub is_embedding: bool,
    category: Category,
    gradient: Option<Tensor>,
    /// The gradient's elements while they wait in the host's memory.
    host_gradient: Option<HostCopy>,
}

impl Param {
    /// A weight of the base model.
    pub fn base(name: WeightName, value: Tensor, trainable: bool) -> Self {
        Self::new(name, value, trainable, Category::Parameter)
    }

    /// A weight of an adapter, which is trained.
    pub fn adapter(name: WeightName, value: Tensor) -> Self {
        Self::new(name, value, true, Category::Adapter)
    }

    /// A weight of an adapter, which is not trained.
    pub fn frozen_adapter(name: WeightName, value: Tensor) -> Self {
        Self::new(name, value, false, Category::Adapter)
    }

    /// True for a weight of an adapter.
    pub fn is_adapter(&self) -> bool {
        self.category == Category::Adapter
    }

    /// A weight of the base model that waits in the host's memory, and is not trained.
    pub fn offloaded(name: WeightName, value: Tensor) -> Self {
        Self::new(name, value, false, Category::Offloaded)
    }

    /// True if the value lies in the host's memory.
    pub fn is_offloaded(&self) -> bool {
        self.category == Category::Offloaded
    }

    /// Bytes of `rows` rows of the value, if it lies in the host's memory, count as copied.
    pub fn count_rows(&self, rows: usize) {
        if self.is_offloaded() {
            count_copied(rows * self.value.cols() * self.value.dtype().size_in_bytes());
        }
    }

    fn new(name: WeightName, value: Tensor, trainable: bool, category: Category) -> Self {
        value.label(category);
        Self {
            name,
            value,
            trainable,
            lr_ratio: 1.0,
            is_embedding: false,
            category,
            gradient: None,
            host_gradient: None,
        }
    }

    /// Puts a new value, of the same shape and dtype, in place of the old one.
    pub fn set(&mut self, value: Tensor) {
        value.label(self.category);
        self.value = value;
    }

    /// Puts other elements, row-major, in place of the value's, in its memory.
    pub fn fill(&mut self, values: &[f32]) -> Result<()> {
        if !self.value.has_kernels() {
            let values = Buffer::from(values.to_vec());
            let wide = Tensor::on_device(values, self.value.shape(), self.value.device())?;
            let value = wide.to_candle()?.to_dtype(self.value.dtype())?;
            self.set(Tensor::from_candle(value)?);
            return Ok(());
        }
        for_format!(self.value.dtype(), E => {
            kernels::convert::narrow(values, self.value.values_mut::<E>()?);
            Ok(())
        })
    }

    /// The format of an optimizer's state: an adapter's own, as PyTorch has it, and float32 for weights.
    pub fn state_dtype(&self) -> DType {
        match self.category {
            Category::Adapter => self.value.dtype(),
            _ => DType::F32,
        }
    }

    /// The value in float32.
    pub fn f32(&self) -> Result<Converted<'_>> {
        convert::widen(&self.value)
    }

    /// Adds a float32 gradient of the value's shape to the accumulator, which has the value's dtype. The first
    /// gradient's memory may become the accumulator's.
    pub fn accumulate(&mut self, gradient: Tensor) -> Result<()> {
        if !self.trainable {
            return Ok(());
        }
        let dtype = self.value.dtype();
        match &mut self.gradient {
            None => {
                let gradient = convert::into_narrow(gradient, dtype)?;
                self.hold(gradient);
            }
            Some(held) if held.has_kernels() => {
                let gradient = gradient.values::<f32>()?;
                for_format!(dtype, E => {
                    kernels::convert::accumulate(held.values_mut::<E>()?, gradient);
                    Ok(())
                })?;
            }
            Some(held) => {
                let sum = (held.to_candle_f32()? + gradient.to_candle()?)?.to_dtype(dtype)?;
                let sum = Tensor::from_candle(sum)?;
                self.hold(sum);
            }
        }
        Ok(())
    }

    /// Adds the rows of a gradient, `[indices, columns]`, to the accumulator's rows of these indices.
    pub fn accumulate_rows(&mut self, indices: &Buffer<u32>, rows: &Tensor) -> Result<()> {
        if !self.trainable {
            return Ok(());
        }
        if !rows.has_kernels() {
            let device = self.value.device();
            let zeros = candle_core::Tensor::zeros(self.value.dims(), DType::F32, device)?;
            let indices = candle_core::Tensor::from_slice(indices.values(), indices.len(), device)?;
            let sum = zeros.index_add(&indices, &rows.to_candle_f32()?, 0)?;
            return self.accumulate(Tensor::from_candle(sum)?);
        }
        let mut held = match self.gradient.take() {
            Some(held) => held,
            None => Tensor::zeros(self.value.shape(), self.value.dtype(), self.value.device())?,
        };
        let mut order = Buffer::<usize>::zeros(indices.len());
        if !memory::is_dry_run() {
            for_format!(held.dtype(), E => for_format!(rows.dtype(), R => {
                add_rows::<E, R>(&mut held, indices.values(), rows, order.values_mut())
            }))?;
        }
        self.hold(held);
        Ok(())
    }

    /// Adds a float32 gradient of the columns from `first` on to the accumulator's.
    pub fn accumulate_columns(&mut self, first: usize, part: &Tensor) -> Result<()> {
        if !self.trainable {
            return Ok(());
        }
        let (cols, width) = (self.value.cols(), part.cols());
        if !part.has_kernels() {
            let whole = part.to_candle()?.pad_with_zeros(1, first, cols - first - width)?;
            return self.accumulate(Tensor::from_candle(whole)?);
        }
        let mut held = match self.gradient.take() {
            Some(held) => held,
            None => Tensor::zeros(self.value.shape(), self.value.dtype(), self.value.device())?,
        };
        if !memory::is_dry_run() {
            let part = part.values::<f32>()?;
            for_format!(held.dtype(), E => {
                let rows = held.values_mut::<E>()?.chunks_exact_mut(cols);
                for (row, part) in rows.zip(part.chunks_exact(width)) {
                    kernels::convert::accumulate(&mut row[first..first + width], part);
                }
                Ok::<_, candle_core::Error>(())
            })?;
        }
        self.hold(held);
        Ok(())
    }

    fn hold(&mut self, gradient: Tensor) {
        let _module = memory::whole(self.name.in_timeline());
        gradient.label(Category::Gradient);
        self.gradient = Some(gradient);
    }

    /// The accumulated gradient, in the value's shape and dtype; without elements while it waits in the host's memory.
    pub fn gradient(&self) -> Option<&Tensor> {
        self.gradient.as_ref()
    }

    /// The value, to be changed in place, and the accumulated gradient.
    pub fn value_and_gradient(&mut self) -> (&mut Tensor, Option<&Tensor>) {
        (&mut self.value, self.gradient.as_ref())
    }

    /// Scales the accumulated gradient, as clipping does.
    pub fn scale_gradient(&mut self, factor: f64) -> Result<()> {
        let Some(gradient) = &mut self.gradient else {
            return Ok(());
        };
        if !gradient.has_kernels() {
            let scaled = (gradient.to_candle()? * factor)?;
            self.hold(Tensor::from_candle(scaled)?);
            return Ok(());
        }
        for_format!(gradient.dtype(), E => {
            kernels::convert::scale(gradient.values_mut::<E>()?, factor as f32);
            Ok(())
        })
    }

    /// Adds the parameter to the list if it is trained.
    pub fn push_trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Self>) {
        if self.trainable {
            params.push(self);
        }
    }

    /// Adds the value's memory to the list if it is not trained.
    pub fn push_frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        if !self.trainable {
            slots.push(self.value.slot());
        }
    }

    /// Moves the accumulated gradient to the host's memory.
    pub fn send_gradient_away(&mut self) -> Result<()> {
        if let Some(gradient) = &mut self.gradient
            && self.host_gradient.is_none()
        {
            self.host_gradient = Some(HostCopy::of(gradient.slot())?);
        }
        Ok(())
    }

    /// Moves the gradient back if it waits in the host's memory.
    pub fn bring_gradient_back(&mut self) -> Result<()> {
        if let (Some(gradient), Some(copy)) = (&mut self.gradient, self.host_gradient.take()) {
            let _module = memory::whole(self.name.in_timeline());
            let mut storage = copy.reserve(Category::Gradient);
            copy.copy_to(&mut storage)?;
            gradient.slot().put(storage);
        }
        Ok(())
    }

    /// True if the gradient waits in the host's memory.
    pub fn has_gradient_away(&self) -> bool {
        self.host_gradient.is_some()
    }

    /// Gives the gradient's memory back.
    pub fn release_gradient(&mut self) {
        self.gradient = None;
        self.host_gradient = None;
    }
}

fn add_rows<E: Float, R: Float>(table: &mut Tensor, indices: &[u32], rows: &Tensor, order: &mut [usize]) -> Result<()> {
    let cols = table.cols();
    embedding::add_rows(table.values_mut::<E>()?, cols, indices, rows.values::<R>()?, order);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, param, tensor, uniform, uniform_tensor, with_plain_ops};

    /// A parameter with the gradients of two micro-batches, scaled.
    fn accumulated(dtype: DType) -> Param {
        let mut param = param("p", &uniform("p", &[3, 17]).to_dtype(dtype).unwrap(), true);
        param.accumulate(uniform_tensor("first", &[3, 17])).unwrap();
        param.accumulate(uniform_tensor("second", &[3, 17])).unwrap();
        param.scale_gradient(0.5).unwrap();
        param
    }

    #[test]
    fn gradients_add_up_in_the_values_dtype() {
        let sum = (uniform("first", &[3, 17]) + uniform("second", &[3, 17])).unwrap();
        let want = (sum * 0.5).unwrap();
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F16, 2e-3), (DType::BF16, 1e-2)] {
            for param in [accumulated(dtype), with_plain_ops(|| accumulated(dtype))] {
                let gradient = param.gradient().unwrap();
                assert_eq!(gradient.dtype(), dtype);
                assert_close(gradient, &want, tolerance, "gradient");
            }
        }
    }

    #[test]
    fn a_frozen_parameter_holds_no_gradient() {
        let mut param = param("p", &uniform("p", &[3, 17]), false);
        param.accumulate(uniform_tensor("first", &[3, 17])).unwrap();
        let row = tensor(&uniform("row", &[1, 17]));
        param.accumulate_rows(&vec![1].into(), &row).unwrap();
        assert!(param.gradient().is_none());
    }
}
