//! The keys of adapters.

use arch::check;
use base::text::did_you_mean;
use base::text::{either, nearest, quoted};
use options::{Bias, InitLoraWeights, MissInit, NamePattern, PromptInit};

use super::super::heeds::ADAPTER;
use super::super::{Adapter, Cell, Device, Dtype, LoraATraining, Stack, TargetModules, Task, stacks};
use super::found::Found;
use super::invalid::{Checked, Invalid, at_least, at_most, number};

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
        found.check(probability("lora_dropout", dropout));
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
        self.check_miss(found);
        self.check_vera(found);
        self.check_prompt(found);
        if self.rank == 0 {
            self.check_no_adapter(found);
        } else {
            self.check_own_keys(found);
        }
        self.check_lora(found);
        if let Some(layers) = &self.layers_to_transform {
            self.check_layers(layers, found);
        }
        if let Some(names) = &self.modules_to_save {
            self.check_saved(names, found);
        }
        let finds_outliers = self.llm_int8_threshold.is_some_and(|threshold| threshold > 0.0);
        if self.stack == Stack::Candle && self.adapter == Adapter::Ia3 && finds_outliers {
            let message = "IA3's scaled inputs are not multiplied as integers yet";
            let invalid = Invalid::new("llm_int8_threshold", message).with("adapter");
            found.add(invalid.help("leave the key out, or use another `adapter`"));
        }
        if let Some(names) = &self.ia3.feedforward_modules {
            self.check_names("ia3.feedforward_modules", names, found);
        }
        let Some(TargetModules::Names(names)) = &self.target_modules else {
            return;
        };
        if names.is_empty() {
            found.add(Invalid::new("target_modules", "the list is empty").help("`rank: 0` trains without adapters"));
        }
        self.check_names("target_modules", names, found);
    }

    /// Checks that the names are ends of those of linear layers, each once.
    fn check_names(&self, key: &str, names: &[String], found: &mut Found) {
        let modules = check::target_modules(self.stack, self.task);
        for (index, name) in names.iter().enumerate() {
            let invalid = |message| Invalid::new(format!("{key}[{index}]"), message);
            let last = name.rsplit('.').next().unwrap_or(name);
            if !modules.contains(&last) {
                let near = nearest(last, modules.iter().copied()).map(did_you_mean);
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
                Invalid::idle("trainable", message)
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
        if matches!(self.target_modules, Some(TargetModules::Pattern(_))) {
            let message = "a regular expression says which blocks are meant by itself, as in PEFT";
            found.add(invalid(message).with("target_modules").help("leave the key out"));
        }
    }

    /// The options below `miss`.
    fn check_miss(&self, found: &mut Found) {
        let miss = &self.miss;
        found.check(probability("miss.miss_dropout", miss.miss_dropout));
        if let Some(mini_r) = miss.mini_r {
            found.check(at_least("miss.mini_r", mini_r, 1));
            if miss.init_weights != MissInit::Mini {
                let invalid =
                    Invalid::idle("miss.mini_r", "only `init_weights: mini` has it").with("miss.init_weights");
                found.add(invalid.help("leave the key out, or use `miss: {init_weights: mini}`"));
            }
        }
        if miss.init_weights == MissInit::Bat {
            let message = "bat multiplies the weight itself with the blocks, which is not trained yet";
            let invalid = Invalid::new("miss.init_weights", message);
            found.add(invalid.help("use `init_weights: default` or `mini`"));
        }
    }

    /// The options below `vera`.
    fn check_vera(&self, found: &mut Found) {
        let (dropout, start) = (self.vera.vera_dropout, self.vera.d_initial);
        found.check(probability("vera.vera_dropout", dropout));
        found.check(number(
            "vera.d_initial",
            start,
            start.is_finite() && start.abs() <= 1e3,
            "from -1000 to 1000",
        ));
        if self.vera.projection_prng_key > u64::from(u32::MAX) {
            let message = "PyTorch's generator takes the lower 32 bits of a key alone";
            let invalid = Invalid::new("vera.projection_prng_key", message);
            found.add(invalid.help(format!("use a key of at most {}", u32::MAX)));
        }
    }

    /// The options below `prompt_tuning` and `prefix_tuning`, and what does not go with virtual tokens.
    fn check_prompt(&self, found: &mut Found) {
        let prompt = &self.prompt_tuning;
        for (key, tokens) in [
            ("prompt_tuning.num_virtual_tokens", prompt.num_virtual_tokens),
            (
                "prefix_tuning.num_virtual_tokens",
                self.prefix_tuning.num_virtual_tokens,
            ),
        ] {
            found.check(at_least(key, tokens, 1).and_then(|()| at_most(key, tokens, 1 << 16)));
        }
        let key = "prompt_tuning.init_text";
        match (prompt.init, &prompt.init_text) {
            (PromptInit::Text, None) => {
                let invalid = Invalid::new(
                    "prompt_tuning.init",
                    "the virtual tokens start from a text that is not there",
                );
                found.add(invalid.with(key).help("write `init_text`, or use `init: random`"));
            }
            (PromptInit::Text, Some(text)) if text.is_empty() => {
                found.add(Invalid::new(key, "the text is empty").help("use `init: random`"));
            }
            (PromptInit::Random, Some(_)) => {
                let invalid = Invalid::idle(key, "only `init: text` starts from a text").with("prompt_tuning.init");
                found.add(invalid.help("leave the key out, or use `init: text`"));
            }
            _ => {}
        }
        if self.rank == 0 || !self.adapter.has_virtual_tokens() {
            return;
        }
        let name = self.adapter.name();
        let invalid = |message: &str| Invalid::new("adapter", format!("`{name}` {message}"));
        if self.task == Task::SequenceClassification {
            let invalid = invalid("is trained in decoders only so far").with("task");
            found.add(invalid.help("use `task: causal_lm`, or another `adapter`"));
        }
        if self.packing {
            let invalid =
                invalid("puts virtual tokens before each sample, and packed samples share a row").with("packing");
            found.add(invalid.help("use `packing: false`, or another `adapter`"));
        }
    }

    /// The keys of other methods must have their defaults.
    fn check_own_keys(&self, found: &mut Found) {
        let (keys, defaults) = (self.to_map(), Self::default_map());
        let own = Adapter::OWN_KEYS.into_iter().filter(|key| !self.adapter.heeds(key));
        for key in own.filter(|key| keys.get(*key) != defaults.get(*key)) {
            let message = format!("has no effect with `adapter: {}`", self.adapter.name());
            let having = Adapter::ALL.into_iter().filter(|adapter| adapter.heeds(key));
            let having: Vec<_> = having.map(Adapter::name).collect();
            let help = format!("leave the key out, or use the adapter {}", either(&having));
            found.add(Invalid::idle(key, message).with("adapter").help(help));
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
        // What leaving the key out means is no mistake.
        let target_modules = self.target_modules.clone();
        let plain = Self {
            target_modules: target_modules.filter(|targets| Some(targets) != self.default_targets().as_ref()),
            ..self.clone()
        };
        let (keys, defaults) = (plain.to_map(), Cell::default().to_map());
        // A key of the other stack is a mistake of its own.
        let in_stack = |key: &&str| stacks(key).contains(&self.stack);
        let given = ADAPTER
            .into_iter()
            .filter(in_stack)
            .filter(|key| keys.get(*key) != defaults.get(*key));
        for key in given {
            found.add(
                Invalid::idle(key, "rank 0 trains every weight and has no adapter")
                    .with("rank")
                    .help("leave the key out, or use `rank: 1` or more"),
            );
        }
    }
}

/// Checks a probability of dropout.
fn probability(key: &str, value: f64) -> Checked {
    number(key, value, (0.0..1.0).contains(&value), "at least 0 and less than 1")
}
