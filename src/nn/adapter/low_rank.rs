//! A low-rank term `scale · dropout(x) Aᵀ Bᵀ` beside a frozen linear layer, by PEFT's convention: A `[rank, in]` is drawn,
//! B `[out, rank]` starts at zero.

use candle_core::{DType, Device, Result, Tensor as Candle};

use super::start::{self, Factors};
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
    /// `[rank, in]`.
    pub a: Param,
    /// `[out, rank]`.
    pub b: Param,
    /// Factor of the product.
    pub scale: f64,
    /// Dropout of the term's input.
    pub dropout: Dropout,
}

impl LowRank {
    /// The term of a layer `[rows, cols]` before training.
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
            a: match options.trains_a {
                true => Param::adapter(module.part(LORA_A), a),
                false => Param::frozen_adapter(module.part(LORA_A), a),
            },
            b,
            scale: options.scale_of(&name),
            dropout,
        })
    }

    /// Columns of the inner product `x Aᵀ`.
    pub fn rank(&self) -> usize {
        self.a.value.rows()
    }

    /// Both factors.
    pub(super) fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        params.push(&mut self.a);
        params.push(&mut self.b);
    }

    /// The term's part of the output by candle's ops: `[n, in] → [n, out]`, float32.
    pub(crate) fn forward_plain(&self, x: &Candle, pass: &Pass) -> Result<Candle> {
        let h = self.input_plain(x, pass)?.matmul(&self.a.value.to_candle_f32()?.t()?)?;
        h.matmul(&self.b.value.to_candle_f32()?.t()?)? * self.scale
    }

    /// The term's part of the input's gradient, float32, from that of the output, float32.
    pub(crate) fn input_gradient_plain(&self, dy: &Candle, pass: &Pass) -> Result<Candle> {
        let dh = dy.matmul(&self.b.value.to_candle_f32()?)?;
        let dx = (dh.matmul(&self.a.value.to_candle_f32()?)? * self.scale)?;
        match self.mask_plain(&dx, pass)? {
            Some(mask) => dx * mask,
            None => Ok(dx),
        }
    }

    /// Adds the gradients of A and B.
    pub(crate) fn accumulate_plain(&mut self, x: &Candle, dy: &Candle, pass: &Pass) -> Result<()> {
        let input = self.input_plain(x, pass)?;
        let h = input.matmul(&self.a.value.to_candle_f32()?.t()?)?;
        let dy = (dy * self.scale)?;
        self.b.accumulate(Tensor::from_candle(dy.t()?.matmul(&h)?)?)?;
        if !self.a.trainable {
            return Ok(());
        }
        let dh = dy.matmul(&self.b.value.to_candle_f32()?)?;
        self.a.accumulate(Tensor::from_candle(dh.t()?.matmul(&input)?)?)
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
