//! A real step on the longest samples: does the training fit?

use super::{TrainError, run};
use crate::{
    data::{EffectiveBatch, MicroBatch},
    hub::Roots,
    memory::{self, Phase},
    options::TrainOptions,
};

/// Takes the optimizer step whose micro-batch is the largest of the training, and the passes of the same step once more,
/// which find the optimizer's state in memory. A training that does not fit ends the process, as it would in a run.
///
/// # Errors
/// Those of [`run()`](super::run()).
pub fn trial(options: &TrainOptions, roots: &Roots) -> Result<(), TrainError> {
    memory::set_phase(Phase::Load);
    let run::Loaded {
        config,
        dataset,
        mut trainer,
        ..
    } = run::load(options, roots)?;
    let size = |batch: &EffectiveBatch| {
        batch
            .micro
            .iter()
            .map(|micro: &MicroBatch| micro.sequences.tokens())
            .max()
    };
    let mut largest = None;
    for (index, batch) in dataset.batches(&options.data, &config).enumerate() {
        let size = size(&batch);
        if largest.is_none_or(|(most, _)| size > most) {
            largest = Some((size, index));
        }
    }
    // Loading has refused a data set that does not fill a batch.
    let Some(batch) = largest.and_then(|(_, index)| dataset.batches(&options.data, &config).nth(index)) else {
        return Ok(());
    };
    trainer.step(&batch, 0, 1, &mut || ())?;
    trainer.release_gradients();
    trainer.forward_backward(&batch, 1, &mut || ())?;
    Ok(())
}
