//! Keys that are left out, and the values that they come to.

use std::collections::BTreeMap;

use options::{AllocatorBackend, Autocast, Checkpointing, Device, Engine, Loss, LossScaling, Measure, Stack};
use torch::Trl;

use super::Cell;
use super::configuration::{
    DEFAULT_GALORE_SCALE, DEFAULT_OPTIM_RANK, DEFAULT_PROJ_GAP, DEFAULT_STEPS, TRANSFORMERS_INT8_THRESHOLD,
};

/// The values of the keys of training and of the machine that may be left out.
impl Cell {
    /// The cell with the values that its defaults come to, in place of the keys that are left out.
    pub fn resolved(&self) -> Self {
        self.clone().filled(self)
    }

    /// The causal loss in training.
    pub fn loss(&self) -> Loss {
        self.loss.unwrap_or(self.default_loss())
    }

    /// The scale of the loss in the backward pass.
    pub fn loss_scaling(&self) -> LossScaling {
        self.loss_scaling.unwrap_or(self.default_loss_scaling())
    }

    pub(super) fn default_loss_scaling(&self) -> LossScaling {
        match self.autocast {
            Autocast::Float16 => LossScaling::Dynamic,
            Autocast::None | Autocast::Bfloat16 => LossScaling::None,
        }
    }

    pub(super) fn default_loss(&self) -> Loss {
        match self.stack {
            Stack::Candle => Loss::Chunked,
            // What is no release is a mistake, which the check finds.
            Stack::Torch => {
                let release = self.torch.trl_version.as_deref().and_then(|trl| Trl::of(trl).ok());
                release.map_or(Loss::Full, |trl| trl.loss)
            }
        }
    }

    /// True if PyTorch's stack looks for outliers among the inputs of int8's products.
    pub fn finds_outliers(&self) -> bool {
        self.llm_int8_threshold.unwrap_or(TRANSFORMERS_INT8_THRESHOLD) > 0.0
    }

    /// Rank of a low-rank optimizer's state.
    pub fn optim_rank(&self) -> usize {
        self.optim_rank.unwrap_or(DEFAULT_OPTIM_RANK)
    }

    /// Steps after which a low-rank optimizer refreshes its basis.
    pub fn update_proj_gap(&self) -> usize {
        self.update_proj_gap.unwrap_or(DEFAULT_PROJ_GAP)
    }

    /// Scale of galore's step when it leaves the basis.
    pub fn galore_scale(&self) -> f64 {
        self.galore_scale.unwrap_or(DEFAULT_GALORE_SCALE)
    }

    /// AdamW's decay of the second moment, or Lion's of the momentum.
    pub fn adam_beta2(&self) -> f64 {
        self.adam_beta2.unwrap_or(self.optim.default_beta2())
    }

    /// Optimizer steps; `None` if `num_train_epochs` decides. A profile has one.
    pub fn max_steps(&self) -> Option<usize> {
        if self.measure == Measure::Profile {
            return Some(1);
        }
        match (self.max_steps, self.num_train_epochs) {
            (Some(steps), _) => Some(steps),
            (None, None) => Some(DEFAULT_STEPS),
            (None, Some(_)) => None,
        }
    }

    /// True if values are to be found before the cell can run: `auto_batch_size`, or
    /// `gradient_checkpointing: {auto: ...}`.
    pub fn is_open(&self) -> bool {
        self.auto_batch_size.is_some() || matches!(self.gradient_checkpointing, Checkpointing::Auto(_))
    }

    /// The device by its name in specs.
    pub fn device_name(&self) -> &str {
        self.device.as_deref().unwrap_or(self.default_device())
    }

    pub(super) fn default_device(&self) -> &'static str {
        match self.engine() {
            Some(Engine::Python) => Device::AUTO,
            Some(Engine::Candle) | None => "cpu",
        }
    }

    /// The device; `None` if its text does not name one (see [`Cell::validate`]), or leaves it to the engine.
    pub fn device(&self) -> Option<Device> {
        Device::named(self.device_name())
    }

    /// The allocator of the cell's process.
    pub fn backend(&self) -> AllocatorBackend {
        self.allocator.backend.unwrap_or(AllocatorBackend::DEFAULT)
    }

    /// Changes to the parent's environment for the cell's process: `env` and `allocator.env`; `None` unsets a variable.
    pub fn environment(&self) -> BTreeMap<&str, Option<&str>> {
        let variables = self.env.iter().chain(&self.allocator.env);
        variables
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter, Measure, Optimizer, Stack};

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
            assert_eq!(resolved.with_plain_meaning(), cell.with_plain_meaning());
        }
        let profile = cell(|cell| cell.measure = Measure::Profile);
        assert_eq!(profile.resolved().max_steps, Some(1));
    }
}
