//! Optimizers, one a file, and the learning rate over the steps.

pub mod adamw;
pub mod clip;
pub mod galore;
pub mod gradient;
pub mod low_rank;
pub mod rsvd;
pub mod schedule;

use candle_core::Result;

use crate::{
    nn::{host, param::Param},
    spec::cell::{Cell, Optimizer as Name},
};
use adamw::{AdamW, Options};
use galore::Galore;
use low_rank::{LowRank, Reach};
use rsvd::Rsvd;

/// What moves the weights. Its state is made in the first step.
pub trait Optimizer {
    /// Moves every parameter that has a gradient. The parameters must be the same, in the same order, at every call.
    fn step(&mut self, params: &mut [&mut Param], learning_rate: f64) -> Result<()>;

    /// Gives the state's memory back.
    fn release(&mut self);
}

/// The cell's optimizer.
///
/// # Errors
/// Where it is one that is planned for other stacks alone.
pub fn new(cell: &Cell) -> Result<Box<dyn Optimizer>> {
    let options = Options {
        beta1: cell.adam_beta1,
        beta2: cell.adam_beta2,
        epsilon: cell.adam_epsilon,
        weight_decay: cell.weight_decay,
    };
    let reach = Reach {
        rank: cell.optim_rank(),
        gap: cell.update_proj_gap(),
        seed: cell.seed,
    };
    Ok(match cell.optim {
        Name::Adamw => Box::new(AdamW::new(options)),
        Name::Galore => {
            let scale = cell.galore_scale();
            Box::new(LowRank::new(Galore { scale }, options, reach))
        }
        Name::Rsvd => Box::new(LowRank::new(Rsvd, options, reach)),
        planned => candle_core::bail!("{planned:?} is planned, not trained with"),
    })
}

/// Whether the kernels can change these parameters, which are on one device.
fn have_kernels(params: &[&mut Param]) -> bool {
    params
        .first()
        .is_some_and(|param| host::has_kernels(param.value.device()))
}
