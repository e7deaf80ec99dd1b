//! Makes the adapter that the options name.

use candle_core::{DType, Device, Result};

use super::{dora::Dora, interface::Adapter, lora::Lora, low_rank::LowRank};
use crate::{
    arch::ModuleName,
    nn::weight::Weight,
    options::{self, LoraOptions},
};

/// The adapter of a linear layer over the frozen `weight` before training. `hidden` is the format of hidden states.
///
/// # Errors
/// Errors of candle.
pub(crate) fn new(
    options: &LoraOptions,
    seed: u64,
    module: ModuleName,
    weight: &Weight,
    hidden: DType,
    device: &Device,
) -> Result<Box<dyn Adapter>> {
    let low_rank = LowRank::new(options, seed, module, (weight.rows(), weight.cols()), device)?;
    Ok(match options.adapter {
        options::Adapter::Lora => Box::new(Lora(low_rank)),
        options::Adapter::Dora => Box::new(Dora::new(low_rank, module, weight, hidden)?),
    })
}
