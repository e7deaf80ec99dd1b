//! Which configurations make sense, and which of them this version can train.

use std::fmt;
use std::ops::Range;

mod stack;

use super::{
    Backend, Cell, Checkpointing, DEFAULT_LABELS, Data, DataFile, DataFormat, Device, Dtype, ENCODER_MODULES,
    ENCODER_PRESETS, FUSED_MODULES, InstructionSet, Lengths, LrScheduler, MODULES, Measure, Optimizer, PLANNED_PRESETS,
    PRESETS, Stack, Synthetic, TargetModules, Task, Weights, presets,
};
use crate::spec::error::{nearest, quoted};
use crate::spec::keys::did_you_mean;

/// More threads than machines have cores; far more hang.
const MOST_THREADS: usize = 512;

/// Variables that the run sets, each with the key that says to what.
const RUN_VARIABLES: [(&str, &str); 3] = [
    ("RAYON_NUM_THREADS", "threads"),
    ("CANDLE_NUM_THREADS", "threads"),
    ("CELL_ALLOCATOR", "allocator.backend"),
];

/// What the variables begin with that only one backend reads.
const BACKEND_VARIABLES: [(&str, Backend); 3] = [
    ("MALLOC_", Backend::System),
    ("GLIBC_TUNABLES", Backend::System),
    ("MIMALLOC_", Backend::Mimalloc),
];

/// A value that a cell cannot have, alone or together with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The key at fault, such as `dtype` or `target_modules[1]`.
    pub key: String,
    /// Other keys without which the value would do.
    pub with: Vec<&'static str>,
    pub message: String,
    pub help: Option<String>,
    /// The bytes of the value's text that are at fault; none means all of it.
    pub at: Option<Range<usize>>,
}

