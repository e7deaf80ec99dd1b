//! Sizes of batches, schedule, optimizer, and what is measured.

use super::super::{Cell, Checkpointing, Device, LrScheduler, Measure, Optimizer};
use super::invalid::{Checked, Invalid, at_least, at_most, number};

impl Cell {
    pub(super) fn check_sizes(&self) -> Checked {
        at_least("batch_size", self.batch_size, 1)?;
        at_most("batch_size", self.batch_size, 1 << 20)?;
        at_least("gradient_accumulation_steps", self.gradient_accumulation_steps, 1)?;
        at_most("gradient_accumulation_steps", self.gradient_accumulation_steps, 1 << 20)?;
        // One token has no successor to predict.
        at_least("max_seq_length", self.max_seq_length, 2)?;
        at_most("max_seq_length", self.max_seq_length, 1 << 24)?;
        if self.gradient_checkpointing == Checkpointing::Every(0) {
            return Err(
                Invalid::new("gradient_checkpointing.every", "0 is no interval").help("`none` recomputes no block")
            );
        }
        if self.device_memory.is_some_and(|budget| budget.0 == 0) {
            return Err(
                Invalid::new("device_memory", "a budget of 0 fits nothing").help("leave the key out for no budget")
            );
        }
        Ok(())
    }

    pub(super) fn check_schedule(&self) -> Checked {
        if self.max_steps.is_some() && self.num_train_epochs.is_some() {
            return Err(
                Invalid::new("max_steps", "max_steps and num_train_epochs exclude each other")
                    .with("num_train_epochs")
                    .help("keep one of them"),
            );
        }
        if let Some(steps) = self.max_steps {
            at_least("max_steps", steps, 1)?;
            at_most("max_steps", steps, 1 << 32)?;
        }
        if let Some(epochs) = self.num_train_epochs {
            number(
                "num_train_epochs",
                epochs,
                epochs > 0.0 && epochs <= 1e6,
                "more than 0 and at most 1e6",
            )?;
        }
        let (rate, warmup) = (self.learning_rate, self.warmup_ratio);
        number("learning_rate", rate, (0.0..=10.0).contains(&rate), "from 0 to 10")?;
        number("warmup_ratio", warmup, (0.0..=1.0).contains(&warmup), "from 0 to 1")
    }

    pub(super) fn check_optimizer(&self) -> Checked {
        let (decay, norm, epsilon) = (self.weight_decay, self.max_grad_norm, self.adam_epsilon);
        number("weight_decay", decay, (0.0..=10.0).contains(&decay), "from 0 to 10")?;
        number(
            "adam_beta1",
            self.adam_beta1,
            (0.0..1.0).contains(&self.adam_beta1),
            "at least 0 and less than 1",
        )?;
        number(
            "adam_beta2",
            self.adam_beta2,
            (0.0..1.0).contains(&self.adam_beta2),
            "at least 0 and less than 1",
        )?;
        number(
            "adam_epsilon",
            epsilon,
            epsilon > 0.0 && epsilon <= 1.0,
            "more than 0 and at most 1",
        )?;
        number(
            "max_grad_norm",
            norm,
            norm >= 0.0 && norm.is_finite(),
            "0 (no clipping) or more",
        )?;
        self.check_low_rank()
    }

    /// The keys of the optimizers with low-rank state, which do nothing for the others.
    fn check_low_rank(&self) -> Checked {
        let is_low_rank = self.optim.is_low_rank();
        let is_galore = self.optim == Optimizer::Galore;
        let given = [
            (
                "optim_rank",
                self.optim_rank.is_some() && !is_low_rank,
                "`galore` or `rsvd`",
            ),
            (
                "update_proj_gap",
                self.update_proj_gap.is_some() && !is_low_rank,
                "`galore` or `rsvd`",
            ),
            ("galore_scale", self.galore_scale.is_some() && !is_galore, "`galore`"),
        ];
        if let Some((key, _, which)) = given.iter().find(|(_, idle, _)| *idle) {
            return Err(Invalid::new(*key, format!("only the optimizer {which} has it"))
                .with("optim")
                .help("leave the key out, or change `optim`"));
        }
        if !is_low_rank {
            return Ok(());
        }
        let (rank, scale) = (self.optim_rank(), self.galore_scale());
        at_least("optim_rank", rank, 1)?;
        at_most("optim_rank", rank, 1 << 16)?;
        at_least("update_proj_gap", self.update_proj_gap(), 1)?;
        number(
            "galore_scale",
            scale,
            scale > 0.0 && scale <= 1e3,
            "more than 0 and at most 1000",
        )?;
        if self.rank > 0 && rank >= self.rank {
            let message = format!("adapters of rank {} have nothing to project to rank {rank}", self.rank);
            return Err(Invalid::new("optim_rank", message)
                .with("optim")
                .with("rank")
                .help("use a smaller `optim_rank`, a larger `rank`, or `optim: adamw`"));
        }
        Ok(())
    }

    /// A profile has one optimizer step and one micro-batch after it, and no schedule that would show.
    pub(super) fn check_measure(&self) -> Checked {
        if self.measure == Measure::Epoch {
            return Ok(());
        }
        let given = [
            ("gradient_accumulation_steps", self.gradient_accumulation_steps != 1),
            ("max_steps", self.max_steps.is_some()),
            ("num_train_epochs", self.num_train_epochs.is_some()),
            ("lr_scheduler_type", self.lr_scheduler_type != LrScheduler::Linear),
            ("warmup_ratio", self.warmup_ratio != 0.0),
            ("eval_fraction", self.eval_fraction != 0.0),
        ];
        if let Some((key, _)) = given.iter().find(|(_, given)| *given) {
            return Err(Invalid::new(
                *key,
                "a profile is one optimizer step and one micro-batch after it, and this key would do nothing",
            )
            .with("measure")
            .help("leave the key out (`null` in an axis), or use `measure: epoch`"));
        }
        if self.device() != Some(Device::Cpu) {
            return Err(Invalid::new(
                "measure",
                "a profile is read from the ledger, which counts on the cpu only so far",
            )
            .with("device")
            .help("use `device: cpu`, or `measure: epoch`"));
        }
        Ok(())
    }
}
