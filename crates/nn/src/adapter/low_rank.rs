//! A low-rank term `scale · dropout(x) Aᵀ Bᵀ` beside a frozen linear layer: an adapter by itself, or a part of one.
//! LoRA, MiSS and VeRA differ in their factors alone.

use candle_core::{DType, Result, Tensor as Candle};

use super::{down::Down, up::Up};
use crate::{
    Pass,
    dropout::{self, Dropout},
    param::Param,
    tensor::Tensor,
};

/// A low-rank term of a linear layer, and the adapter that adds it.
#[derive(Debug)]
pub struct LowRank {
    /// A, `[rank, in]`.
    pub down: Down,
    /// B, `[out, rank]`.
    pub up: Up,
    /// Factor of the product.
    pub scale: f64,
    /// Dropout of the term's input.
    pub dropout: Dropout,
}

impl LowRank {
    /// Columns of the inner product `x Aᵀ`.
    pub fn rank(&self) -> usize {
        self.down.rank()
    }

    /// LoRA's own factors.
    pub(super) fn factors(&self) -> Result<(&Param, &Param)> {
        match (&self.down, &self.up) {
            (Down::Factor(a), Up::Factor(b)) => Ok((a, b)),
            _ => candle_core::bail!("the term has no factors of its own"),
        }
    }

    /// LoRA's own factors, to be changed.
    pub(super) fn factors_mut(&mut self) -> Result<(&mut Param, &mut Param)> {
        match (&mut self.down, &mut self.up) {
            (Down::Factor(a), Up::Factor(b)) => Ok((a, b)),
            _ => candle_core::bail!("the term has no factors of its own"),
        }
    }

    /// All factors but those that layers share.
    pub(super) fn own_factors<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        if let Down::Factor(a) = &mut self.down {
            params.push(a);
        }
        self.up.params(params);
    }

    /// The term's part of the output by candle's ops: `[n, in] → [n, out]`, float32.
    pub fn forward_plain(&self, x: &Candle, pass: &Pass) -> Result<Candle> {
        let a = self.down.plain(x.dim(1)?, x.device())?;
        let h = self.input_plain(x, pass)?.matmul(&a.t()?)?;
        h.matmul(&self.up.plain()?.t()?)? * self.scale
    }

    /// The term's part of the gradient of the layer's `inputs` inputs, float32, from that of the output, float32.
    pub fn input_gradient_plain(&self, dy: &Candle, inputs: usize, pass: &Pass) -> Result<Candle> {
        let dh = dy.matmul(&self.up.plain()?)?;
        let dx = (dh.matmul(&self.down.plain(inputs, dy.device())?)? * self.scale)?;
        match self.mask_plain(&dx, pass)? {
            Some(mask) => dx * mask,
            None => Ok(dx),
        }
    }

    /// Adds the gradients of what is trained of A and B.
    pub fn accumulate_plain(&mut self, x: &Candle, dy: &Candle, pass: &Pass) -> Result<()> {
        let input = self.input_plain(x, pass)?;
        let h = input.matmul(&self.down.plain(x.dim(1)?, x.device())?.t()?)?;
        let (dy, b) = ((dy * self.scale)?, self.up.plain()?);
        self.up.accumulate_plain(&dy.t()?.matmul(&h)?)?;
        match self.down.trained_mut() {
            Some(a) => {
                let dh = dy.matmul(&b)?;
                a.accumulate(Tensor::from_candle(dh.t()?.matmul(&input)?)?)
            }
            None => Ok(()),
        }
    }

    /// The input in float32, masked if the pass has dropout.
    fn input_plain(&self, x: &Candle, pass: &Pass) -> Result<Candle> {
        let x = x.to_dtype(DType::F32)?;
        match self.mask_plain(&x, pass)? {
            Some(mask) => x * mask,
            None => Ok(x),
        }
    }

    /// The masks of this step's samples, drawn again whenever it is needed: `1 / (1 - p)` or 0, in the shape of `x`.
    fn mask_plain(&self, x: &Candle, pass: &Pass) -> Result<Option<Candle>> {
        let masks = self.dropout.masks_of(pass, x.dim(1)?);
        let rows = pass.sequences.iter().map(|tokens| tokens.len());
        masks.map(|masks| dropout::factors(&masks, rows, x)).transpose()
    }
}
