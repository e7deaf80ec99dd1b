//! LoRA (Hu et al. 2021, arXiv:2106.09685): the low-rank term alone, with `scale = alpha / r`, or `alpha / √r` by
//! rsLoRA (Kalajdzievski 2023, arXiv:2312.03732). LoRA-FA (Zhang et al. 2023, arXiv:2308.03303) freezes A; LoRA+ (Hayou
//! et al. 2024, arXiv:2402.12354) trains B with a higher learning rate.

use std::ops::Range;

use arch::ModuleName;
use candle_core::{Device, Result};
use kernels::Element;
use memory::Buffer;
use options::methods::{LORA_A, LORA_B};
use options::{AdapterOptions, InitLoraWeights, Lora, LoraATraining};
use trace::Category;

use super::{
    change::{Change, Saved, add_product},
    down::Down,
    low_rank::LowRank,
    start::{self, Factors},
    up::Up,
};
use crate::{
    dropout::Dropout,
    param::Param,
    tensor::{Tensor, floating, for_format},
};

/// W + scale · B A.
pub(super) struct Product<'a> {
    a: &'a [f32],
    b: &'a [f32],
    scale: f32,
}

impl<'a> Product<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Self {
        Self {
            a: saved.values(LORA_A),
            b: saved.values(LORA_B),
            scale: saved.options.scale_of(saved.module) as f32,
        }
    }
}

impl Change for Product<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        add_product(values, columns, rows, self.scale, (self.b, self.a));
    }
}

impl LowRank {
    /// LoRA's term of a layer `[rows, cols]` before training. By PEFT's convention A `[rank, in]` is drawn, and B
    /// `[out, rank]` starts at zero.
    pub(super) fn lora(
        lora: &Lora,
        options: &AdapterOptions,
        seed: u64,
        module: ModuleName,
        (rows, cols): (usize, usize),
        device: &Device,
    ) -> Result<Self> {
        let name = module.to_string();
        let rank = options.rank_of(&name);
        let dropout = Dropout::new(seed, module, options.lora_dropout);
        let deviation = match lora.init_lora_weights {
            InitLoraWeights::Gaussian => Some(1.0 / rank as f32),
            _ => None,
        };
        let factors = (!memory::is_dry_run()).then(|| start::init(seed, &name, rank, cols, rows, deviation));
        // From here on, all that is allocated is the adapter's.
        let _scope = memory::scope(Category::Adapter);
        let (a, b) = factors.map(|Factors { a, b }| (a, b)).unwrap_or_default();
        let factor = |values: Vec<f32>, shape: (usize, usize)| {
            for_format!(floating(options.dtype), E => {
                let values = Buffer::<E>::from_fn(shape.0 * shape.1, |at| Element::narrow(values[at]));
                Tensor::on_device(values, shape, device)
            })
        };
        let a = factor(a, (rank, cols))?;
        let mut b = Param::adapter(module.part(LORA_B), factor(b, (rows, rank))?);
        b.lr_ratio = lora.loraplus_lr_ratio();
        Ok(Self {
            down: Down::Factor(match options.lora_fa {
                LoraATraining::Trained => Param::adapter(module.part(LORA_A), a),
                LoraATraining::Frozen | LoraATraining::Unstepped => Param::frozen_adapter(module.part(LORA_A), a),
            }),
            up: Up::Factor(b),
            scale: options.scale_of(&name),
            dropout,
        })
    }
}
