//! LoRA: `y += (dropout(x) · Aᵀ · Bᵀ) · alpha / r` beside a frozen linear layer (Hu et al. 2021, arXiv:2106.09685),
//! by PEFT's convention: A `[r, in]` is drawn, B `[out, r]` starts at zero.

use candle_core::{DType, Result, Tensor};

use super::{DropoutPass, Pass, dropout::Dropout, param::Param};

/// A low-rank adapter of a linear layer: `scale · B A dropout(x)`.
#[derive(Debug)]
pub struct Lora {
    /// `[rank, in]`.
    pub a: Param,
    /// `[out, rank]`.
    pub b: Param,
    /// alpha / r.
    pub scale: f64,
    /// Dropout of the adapter's input.
    pub dropout: Dropout,
}

impl Lora {
    /// The adapter's part of the output: `[n, in] → [n, out]`, float32.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let h = self.input(x, pass)?.matmul(&self.a.f32()?.t()?)?;
        h.matmul(&self.b.f32()?.t()?)? * self.scale
    }

    /// The adapter's part of the input's gradient, float32, from that of the output, float32.
    pub fn input_gradient(&self, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let dx = (dy.matmul(&self.b.f32()?)?.matmul(&self.a.f32()?)? * self.scale)?;
        match self.mask(&dx, pass)? {
            Some(mask) => dx * mask,
            None => Ok(dx),
        }
    }

    /// Adds the gradients of A and B.
    pub fn accumulate(&mut self, x: &Tensor, dy: &Tensor, pass: &Pass) -> Result<()> {
        let input = self.input(x, pass)?;
        let h = input.matmul(&self.a.f32()?.t()?)?;
        let dy = (dy * self.scale)?;
        let dh = dy.matmul(&self.b.f32()?)?;
        self.b.accumulate(dy.t()?.matmul(&h)?)?;
        self.a.accumulate(dh.t()?.matmul(&input)?)
    }

    /// The input in float32, masked where the pass has dropout.
    fn input(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let x = x.to_dtype(DType::F32)?;
        match self.mask(&x, pass)? {
            Some(mask) => x * mask,
            None => Ok(x),
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.a.value.dims()[0]
    }

    /// Where the masks of its input come from, where it has any.
    pub(super) fn dropout_of<'a>(&self, pass: &'a Pass) -> Option<&'a DropoutPass> {
        pass.dropout.as_ref().filter(|_| self.dropout.is_active())
    }

    /// The mask of this step's samples, drawn anew whenever it is needed: `1 / (1 - p)` or 0, in the shape of `x`.
    fn mask(&self, x: &Tensor, pass: &Pass) -> Result<Option<Tensor>> {
        let Some(at) = self.dropout_of(pass) else {
            return Ok(None);
        };
        let mut factors = vec![0f32; x.elem_count()];
        let sample_elements = factors.len() / pass.batch;
        for (sample, part) in at.samples.iter().zip(factors.chunks_mut(sample_elements)) {
            self.dropout.mask(at.step, *sample).fill(0, part);
        }
        Tensor::from_vec(factors, x.shape(), x.device()).map(Some)
    }
}
