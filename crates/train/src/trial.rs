//! A real step on the longest samples: does the training fit?

use std::path::Path;

use hub::Roots;
use options::{DataOptions, TrainOptions};
use trace::Phase;

use super::{TrainError, run};

/// Options by which the steps with the largest micro-batches come first, and the number of these steps.
pub(super) fn largest_first(data: &DataOptions) -> (DataOptions, usize) {
    let longest_first = DataOptions {
        longest_first: true,
        ..data.clone()
    };
    (longest_first, 1 + usize::from(data.holds_scores))
}

/// Takes the optimizer steps whose micro-batch is the largest of the training, and the passes of the same step once
/// more, which find the optimizer's state in memory. A training that does not fit ends the process, as it would in a
/// run. The token ids of large data lie in a temporary file in `folder`.
///
/// # Errors
/// Those of [`run()`](super::run()).
pub fn trial(options: &TrainOptions, roots: &Roots, folder: &Path) -> Result<(), TrainError> {
    memory::set_phase(Phase::Load);
    let run::Loaded {
        config,
        dataset,
        mut trainer,
        ..
    } = run::load(options, roots, folder)?;
    let (longest_first, largest) = largest_first(&options.data);
    for batch in dataset.batches(&longest_first, &config).take(largest) {
        let batch = batch?;
        trainer.step(&batch, 0, 1, &mut || ())?;
        trainer.release_gradients();
        trainer.forward_backward(&batch, 1, &mut || ())?;
        trainer.release_gradients();
    }
    Ok(())
}
