//! Makes the adapter that the options name.

use candle_core::{DType, Device, Result};

use super::{decomposed, dora::Dora, interface::Adapter, lora::Lora, low_rank::LowRank};
use crate::{
    arch::ModuleName,
    nn::weight::Weight,
    options::{self, LoraOptions},
};

/// The adapter of a linear layer over the frozen `weight` before training, which some start values change. `hidden` is the
/// format of hidden states.
///
/// # Errors
/// Errors of candle.
pub(crate) fn new(
    options: &LoraOptions,
    seed: u64,
    module: ModuleName,
    weight: &mut Weight,
    hidden: DType,
    device: &Device,
) -> Result<Box<dyn Adapter>> {
    let mut low_rank = LowRank::new(options, seed, module, (weight.rows(), weight.cols()), device)?;
    if options.init.changes_weight() {
        decomposed::take_out(&mut low_rank, weight, options.init, seed)?;
    }
    Ok(match options.adapter {
        options::Adapter::Lora => Box::new(Lora(low_rank)),
        options::Adapter::Dora => Box::new(Dora::new(low_rank, module, weight, hidden)?),
    })
}
