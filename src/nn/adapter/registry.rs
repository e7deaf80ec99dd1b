//! Makes the adapter that the options name.

use candle_core::{DType, Device, Result};

use super::{decomposed, dora::Dora, interface::Adapter, lora::Lora, low_rank::LowRank};
use crate::{
    arch::ModuleName,
    nn::weight::Weight,
    options::{AdapterMethod, AdapterOptions, LoraOptions},
};

/// The adapter of a linear layer over the frozen `weight` before training, which some start values change. `hidden` is the
/// format of hidden states.
///
/// # Errors
/// Errors of candle.
pub(crate) fn new(
    options: &AdapterOptions,
    seed: u64,
    module: ModuleName,
    weight: &mut Weight,
    hidden: DType,
    device: &Device,
) -> Result<Box<dyn Adapter>> {
    let mut low_rank = |lora: &LoraOptions| {
        let shape = (weight.rows(), weight.cols());
        let mut low_rank = LowRank::new(lora, options.dtype, seed, module, shape, device)?;
        if lora.init.changes_weight() {
            decomposed::take_out(&mut low_rank, weight, lora.init, seed)?;
        }
        Ok::<_, candle_core::Error>(low_rank)
    };
    Ok(match &options.method {
        AdapterMethod::Lora(lora) => Box::new(Lora(low_rank(lora)?)),
        AdapterMethod::Dora(lora) => Box::new(Dora::new(low_rank(lora)?, module, weight, hidden)?),
    })
}
