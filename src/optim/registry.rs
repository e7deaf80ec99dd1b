//! The optimizers by their names in specs.

use candle_core::Result;

use super::{
    adamw::{AdamW, AdamwRule},
    galore::Galore,
    low_rank::LowRank,
    optimizer::Optimizer,
    rsvd::Rsvd,
};
use crate::options::{Optimizer as Name, OptimizerOptions};

/// Makes the optimizer that the options name.
///
/// # Errors
/// If only the plan of the torch stack has this optimizer.
pub fn new(options: &OptimizerOptions) -> Result<Box<dyn Optimizer>> {
    let OptimizerOptions {
        optimizer,
        adamw,
        low_rank,
    } = *options;
    Ok(match optimizer {
        Name::Adamw => Box::new(AdamW::new(AdamwRule(adamw))),
        Name::Galore => {
            let scale = low_rank.galore_scale;
            Box::new(LowRank::new(Galore { scale }, adamw, low_rank))
        }
        Name::Rsvd => Box::new(LowRank::new(Rsvd, adamw, low_rank)),
        planned @ (Name::AdamwTorchFused
        | Name::Sgd
        | Name::Adamw8bit
        | Name::PagedAdamw32bit
        | Name::PagedAdamw8bit) => {
            candle_core::bail!("{planned:?} is planned, not trained with")
        }
    })
}
