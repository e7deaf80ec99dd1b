//! Makes the adapters that the options name.

use std::sync::Arc;

use arch::{ModelConfig, ModuleName};
use candle_core::{DType, Device, Result};
use options::{AdapterMethod, AdapterOptions, Lora, Vera};

use super::{
    change::{Change, Saved},
    decomposed,
    dora::{Directions, Dora},
    ia3::{Factors, Ia3},
    interface::Adapter,
    loha::{self, Loha},
    lokr::{self, Lokr},
    lora::Product,
    low_rank::LowRank,
    miss::Shards,
    oft::{Oft, Rotated},
    shared::SharedFactors,
    vera::Scaled,
};
use crate::weight::Weight;

/// Makes the adapters of one model.
#[derive(Debug)]
pub struct Adapters<'a> {
    /// The method, and the layers that have it.
    pub options: &'a AdapterOptions,
    /// The model's shape.
    pub config: &'a ModelConfig,
    /// The seed of their start values.
    pub seed: u64,
    /// The format of hidden states.
    pub hidden: DType,
    /// Where they are.
    pub device: &'a Device,
    /// The factors that layers share, once there are some.
    pub shared: Option<Arc<SharedFactors>>,
}

/// What an adapter on disk makes of its weight; `None` if it changes none.
pub fn change<'a>(saved: &Saved<'a>) -> Option<Box<dyn Change + 'a>> {
    Some(match &saved.options.method {
        AdapterMethod::Lora(_) => Box::new(Product::of(saved)),
        AdapterMethod::Dora(_) => Box::new(Directions::of(saved)),
        AdapterMethod::Ia3(_) => Box::new(Factors::of(saved)),
        AdapterMethod::Miss(_) => Box::new(Shards::of(saved)),
        AdapterMethod::Vera(_) => Box::new(Scaled::of(saved)?),
        AdapterMethod::Oft(oft) => Box::new(Rotated::of(oft, saved)),
        AdapterMethod::Loha(_) => Box::new(loha::Added::of(saved)),
        AdapterMethod::Lokr(_) => Box::new(lokr::Added::of(saved)),
        AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning(_) => return None,
    })
}

impl Adapters<'_> {
    /// The adapter of a linear layer over the frozen `weight` before training, which some start values change; `None`
    /// if the layer gets none.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn adapter(&mut self, module: ModuleName, weight: &mut Weight) -> Result<Option<Box<dyn Adapter>>> {
        let (options, device, dtype) = (self.options, self.device, self.options.dtype);
        let name = module.to_string();
        if !self.config.adapts(options, &name) {
            return Ok(None);
        }
        let (rows, cols) = (weight.rows(), weight.cols());
        Ok(Some(match &options.method {
            AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning(_) => {
                return Ok(None);
            }
            AdapterMethod::Lora(lora) => Box::new(self.low_rank(lora, module, weight)?),
            AdapterMethod::Dora(lora) => {
                let low_rank = self.low_rank(lora, module, weight)?;
                Box::new(Dora::new(low_rank, module, weight, self.hidden)?)
            }
            AdapterMethod::Ia3(_) => {
                let is_feedforward = self.config.is_feedforward(options, &name);
                Box::new(Ia3::new(module, (rows, cols), is_feedforward, dtype, device)?)
            }
            AdapterMethod::Miss(miss) => Box::new(LowRank::miss(miss, options, self.seed, module, rows, device)?),
            AdapterMethod::Vera(vera) => {
                let shared = self.shared(vera)?;
                Box::new(LowRank::vera(vera, options, shared, self.seed, module, rows, device)?)
            }
            AdapterMethod::Oft(oft) => Box::new(Oft::new(oft, options, module, cols, device)?),
            AdapterMethod::Loha(_) => Box::new(Loha::new(options, self.seed, module, (rows, cols), device)?),
            AdapterMethod::Lokr(lokr) => Box::new(Lokr::new(lokr, options, self.seed, module, (rows, cols), device)?),
        }))
    }

    fn low_rank(&self, lora: &Lora, module: ModuleName, weight: &mut Weight) -> Result<LowRank> {
        let shape = (weight.rows(), weight.cols());
        let mut low_rank = LowRank::lora(lora, self.options, self.seed, module, shape, self.device)?;
        if lora.init_lora_weights.changes_weight() {
            decomposed::take_out(&mut low_rank, weight, lora.init_lora_weights, self.seed)?;
        }
        Ok(low_rank)
    }

    /// VeRA's factors, drawn when the first layer needs them.
    fn shared(&mut self, vera: &Vera) -> Result<Arc<SharedFactors>> {
        if let Some(shared) = &self.shared {
            return Ok(Arc::clone(shared));
        }
        let largest = self.config.largest_adapted(self.options);
        let (key, dtype) = (vera.projection_prng_key, self.options.dtype);
        let shared = Arc::new(SharedFactors::new(key, self.options.rank, largest, dtype, self.device)?);
        self.shared = Some(Arc::clone(&shared));
        Ok(shared)
    }
}
