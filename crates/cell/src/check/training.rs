//! Sizes of batches, schedule, optimizer, and what is measured.

use arch::{ModelConfig, Preset};
use base::text::{Mistake, either};
use options::{AutoBatchSize, BatchSearch, ByteSize, Stack};
use serde_json::{Map, Value};

use super::super::heeds::of_trainings;
use super::super::{Cell, Checkpointing, Device, Measure, Optimizer};
use super::found::Found;
use options::invalid::{Invalid, at_least, at_most, number};

impl Cell {
    pub(super) fn check_sizes(&self, found: &mut Found) {
        found.check(at_least("world_size", self.world_size, 1));
        found.check(at_most("world_size", self.world_size, 1 << 12));
        found.check(at_least("batch_size", self.batch_size, 1));
        found.check(at_most("batch_size", self.batch_size, 1 << 20));
        found.check(at_least(
            "gradient_accumulation_steps",
            self.gradient_accumulation_steps,
            1,
        ));
        found.check(at_most(
            "gradient_accumulation_steps",
            self.gradient_accumulation_steps,
            1 << 20,
        ));
        found.check(at_least("num_labels", self.num_labels, 2));
        found.check(at_most("num_labels", self.num_labels, 1 << 16));
        // One token has no successor to predict.
        found.check(at_least("max_seq_length", self.max_seq_length, 2));
        found.check(at_most("max_seq_length", self.max_seq_length, 1 << 24));
        self.check_checkpointing(found);
        self.check_auto_batch_size(found);
        if self.device_memory.is_some_and(|budget| budget.0 == 0) {
            found.add(
                Invalid::new("device_memory", "a budget of 0 fits nothing").help("leave the key out for no budget"),
            );
        }
    }

