//! A low-rank term `scale · dropout(x) Aᵀ Bᵀ` beside a frozen linear layer. LoRA has it by PEFT's convention: A `[rank, in]`
//! is drawn, B `[out, rank]` starts at zero. Other methods have other factors.

use candle_core::{DType, Device, Result, Tensor as Candle};

use super::{
    down::Down,
    start::{self, Factors},
    up::Up,
};
use crate::{
    arch::ModuleName,
    kernels::Element,
    memory::{self, Buffer, Category},
    nn::{
        Pass,
        dropout::{self, Dropout},
        param::Param,
        tensor::{Tensor, floating, for_format},
    },
    options::{Dtype, InitLoraWeights, LoraOptions},
    peft::{LORA_A, LORA_B},
};

/// A low-rank term of a linear layer.
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
    /// LoRA's term of a layer `[rows, cols]` before training.
    pub(super) fn new(
        options: &LoraOptions,
        dtype: Dtype,
        seed: u64,
        module: ModuleName,
        (rows, cols): (usize, usize),
        device: &Device,
    ) -> Result<Self> {
        let name = module.to_string();
        let rank = options.rank_of(&name);
        let dropout = Dropout::new(seed, module, options.dropout);
        let deviation = match options.init {
            InitLoraWeights::Gaussian => Some(1.0 / rank as f32),
            _ => None,
        };
        let factors = (!memory::is_dry_run()).then(|| start::init(seed, &name, rank, cols, rows, deviation));
        // From here on, all that is allocated is the adapter's.
        let _scope = memory::scope(Category::Adapter);
        let (a, b) = factors.map(|Factors { a, b }| (a, b)).unwrap_or_default();
        let factor = |values: Vec<f32>, shape: (usize, usize)| {
            for_format!(floating(dtype), E => {
                let values = Buffer::<E>::from_fn(shape.0 * shape.1, |at| Element::narrow(values[at]));
                Tensor::on_device(values, shape, device)
            })
        };
        let a = factor(a, (rank, cols))?;
        let mut b = Param::adapter(module.part(LORA_B), factor(b, (rows, rank))?);
        b.lr_ratio = options.lr_ratio;
        Ok(Self {
            down: Down::Factor(match options.trains_a {
                true => Param::adapter(module.part(LORA_A), a),
                false => Param::frozen_adapter(module.part(LORA_A), a),
            }),
            up: Up::Factor(b),
            scale: options.scale_of(&name),
            dropout,
        })
    }

    /// Columns of the inner product `x Aᵀ`.
    pub fn rank(&self) -> usize {
        self.down.rank()
    }

    /// The factors' tensors, but for those that layers share.
    pub(super) fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        if let Down::Factor(a) = &mut self.down {
            params.push(a);
        }
        self.up.params(params);
    }

    /// LoRA's own factors.
    pub(super) fn factors(&self) -> Result<(&Param, &Param)> {
        match (&self.down, &self.up) {
            (Down::Factor(a), Up::Factor(b)) => Ok((a, b)),
            _ => candle_core::bail!("the term has no factors of its own"),
        }
    }

    /// The same, to be changed.
    pub(super) fn factors_mut(&mut self) -> Result<(&mut Param, &mut Param)> {
        match (&mut self.down, &mut self.up) {
            (Down::Factor(a), Up::Factor(b)) => Ok((a, b)),
            _ => candle_core::bail!("the term has no factors of its own"),
        }
    }

    /// The term's part of the output by candle's ops: `[n, in] → [n, out]`, float32.
    pub(crate) fn forward_plain(&self, x: &Candle, pass: &Pass) -> Result<Candle> {
        let a = self.down.plain(x.dim(1)?, x.device())?;
        let h = self.input_plain(x, pass)?.matmul(&a.t()?)?;
        h.matmul(&self.up.plain()?.t()?)? * self.scale
    }

    /// The term's part of the gradient of the layer's `inputs` inputs, float32, from that of the output, float32.
    pub(crate) fn input_gradient_plain(&self, dy: &Candle, inputs: usize, pass: &Pass) -> Result<Candle> {
        let dh = dy.matmul(&self.up.plain()?)?;
        let dx = (dh.matmul(&self.down.plain(inputs, dy.device())?)? * self.scale)?;
        match self.mask_plain(&dx, pass)? {
            Some(mask) => dx * mask,
            None => Ok(dx),
        }
    }

    /// Adds the gradients of what is trained of A and B.
    pub(crate) fn accumulate_plain(&mut self, x: &Candle, dy: &Candle, pass: &Pass) -> Result<()> {
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
        let masks = self.dropout.masks(pass);
        let rows = pass.sequences.iter().map(|tokens| tokens.len());
        masks.map(|masks| dropout::factors(&masks, rows, x)).transpose()
    }
}