impl Invalid {
    fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            with: Vec::new(),
            message: message.into(),
            help: None,
            at: None,
        }
    }

    fn with(mut self, key: &'static str) -> Self {
        self.with.push(key);
        self
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Invalid {}

type Checked = Result<(), Invalid>;

impl Cell {
    /// Checks every value, alone and together with the others.
    ///
    /// # Errors
    /// The first value that is out of its range, contradicts another, or that this version's trainer cannot do.
    pub fn validate(&self) -> Checked {
        self.check_model()?;
        self.check_task()?;
        self.check_stack()?;
        self.check_adapter()?;
        self.check_sizes()?;
        self.check_schedule()?;
        self.check_optimizer()?;
        self.check_measure()?;
        self.check_data()?;
        self.check_process()
    }

    fn check_model(&self) -> Checked {
        let model = self.model.as_str();
        if model.starts_with("hf://") {
            return Err(Invalid::new("model", "this version does not read models from the hub")
                .help("download it and give its directory, such as `./models/name`"));
        }
        let is_path = model.contains(['/', '\\']) || model.starts_with('.');
        if !self.is_preset() && !is_path {
            let message = format!("{} is not a preset", quoted(model));
            return Err(Invalid::new("model", message).help(match nearest(model, presets()) {
                Some(near) => did_you_mean(near),
                None => format!(
                    "the presets are {}; a directory has a slash: `./{model}`",
                    presets().collect::<Vec<_>>().join(", ")
                ),
            }));
        }
        if self.stack == Stack::Candle && PLANNED_PRESETS.contains(&model) {
            let message = format!("`{model}` can be planned, but not trained here");
            return Err(Invalid::new("model", message).with("stack").help(format!(
                "use `stack: torch`, or a preset that can: {}",
                PRESETS.join(", ")
            )));
        }
        if self.is_preset() && self.weights == Some(Weights::Pretrained) {
            return Err(
                Invalid::new("weights", "a preset has the model's shapes and no pretrained weights")
                    .with("model")
                    .help("give the directory of a checkpoint as the model, or use `weights: random`"),
            );
        }
        Ok(())
    }

    /// That the model, where it is a preset, and the data are for the task. What a directory's model is for is seen when it
    /// is opened.
    fn check_task(&self) -> Checked {
        let (task, model) = (self.task, self.model.as_str());
        let classifies = task == Task::SequenceClassification;
        if self.is_encoder_preset() && !classifies {
            return Err(
                Invalid::new("task", format!("`{model}` is an encoder and does not predict tokens"))
                    .with("model")
                    .help("write `task: sequence_classification`"),
            );
        }
        if self.is_preset() && !self.is_encoder_preset() && classifies {
            return Err(Invalid::new(
                "task",
                format!("`{model}` is a decoder; `{}` is for encoders", task.name()),
            )
            .with("model")
            .help(format!(
                "leave the key out, or use {}",
                ENCODER_PRESETS.map(|name| format!("`{name}`")).join(" or ")
            )));
        }
        if !classifies && self.num_labels != DEFAULT_LABELS {
            return Err(Invalid::new("num_labels", "a causal language model has no labels")
                .with("task")
                .help("leave the key out, or write `task: sequence_classification`"));
        }
        at_least("num_labels", self.num_labels, 2)?;
        at_most("num_labels", self.num_labels, 1 << 16)
    }

    fn check_adapter(&self) -> Checked {
        if self.rank == 0 && matches!(self.dtype, Dtype::Int4 | Dtype::Int8) {
            return Err(Invalid::new(
                "rank",
                "rank 0 trains every weight, and quantised weights cannot be trained",
            )
            .with("dtype")
            .help("use `rank: 1` or more, or a `dtype` of float32, float16 or bfloat16"));
        }
        at_most("rank", self.rank, 1 << 16)?;
        if let Some(alpha) = self.lora_alpha {
            number(
                "lora_alpha",
                alpha,
                alpha > 0.0 && alpha <= 1e6,
                "more than 0 and at most 1e6",
            )?;
        }
        let dropout = self.lora_dropout;
        number(
            "lora_dropout",
            dropout,
            (0.0..1.0).contains(&dropout),
            "at least 0 and less than 1",
        )?;
        if self.rank == 0 {
            self.check_no_adapter()?;
        }
        let TargetModules::Names(names) = &self.target_modules else {
            return Ok(());
        };
        if names.is_empty() {
            return Err(Invalid::new("target_modules", "the list is empty").help("`rank: 0` trains without adapters"));
        }
        let modules: Vec<&str> = match self.task {
            Task::CausalLm if self.stack == Stack::Torch => MODULES.into_iter().chain(FUSED_MODULES).collect(),
            Task::CausalLm => MODULES.to_vec(),
            Task::SequenceClassification => ENCODER_MODULES.to_vec(),
        };
        for (index, name) in names.iter().enumerate() {
            let invalid = |message| Invalid::new(format!("target_modules[{index}]"), message);
            if !modules.contains(&name.as_str()) {
                let near = nearest(name, modules.iter().copied()).map(did_you_mean);
                let help = near.unwrap_or_else(|| format!("the modules are {}", modules.join(", ")));
                return Err(invalid(format!("{} is no linear layer of a block", quoted(name))).help(help));
            }
            if names[..index].contains(name) {
                return Err(invalid(format!("`{name}` is here twice")));
            }
        }
        Ok(())
    }

    /// Without adapters their keys would do nothing.
    fn check_no_adapter(&self) -> Checked {
        let given = [
            ("lora_alpha", self.lora_alpha.is_some()),
            ("lora_dropout", self.lora_dropout != 0.0),
            ("target_modules", self.target_modules != TargetModules::AllLinear),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(Invalid::new(*key, "rank 0 trains every weight and has no adapter")
                .with("rank")
                .help("leave the key out, or use `rank: 1` or more")),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Checked {
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

    fn check_schedule(&self) -> Checked {
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

    fn check_optimizer(&self) -> Checked {
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
    fn check_measure(&self) -> Checked {
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

    fn check_data(&self) -> Checked {
        let held_out = self.eval_fraction;
        number(
            "eval_fraction",
            held_out,
            (0.0..1.0).contains(&held_out),
            "at least 0 and less than 1",
        )?;
        match &self.data {
            Data::Synthetic(synthetic) => {
                check_synthetic(synthetic)?;
                self.check_samples(synthetic.samples)
            }
            Data::File(file) => {
                check_file(file)?;
                self.check_labels(file)
            }
            Data::Sample if self.task == Task::SequenceClassification => {
                Err(Invalid::new("data", "the sample text has no labels")
                    .with("task")
                    .help("use `synthetic`, or a JSONL or Parquet file: `{path: …, label_column: label}`"))
            }
            Data::Sample => Ok(()),
        }
    }

    fn check_labels(&self, file: &DataFile) -> Checked {
        if self.task == Task::CausalLm {
            return match file.label_column {
                None => Ok(()),
                Some(_) => Err(
                    Invalid::new("data.label_column", "a causal language model is trained without labels")
                        .with("task")
                        .help("leave the key out, or write `task: sequence_classification`"),
                ),
            };
        }
        if file.format() == DataFormat::Text {
            return Err(Invalid::new("data.path", "a text file has no labels")
                .with("task")
                .help("give a JSONL or Parquet file with a column of labels"));
        }
        Ok(())
    }

    fn check_samples(&self, samples: usize) -> Checked {
        let (needed, held_out) = (self.effective_batch_size(), self.held_out(samples));
        if samples.saturating_sub(held_out) >= needed {
            return Ok(());
        }
        let of_them = if held_out > 0 {
            format!(", {held_out} of them held out")
        } else {
            String::new()
        };
        let (batch, accumulation) = (self.batch_size, self.gradient_accumulation_steps);
        Err(Invalid::new(
            "data.synthetic.samples",
            format!("a step of {batch} × {accumulation} needs {needed} samples, and there are {samples}{of_them}"),
        )
        .with("batch_size")
        .with("gradient_accumulation_steps")
        .help("ask for more samples: `data: {synthetic: {samples: …}}`"))
    }

    fn check_process(&self) -> Checked {
        if self.device().is_none() {
            let message = format!("{} is no device; a device is `cpu` or `cuda:N`", quoted(&self.device));
            let help = matches!(self.device.as_str(), "cuda" | "gpu").then(|| did_you_mean("cuda:0"));
            return Err(Invalid {
                help,
                ..Invalid::new("device", message)
            });
        }
        if self.device_memory.is_some() && self.device() != Some(Device::Cpu) {
            return Err(Invalid::new("device_memory", "a budget is kept on the cpu only so far")
                .with("device")
                .help("leave the key out for no budget"));
        }
        if let Some(threads) = self.threads {
            at_least("threads", threads, 1)?;
            at_most("threads", threads, MOST_THREADS)?;
        }
        if self.instruction_set != InstructionSet::Auto && self.device() != Some(Device::Cpu) {
            return Err(
                Invalid::new("instruction_set", "the kernels that have one are for the cpu")
                    .with("device")
                    .help("leave the key out"),
            );
        }
        for (map, env) in [("env", &self.env), ("allocator.env", &self.allocator.env)] {
            for (name, value) in env {
                check_variable(map, name, value.as_deref())?;
                if value.is_some() {
                    self.check_reader(map, name)?;
                }
            }
        }
        match self.env.keys().find(|name| self.allocator.env.contains_key(*name)) {
            Some(name) => Err(Invalid::new(
                format!("env.{name}"),
                format!("{} is in allocator.env as well", quoted(name)),
            )
            .with("allocator")),
            None => Ok(()),
        }
    }

    /// Whether the cell's allocator reads this variable, where it is one that an allocator reads.
    fn check_reader(&self, map: &str, name: &str) -> Checked {
        let reader = BACKEND_VARIABLES.iter().find(|(prefix, _)| name.starts_with(prefix));
        match reader {
            Some((_, reader)) if *reader != self.backend() && self.stack == Stack::Candle => {
                let (backend, reader) = (self.backend().name(), reader.name());
                let message = format!("the allocator `{backend}` does not heed this variable");
                Err(Invalid {
                    with: self
                        .allocator
                        .backend
                        .map(|_| "allocator.backend")
                        .into_iter()
                        .collect(),
                    help: Some(format!("set `allocator.backend: {reader}`")),
                    ..Invalid::new(format!("{map}.{name}"), message)
                })
            }
            _ => Ok(()),
        }
    }
}

fn check_synthetic(synthetic: &Synthetic) -> Checked {
    at_least("data.synthetic.samples", synthetic.samples, 1)?;
    at_most("data.synthetic.samples", synthetic.samples, 1 << 32)?;
    let Lengths::List(lengths) = &synthetic.lengths else {
        return Ok(());
    };
    if lengths.is_empty() {
        return Err(Invalid::new("data.synthetic.lengths", "the list is empty"));
    }
    for (index, &length) in lengths.iter().enumerate() {
        let key = format!("data.synthetic.lengths[{index}]");
        at_least(&key, length, 2)?;
        at_most(&key, length, 1 << 24)?;
    }
    Ok(())
}

fn check_file(file: &DataFile) -> Checked {
    if file.path.is_empty() {
        return Err(Invalid::new("data.path", "the path is empty"));
    }
    if file.format.is_none() && file.format_by_extension().is_none() {
        let message = format!("the name of {} does not say what the file is", quoted(&file.path));
        return Err(Invalid::new("data.path", message).help("give the `format`: text, jsonl or parquet"));
    }
    if file.column.is_some() && file.format() == DataFormat::Text {
        return Err(
            Invalid::new("data.column", "a text file has no columns").help("leave the key out, or give the `format`")
        );
    }
    Ok(())
}

fn check_variable(map: &str, name: &str, value: Option<&str>) -> Checked {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Invalid::new(
            map,
            format!("{} cannot be the name of an environment variable", quoted(name)),
        ));
    }
    if let Some((_, key)) = RUN_VARIABLES.iter().find(|(variable, _)| *variable == name) {
        return Err(
            Invalid::new(format!("{map}.{name}"), "the trainer sets this variable itself").help(format!("use `{key}`")),
        );
    }
    if value.is_some_and(|value| value.contains('\0')) {
        return Err(Invalid::new(
            format!("{map}.{name}"),
            "an environment variable cannot hold a NUL character",
        ));
    }
    Ok(())
}

fn at_least(key: &str, value: usize, least: usize) -> Checked {
    if value >= least {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at least {least}, got {value}")))
    }
}

fn at_most(key: &str, value: usize, most: usize) -> Checked {
    if value <= most {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be at most {most}, got {value}")))
    }
}

fn number(key: &str, value: f64, holds: bool, range: &str) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Invalid::new(key, format!("must be {range}, got {value}")))
    }
}

#[cfg(test)]
mod tests;