    fn check_checkpointing(&self, found: &mut Found) {
        let (key, message) = match &self.gradient_checkpointing {
            Checkpointing::Every(0) => ("gradient_checkpointing.every", "0 is not an interval".into()),
            Checkpointing::First(0) => ("gradient_checkpointing.first", "0 blocks are none".into()),
            Checkpointing::Layers(layers) if layers.is_empty() => {
                ("gradient_checkpointing.layers", "the list is empty".into())
            }
            Checkpointing::Layers(layers) => match layers.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(twice) => ("gradient_checkpointing.layers", format!("{} is listed twice", twice[0])),
                None => return self.check_blocks(found),
            },
            Checkpointing::Auto(ByteSize(0)) => ("gradient_checkpointing.auto", "0 bytes fit nothing".into()),
            _ => return self.check_blocks(found),
        };
        found.add(Invalid::new(key, message).help("`none` recomputes no block, `full` every one"));
    }

    fn check_auto_batch_size(&self, found: &mut Found) {
        let Some(AutoBatchSize {
            start,
            min,
            max,
            search,
        }) = self.auto_batch_size
        else {
            return;
        };
        for (key, value) in [("auto_batch_size.min", min), ("auto_batch_size.start", start)] {
            found.check(at_least(key, value, 1));
        }
        found.check(at_most("auto_batch_size.max", max, 1 << 20));
        if !(min..=max).contains(&start) {
            let message = format!("{start} is not from min to max, {min} to {max}");
            found.add(Invalid::new("auto_batch_size.start", message));
        }
        let effective = start.saturating_mul(self.gradient_accumulation_steps);
        if search == BatchSearch::KeepEffectiveBatch && max > effective {
            let message =
                format!("the effective batch is start x gradient_accumulation_steps, {effective}, and {max} is more");
            found.add(
                Invalid::new("auto_batch_size.max", message)
                    .with("gradient_accumulation_steps")
                    .help("raise gradient_accumulation_steps, or use `search: largest`, which leaves the accumulation as it is"),
            );
        }
        if self.batch_size != Self::default().batch_size {
            found.add(
                Invalid::idle(
                    "batch_size",
                    "the micro-batch is searched, and this number would do nothing",
                )
                .with("auto_batch_size")
                .help("leave it out; `auto_batch_size.start` gives the effective batch"),
            );
        }
        if matches!(self.gradient_checkpointing, Checkpointing::Auto(_)) {
            found.add(
                Invalid::new("auto_batch_size", "one search at a time: both would look for what fits")
                    .with("gradient_checkpointing")
                    .help("fix the micro-batch or the checkpointed blocks"),
            );
        }
        let (budget, key) = match self.stack {
            Stack::Candle => (self.device_memory.is_some(), "device_memory"),
            Stack::Torch => (self.gpu.is_some(), "gpu"),
        };
        if !budget {
            found.add(
                Invalid::new("auto_batch_size", "there is no budget for the micro-batch to fit")
                    .with("stack")
                    .help(format!("give the cell a `{key}`")),
            );
        }
    }

    /// Checks that a preset has the blocks that are named. A directory's model shows it when it is opened.
    fn check_blocks(&self, found: &mut Found) {
        let Some(preset) = Preset::named(&self.model) else {
            return;
        };
        if let Err(mistake) = self.check_blocks_in(&preset.config()) {
            found.add(Invalid::of("gradient_checkpointing", mistake).with("model"));
        }
    }

    /// Checks that a model has the blocks that `gradient_checkpointing` names, and the modules that `exclude_modules`
    /// does. Those of an `adapter_config` may be of other models, as in PEFT.
    ///
    /// # Errors
    /// It has not; with the key.
    pub fn check_names_in(&self, model: &ModelConfig) -> Result<(), (&'static str, Mistake)> {
        self.check_blocks_in(model)
            .map_err(|mistake| ("gradient_checkpointing", mistake))?;
        self.check_excluded_in(model)
            .map_err(|mistake| ("exclude_modules", mistake))
    }

    fn check_blocks_in(&self, model: &ModelConfig) -> Result<(), Mistake> {
        let (blocks, least) = (model.num_hidden_layers, self.gradient_checkpointing.least_blocks());
        if least <= blocks {
            return Ok(());
        }
        let message = match &self.gradient_checkpointing {
            Checkpointing::First(n) => format!("the model `{}` has {blocks} blocks, fewer than {n}", self.model),
            _ => format!(
                "the model `{}` has {blocks} blocks, and none with the index {}",
                self.model,
                least - 1
            ),
        };
        Err(Mistake::new(message).help(format!(
            "indices are from 0 to {}; `full` recomputes every block",
            blocks - 1
        )))
    }

    pub(super) fn check_schedule(&self, found: &mut Found) {
        if self.max_steps.is_some() && self.num_train_epochs.is_some() {
            found.add(
                Invalid::new("max_steps", "max_steps and num_train_epochs exclude each other")
                    .with("num_train_epochs")
                    .help("keep one of them"),
            );
        }
        if let Some(steps) = self.max_steps {
            found.check(at_least("max_steps", steps, 1));
            found.check(at_most("max_steps", steps, 1 << 32));
        }
        if let Some(epochs) = self.num_train_epochs {
            found.check(number(
                "num_train_epochs",
                epochs,
                epochs > 0.0 && epochs <= 1e6,
                "more than 0 and at most 1e6",
            ));
        }
        let (rate, warmup) = (self.learning_rate, self.warmup_ratio);
        found.check(number(
            "learning_rate",
            rate,
            (0.0..=10.0).contains(&rate),
            "from 0 to 10",
        ));
        found.check(number(
            "warmup_ratio",
            warmup,
            (0.0..=1.0).contains(&warmup),
            "from 0 to 1",
        ));
        let steps = self.warmup_steps.map_or(0.0, |steps| steps.0);
        let is_whole = steps < 1.0 || steps.fract() == 0.0;
        let range = "a whole number, or less than 1 as a share of the steps";
        found.check(number(
            "warmup_steps",
            steps,
            (0.0..=1e12).contains(&steps) && is_whole,
            range,
        ));
        let mut of_schedule = Vec::new();
        self.schedule_options().check_values(&mut of_schedule);
        of_schedule.into_iter().for_each(|invalid| found.add(invalid));
        if warmup > 0.0 && steps > 0.0 {
            let invalid = Invalid::new("warmup_steps", "the share of the steps is given, too").with("warmup_ratio");
            found.add(invalid.help("keep one of them"));
        }
    }

    pub(super) fn check_optimizer(&self, keys: &Map<String, Value>, found: &mut Found) {
        let (decay, norm) = (self.weight_decay, self.max_grad_norm);
        let (beta2, epsilon) = (self.adam_beta2(), self.adam_epsilon);
        found.check(number(
            "weight_decay",
            decay,
            (0.0..=10.0).contains(&decay),
            "from 0 to 10",
        ));
        found.check(number(
            "adam_beta1",
            self.adam_beta1,
            (0.0..1.0).contains(&self.adam_beta1),
            "at least 0 and less than 1",
        ));
        found.check(number(
            "adam_beta2",
            beta2,
            (0.0..1.0).contains(&beta2),
            "at least 0 and less than 1",
        ));
        found.check(number(
            "adam_epsilon",
            epsilon,
            epsilon > 0.0 && epsilon <= 1.0,
            "more than 0 and at most 1",
        ));
        found.check(number(
            "max_grad_norm",
            norm,
            norm >= 0.0 && norm.is_finite(),
            "0 (no clipping) or more",
        ));
        self.check_optimizer_keys(keys, found);
        self.check_low_rank(found);
    }

    /// The keys that do nothing for this cell's optimizer must have their defaults.
    fn check_optimizer_keys(&self, keys: &Map<String, Value>, found: &mut Found) {
        for key in Optimizer::own_keys() {
            if keys.get(key) != Cell::default_map().get(key) && !self.optim.heeds(key) {
                let which = Optimizer::of(self.stack).filter(|optimizer| optimizer.heeds(key));
                let which: Vec<_> = which.map(Optimizer::name).collect();
                found.add(
                    Invalid::idle(key, format!("only the optimizer {} has it", either(&which)))
                        .with("optim")
                        .help("leave the key out, or change `optim`"),
                );
            }
        }
    }

    /// The keys of the optimizers with low-rank state.
    fn check_low_rank(&self, found: &mut Found) {
        if !self.optim.heeds("optim_rank") {
            return;
        }
        let (rank, scale) = (self.optim_rank(), self.galore_scale());
        found.check(at_least("optim_rank", rank, 1));
        found.check(at_most("optim_rank", rank, 1 << 16));
        found.check(at_least("update_proj_gap", self.update_proj_gap(), 1));
        found.check(number(
            "galore_scale",
            scale,
            scale > 0.0 && scale <= 1e3,
            "more than 0 and at most 1000",
        ));
        let adapter = self.adapter_options();
        // The shorter side of what is trained; one adapter of a larger rank is enough.
        let side = adapter.map(|adapter| adapter.method.options().shorter_side(adapter.rank));
        if let Some(adapter_rank) = side.filter(|side| rank >= *side) {
            let message = format!("adapters of rank {adapter_rank} have nothing to project to rank {rank}");
            found.add(
                Invalid::new("optim_rank", message)
                    .with("optim")
                    .with("rank")
                    .help("use a smaller `optim_rank`, a larger `rank`, or `optim: adamw`"),
            );
        }
    }

    /// A profile has one optimizer step and the passes of one more, and no schedule that would show.
    pub(super) fn check_measure(&self, found: &mut Found) {
        if self.measure == Measure::Epoch {
            return;
        }
        let (keys, defaults) = (self.to_map(), Self::default_map());
        for key in of_trainings().filter(|key| keys.get(*key) != defaults.get(*key)) {
            found.add(
                Invalid::idle(
                    key,
                    "a profile is one optimizer step and the passes of one more, and this key would do nothing",
                )
                .with("measure")
                .help("leave the key out (`null` in an axis), or use `measure: epoch`"),
            );
        }
        if self.device() != Some(Device::Cpu) {
            found.add(
                Invalid::new(
                    "measure",
                    "a profile is read from the ledger, which counts on the cpu only so far",
                )
                .with("device")
                .help("use `device: cpu`, or `measure: epoch`"),
            );
        }
    }
}
