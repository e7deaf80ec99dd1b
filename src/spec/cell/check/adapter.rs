//! The keys of adapters.

use super::super::heeds::ADAPTER;
use super::super::{Adapter, Cell, Device, Dtype, LoraATraining, Stack, TargetModules, Task, stacks};
use super::found::Found;
use super::invalid::{Invalid, at_least, at_most, number};
use crate::arch::check;
use crate::options::{Bias, InitLoraWeights, NamePattern};
use crate::text::did_you_mean;
use crate::text::{nearest, quoted};

impl Cell {
    pub(super) fn check_adapter(&self, found: &mut Found) {
        if let Some(patterns) = &self.trainable {
            self.check_trainable(patterns, found);
        } else if self.rank == 0 && self.dtype.is_quantised() {
            found.add(
                Invalid::new(
                    "rank",
                    "rank 0 trains every weight, and quantised weights cannot be trained",
                )
                .with("dtype")
                .help("use `rank: 1` or more, a `dtype` of float32, float16 or bfloat16, or `trainable: ['.*norm']`"),
            );
        }
        found.check(at_most("rank", self.rank, 1 << 16));
        if let Some(alpha) = self.lora_alpha {
            found.check(number(
                "lora_alpha",
                alpha,
                alpha > 0.0 && alpha <= 1e6,
                "more than 0 and at most 1e6",
            ));
        }
        let dropout = self.lora_dropout;
        found.check(number(
            "lora_dropout",
            dropout,
            (0.0..1.0).contains(&dropout),
            "at least 0 and less than 1",
        ));
        if self.stack == Stack::Candle && self.adapter == Adapter::Dora && dropout > 0.0 {
            found.add(
                Invalid::new(
                    "lora_dropout",
                    "DoRA is not trained with dropout yet: PEFT then needs a second product with the weight",
                )
                .with("adapter")
                .help("leave the key out, or use `adapter: lora`"),
            );
        }
        self.check_lora(found);
        if self.rank == 0 {
            self.check_no_adapter(found);
        }
        if let Some(layers) = &self.layers_to_transform {
            self.check_layers(layers, found);
        }
        if let Some(names) = &self.modules_to_save {
            self.check_saved(names, found);
        }
        let TargetModules::Names(names) = &self.target_modules else {
            return;
        };
        if names.is_empty() {
            found.add(Invalid::new("target_modules", "the list is empty").help("`rank: 0` trains without adapters"));
        }
        let modules = check::target_modules(self.stack, self.task);
        for (index, name) in names.iter().enumerate() {
            let invalid = |message| Invalid::new(format!("target_modules[{index}]"), message);
            if !modules.contains(&name.as_str()) {
                let near = nearest(name, modules.iter().copied()).map(did_you_mean);
                let help = near.unwrap_or_else(|| format!("the modules are {}", modules.join(", ")));
                found.add(invalid(format!("{} is not a linear layer of this model", quoted(name))).help(help));
            }
            if names[..index].contains(name) {
                found.add(invalid(format!("`{name}` is here twice")));
            }
        }
    }

    fn check_trainable(&self, patterns: &[NamePattern], found: &mut Found) {
        let invalid = |message: &str| Invalid::new("trainable", message);
        if self.rank > 0 {
            let message = "adapters leave the model's weights as they are";
            found.add(
                invalid(message)
                    .with("rank")
                    .help("leave the key out, or use `rank: 0`"),
            );
        }
        if patterns.is_empty() {
            found.add(invalid("the list is empty").help("leave the key out to train every weight"));
        }
        if let Some(at) = (1..patterns.len()).find(|&at| patterns[..at].contains(&patterns[at])) {
            found.add(Invalid::new(
                format!("trainable[{at}]"),
                format!("`{}` is here twice", patterns[at]),
            ));
        }
    }

    fn check_layers(&self, layers: &[usize], found: &mut Found) {
        let invalid = |message: &str| Invalid::new("layers_to_transform", message);
        if layers.is_empty() {
            found.add(invalid("the list is empty").help("leave the key out, or use `rank: 0`"));
        }
        if let Some(at) = (1..layers.len()).find(|&at| layers[..at].contains(&layers[at])) {
            let key = format!("layers_to_transform[{at}]");
            found.add(Invalid::new(key, format!("{} is here twice", layers[at])));
        }
        if matches!(self.target_modules, TargetModules::Pattern(_)) {
            let message = "a regular expression says which blocks are meant by itself, as in PEFT";
            found.add(invalid(message).with("target_modules").help("leave the key out"));
        }
    }

