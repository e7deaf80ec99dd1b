//! Keys that are left out, and the values that they come to.

use super::Cell;
use super::configuration::{DEFAULT_GALORE_SCALE, DEFAULT_OPTIM_RANK, DEFAULT_PROJ_GAP, DEFAULT_STEPS};
use crate::options::AllocatorBackend;

/// Methods that fill and empty the optional keys of this list, each with its default in a cell; `None` if it has none there.
macro_rules! defaults {
    ($($($key:ident).+ = $default:expr;)+) => {
        impl Cell {
            /// The cell with the values that its defaults come to, in place of the keys that are left out.
            pub fn resolved(&self) -> Self {
                let mut cell = self.clone();
                $(
                    let default: fn(&Self) -> _ = $default;
                    cell.$($key).+ = cell.$($key).+.take().or_else(|| default(self));
                )+
                cell.max_steps = self.max_steps();
                cell.allocator.backend = Some(self.backend());
                cell
            }

            /// The cell without keys that say what leaving them out means.
            ///
            /// The allocator is compared with the default of most machines, so that the result is the same on any.
            pub(super) fn without_defaults(&self) -> Self {
                let mut cell = self.clone();
                $(
                    let default: fn(&Self) -> _ = $default;
                    cell.$($key).+ = cell.$($key).+.take().filter(|value| Some(value) != default(self).as_ref());
                )+
                let backend = cell.allocator.backend;
                cell.allocator.backend = backend.filter(|&backend| backend != AllocatorBackend::Retain);
                cell
            }
        }
    };
}

defaults! {
    weights = |cell| Some(cell.default_weights());
    loss = |cell| Some(cell.default_loss());
    loss_scaling = |cell| Some(cell.default_loss_scaling());
    target_modules = Cell::default_targets;
    lora_alpha = |cell| Some(cell.default_alpha());
    lora.loraplus_lr_ratio = |_| Some(1.0);
    max_steps = |cell| cell.num_train_epochs.is_none().then_some(DEFAULT_STEPS);
    pad_to_multiple_of = |_| Some(1);
    optim_rank = |_| Some(DEFAULT_OPTIM_RANK);
    update_proj_gap = |_| Some(DEFAULT_PROJ_GAP);
    galore_scale = |_| Some(DEFAULT_GALORE_SCALE);
    adam_beta2 = |cell| Some(cell.optim.default_beta2());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::cell::{Adapter, Measure, Optimizer, Stack};

    #[test]
    fn defaults_are_filled_in_and_left_out_again() {
        let cell = |change: fn(&mut Cell)| {
            let mut cell = Cell::default();
            change(&mut cell);
            cell
        };
        for cell in [
            cell(|_| ()),
            cell(|cell| cell.stack = Stack::Torch),
            cell(|cell| cell.num_train_epochs = Some(1.0)),
            cell(|cell| cell.adapter = Adapter::Ia3),
            cell(|cell| cell.optim = Optimizer::Lion),
            cell(|cell| cell.lora_alpha = Some(7.0)),
        ] {
            let resolved = cell.resolved();
            assert_eq!(resolved.resolved(), resolved);
            assert_eq!(resolved.id(), cell.id());
            assert_eq!(resolved.lora_alpha, Some(cell.lora_alpha()));
            assert_eq!(
                (resolved.max_steps, resolved.weights),
                (cell.max_steps(), Some(cell.weights()))
            );
            assert_eq!(resolved.without_defaults(), cell.without_defaults());
        }
        let profile = cell(|cell| cell.measure = Measure::Profile);
        assert_eq!(profile.resolved().max_steps, Some(1));
    }
}
