//! Makes the adapter that the options name.

use candle_core::{Device, Result};

use super::{interface::Adapter, lora::Lora, low_rank::LowRank};
use crate::{arch::ModuleName, options::LoraOptions};

/// The adapter of a linear layer `[rows, cols]` before training.
///
/// # Errors
/// Errors of candle.
pub(crate) fn new(
    options: &LoraOptions,
    seed: u64,
    module: ModuleName,
    shape: (usize, usize),
    device: &Device,
) -> Result<Box<dyn Adapter>> {
    let low_rank = LowRank::new(options, seed, module, shape, device)?;
    Ok(Box::new(Lora(low_rank)))
}