    fn check_saved(&self, names: &[String], found: &mut Found) {
        if names.is_empty() {
            found.add(Invalid::new("modules_to_save", "the list is empty").help("leave the key out"));
        }
        for (index, name) in names.iter().enumerate() {
            let invalid = |message: String| Invalid::new(format!("modules_to_save[{index}]"), message);
            if names[..index].contains(name) {
                found.add(invalid(format!("`{name}` is here twice")));
            }
            if name.is_empty() {
                found.add(invalid("the name is empty".into()));
            }
        }
        if self.lora.loraplus_lr_ratio.is_some() && self.weight_decay > 0.0 {
            let message = "PEFT decays no vector with LoRA+, and all that is trained is decayed here";
            let invalid = Invalid::new("modules_to_save", message).with("weight_decay");
            found.add(invalid.with("lora.loraplus_lr_ratio").help("use `weight_decay: 0`"));
        }
    }

    /// The options below `lora`.
    fn check_lora(&self, found: &mut Found) {
        let lora = &self.lora;
        for (pattern, rank) in &lora.rank_pattern {
            let key = format!("lora.rank_pattern.{pattern}");
            found.check(at_least(&key, *rank, 1).and_then(|()| at_most(&key, *rank, 1 << 16)));
            if *rank == self.rank {
                let invalid = Invalid::new(key, format!("{rank} is the rank of every module already"));
                found.add(invalid.with("rank").help("leave the pattern out"));
            }
        }
        for (pattern, alpha) in &lora.alpha_pattern {
            let key = format!("lora.alpha_pattern.{pattern}");
            let holds = *alpha > 0.0 && *alpha <= 1e6;
            found.check(number(&key, *alpha, holds, "more than 0 and at most 1e6"));
            if *alpha == self.lora_alpha() {
                let invalid = Invalid::new(key, format!("{alpha} is the alpha of every module already"));
                found.add(invalid.with("lora_alpha").help("leave the pattern out"));
            }
        }
        if let Some(ratio) = lora.loraplus_lr_ratio {
            let holds = ratio > 0.0 && ratio <= 1e6;
            found.check(number(
                "lora.loraplus_lr_ratio",
                ratio,
                holds,
                "more than 0 and at most 1e6",
            ));
        }
        let is_classifier = self.task == Task::SequenceClassification;
        if lora.bias != Bias::None && is_classifier {
            let message = "a classifier's biases are not trained beside adapters yet";
            let invalid = Invalid::new("lora.bias", message).with("task");
            found.add(invalid.help("leave the key out, or use `rank: 0` with `trainable: [bias]`"));
        }
        let has_biases = lora.bias != Bias::None || is_classifier;
        if lora.loraplus_lr_ratio.is_some() && has_biases && self.weight_decay > 0.0 {
            let message = "PEFT decays no bias with LoRA+, and all that is trained is decayed here";
            let invalid = Invalid::new("lora.loraplus_lr_ratio", message).with("weight_decay");
            found.add(invalid.help("use `weight_decay: 0`"));
        }
        let init = lora.init_lora_weights;
        if !init.changes_weight() {
            return;
        }
        let invalid = |message: &str| Invalid::new("lora.init_lora_weights", message);
        let help = "use `init_lora_weights: default` or `gaussian`";
        if init == InitLoraWeights::Pissa && self.dtype.is_quantised() {
            let message = "PiSSA's rest of a weight cannot be taken out of quantised numbers, as in PEFT";
            found.add(
                invalid(message)
                    .with("dtype")
                    .help("use `init_lora_weights: olora`, or `dtype: bfloat16`"),
            );
        }
        if self.dtype.is_quantised() && matches!(self.device(), Some(Device::Cuda(_))) {
            let message = "quantised weights are changed on the CPU only so far";
            found.add(invalid(message).with("dtype").with("device").help(help));
        }
        if self.stack == Stack::Candle && self.adapter == Adapter::Dora {
            let message = "DoRA's magnitudes are not computed from factors that were taken out of the weight yet";
            found.add(invalid(message).with("adapter").help(help));
        }
        if self.lora_fa != LoraATraining::Trained {
            let message = "LoRA-FA is defined with a random A, and a B of zeros";
            found.add(invalid(message).with("lora_fa").help(help));
        }
        if self.stack == Stack::Torch && init == InitLoraWeights::Olora && self.dtype == Dtype::Int8 {
            let message = "PEFT leaves weights of int8 in float32 after it, which is not planned";
            found.add(invalid(message).with("dtype").help(help));
        }
    }

    /// Without adapters their keys would do nothing.
    fn check_no_adapter(&self, found: &mut Found) {
        let (keys, defaults) = (self.to_map(), Cell::default().to_map());
        // A key of the other stack is a mistake of its own.
        let in_stack = |key: &&str| stacks(key).contains(&self.stack);
        let given = ADAPTER
            .into_iter()
            .filter(in_stack)
            .filter(|key| keys.get(*key) != defaults.get(*key));
        for key in given {
            found.add(
                Invalid::new(key, "rank 0 trains every weight and has no adapter")
                    .with("rank")
                    .help("leave the key out, or use `rank: 1` or more"),
            );
        }
    }
}
