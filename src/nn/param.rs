//! A dense tensor of the model, and its gradient where it is trained.

use candle_core::{DType, Result, Tensor};

use super::host::{self, for_format, values};
use crate::{
    kernels::{Element, convert, embedding, scale},
    memory::{self, Category},
};

/// A tensor that may be trained. Only a trainable one ever holds a gradient.
#[derive(Debug)]
pub struct Param {
    /// Hugging Face's name, such as `model.layers.0.input_layernorm.weight`.
    pub name: String,
    /// The value, in the dtype that it is stored and trained in.
    pub value: Tensor,
    /// True if it is trained.
    pub trainable: bool,
    category: Category,
    gradient: Option<Tensor>,
}

impl Param {
    /// A weight of the base model.
    pub fn base(name: impl Into<String>, value: Tensor, trainable: bool) -> Self {
        memory::label(&value, Category::Parameter);
        Self {
            name: name.into(),
            value,
            trainable,
            category: Category::Parameter,
            gradient: None,
        }
    }

    /// A weight of an adapter; always trained.
    pub fn adapter(name: impl Into<String>, value: Tensor) -> Self {
        memory::label(&value, Category::Adapter);
        Self {
            name: name.into(),
            value,
            trainable: true,
            category: Category::Adapter,
            gradient: None,
        }
    }

    /// Puts a new value, of the same shape and dtype, in place of the old one.
    pub fn set(&mut self, value: Tensor) {
        memory::label(&value, self.category);
        self.value = value;
    }

    /// The value in float32 (itself, where it is stored so).
    pub fn f32(&self) -> Result<Tensor> {
        host::widen(&self.value)
    }

    /// Adds a float32 gradient of the value's shape to the accumulator, which has the value's dtype. The gradient must be
    /// nobody else's: where it is the first, its memory may become the accumulator's.
    pub fn accumulate(&mut self, gradient: Tensor) -> Result<()> {
        if !self.trainable {
            return Ok(());
        }
        let gradient = gradient.contiguous()?;
        let dtype = self.value.dtype();
        match &self.gradient {
            None => self.hold(host::narrow(&gradient, dtype)?),
            Some(held) if host::has_kernels(held.device()) => {
                let gradient = values::<f32>(&gradient)?;
                for_format!(dtype, E => host::change(held, |held: &mut [E]| convert::accumulate(held, &gradient)))?;
            }
            Some(held) => self.hold((held.to_dtype(DType::F32)? + gradient)?.to_dtype(dtype)?),
        }
        Ok(())
    }

    /// Adds rows of a gradient to the accumulator's rows of these indices, on the CPU.
    pub fn accumulate_rows<R: Element>(&mut self, indices: &[u32], rows: &[R]) -> Result<()> {
        if !self.trainable {
            return Ok(());
        }
        let held = match self.gradient.take() {
            Some(held) => held,
            None => self.value.zeros_like()?,
        };
        let cols = held.dim(1)?;
        for_format!(held.dtype(), E => {
            host::change(&held, |held: &mut [E]| embedding::add_rows(held, cols, indices, rows))
        })?;
        self.hold(held);
        Ok(())
    }

    fn hold(&mut self, gradient: Tensor) {
        let _module = memory::module_of(&self.name);
        memory::label(&gradient, Category::Gradient);
        self.gradient = Some(gradient);
    }

    /// The accumulated gradient, in the value's shape and dtype.
    pub fn gradient(&self) -> Option<&Tensor> {
        self.gradient.as_ref()
    }

    /// Scales the accumulated gradient, as clipping does.
    pub fn scale_gradient(&mut self, factor: f64) -> Result<()> {
        let Some(gradient) = &self.gradient else { return Ok(()) };
        if !host::has_kernels(gradient.device()) {
            self.hold((gradient * factor)?);
            return Ok(());
        }
        for_format!(gradient.dtype(), E => {
            host::change(gradient, |values: &mut [E]| scale(values, factor as f32))
        })
    }

    /// Gives the gradient's memory back.
    pub fn release_gradient(&mut self) {
        self.gradient = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, uniform, with_plain_ops};

    /// A parameter with the gradients of two micro-batches, scaled.
    fn accumulated(dtype: DType) -> Param {
        let mut param = Param::base("p", uniform("p", &[3, 17]).to_dtype(dtype).unwrap(), true);
        param.accumulate(uniform("first", &[3, 17])).unwrap();
        param.accumulate(uniform("second", &[17, 3]).t().unwrap()).unwrap();
        param.scale_gradient(0.5).unwrap();
        param
    }

    #[test]
    fn gradients_add_up_in_the_values_dtype() {
        let sum = (uniform("first", &[3, 17]) + uniform("second", &[17, 3]).t().unwrap()).unwrap();
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
        let mut param = Param::base("p", uniform("p", &[3, 17]), false);
        param.accumulate(uniform("first", &[3, 17])).unwrap();
        param.accumulate_rows(&[1], &[1f32; 17]).unwrap();
        assert!(param.gradient().is_none());
    }
}
