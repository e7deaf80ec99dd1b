//! The model, and the task it is trained for.

use arch::{Preset, check, suggestion};
use base::text::quoted;
use hub::HubName;

use super::super::{Cell, Stack, Task, Weights};
use super::found::Found;
use options::invalid::Invalid;

impl Cell {
    pub(super) fn check_model(&self, found: &mut Found) {
        let model = self.model.as_str();
        if let Err(mistake) = HubName::of_model(model) {
            found.add(Invalid::new("model", mistake.message).help(mistake.help.unwrap_or_default()));
        }
        let is_path = model.contains(['/', '\\']) || model.starts_with('.');
        let preset = Preset::named(model);
        let has_shape = self.stack == Stack::Torch && Preset::of_hub_name(model).is_some();
        if preset.is_none() && !has_shape && !is_path {
            let message = format!("{} is not a preset", quoted(model));
            found.add(
                Invalid::new("model", message).help(suggestion(model).unwrap_or_else(|| {
                    format!(
                        "`expctl list --models` prints the presets; a directory has a slash: `./{model}`, and so has a \
                         model of the hub: `owner/{model}`"
                    )
                })),
            );
        }
        let unsupported = preset.and_then(|preset| check::check(&preset.config(), self.stack).err());
        if let Some(unsupported) = unsupported {
            let other = match self.stack {
                Stack::Candle => "plan it with `stack: torch`, or ",
                Stack::Torch => "",
            };
            let computed: Vec<_> = check::presets(self.stack).map(|preset| preset.name()).collect();
            found.add(
                Invalid::new("model", unsupported.to_string())
                    .with("stack")
                    .help(format!("{other}use one of {}", computed.join(", "))),
            );
        }
        // A plan of PyTorch's stack needs no weights.
        if preset.is_some() && self.weights == Some(Weights::Pretrained) && self.stack == Stack::Candle {
            found.add(
                Invalid::new("weights", "a preset has the model's shapes and no pretrained weights")
                    .with("model")
                    .help(
                        "give a checkpoint's directory or its name on the hub as the model, or use `weights: random`",
                    ),
            );
        }
    }

    /// Checks that a preset is for the task. What a directory's model is for shows when it is opened.
    pub(super) fn check_task(&self, found: &mut Found) {
        let (task, model) = (self.task, self.model.as_str());
        let classifies = task == Task::SequenceClassification;
        let preset = Preset::named(model).map(|preset| preset.config());
        let is_encoder = preset.as_ref().map(|config| config.family.is_encoder());
        if is_encoder == Some(true) && !classifies {
            found.add(
                Invalid::new("task", format!("`{model}` is an encoder and does not predict tokens"))
                    .with("model")
                    .help("write `task: sequence_classification`"),
            );
        }
        if is_encoder == Some(false) && classifies {
            found.add(
                Invalid::new(
                    "task",
                    format!("`{model}` is a decoder; `{}` is for encoders", task.name()),
                )
                .with("model")
                .help(format!(
                    "leave the key out, or use {}",
                    encoders(self.stack).join(" or ")
                )),
            );
        }
    }
}

fn encoders(stack: Stack) -> Vec<String> {
    let encoders = check::presets(stack).filter(|preset| preset.config().family.is_encoder());
    encoders.map(|preset| format!("`{}`", preset.name())).collect()
}
