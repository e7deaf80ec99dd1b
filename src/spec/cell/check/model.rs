//! The model, and the task it is trained for.

use super::super::{Cell, DEFAULT_LABELS, ENCODER_PRESETS, PLANNED_PRESETS, PRESETS, Stack, Task, Weights, presets};
use super::invalid::{Checked, Invalid, at_least, at_most};
use crate::text::did_you_mean;
use crate::text::{nearest, quoted};

impl Cell {
    pub(super) fn check_model(&self) -> Checked {
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
    pub(super) fn check_task(&self) -> Checked {
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
}
