//! The keys of adapters.

use arch::{ModelConfig, Preset, check};
use base::text::{Mistake, did_you_mean, either, nearest, quoted};
use options::invalid::{Invalid, at_most, number, probability};
use options::methods::interface::Context;
use options::{AdapterOptions, ExcludedModules, NamePattern};
use serde_json::{Map, Value};

use super::super::heeds::of_adapters;
use super::super::{Adapter, Cell, Checkpointing, Device, TargetModules, stacks};
use super::found::Found;

impl Cell {
    pub(super) fn check_adapter(&self, keys: &Map<String, Value>, found: &mut Found) {
        if let Some(patterns) = &self.trainable {
            self.check_trainable(patterns, found);
        } else if self.method().is_none() && self.dtype.is_quantised() {
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
        found.check(probability("lora_dropout", self.lora_dropout));
        match self.adapter_options() {
            Some(adapter) => {
                self.check_own_keys(keys, found);
                self.check_method(&adapter, found);
            }
            None => self.check_no_adapter(found),
        }
        if let Some(layers) = &self.layers_to_transform {
            self.check_layers(layers, found);
        }
        if let Some(excluded) = self.exclude_modules.as_ref().filter(|_| self.adapter_config.is_none()) {
            self.check_excluded(excluded, found);
        }
        if let Some(names) = &self.modules_to_save {
            self.check_saved(names, found);
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

    /// Checks that something is excluded, each name once; and of a preset, that it is there. A directory's model shows it
    /// when it is opened. An `adapter_config` may say anything, as in PEFT.
    fn check_excluded(&self, excluded: &ExcludedModules, found: &mut Found) {
        let empty =
            |what: &str| Invalid::new("exclude_modules", format!("the {what} is empty")).help("leave the key out");
        match excluded {
            ExcludedModules::Names(names) if names.is_empty() => return found.add(empty("list")),
            ExcludedModules::Pattern(pattern) if pattern.to_string().is_empty() => return found.add(empty("text")),
            ExcludedModules::Pattern(_) => {}
            ExcludedModules::Names(names) => {
                for (at, name) in names.iter().enumerate() {
                    let invalid = |message| Invalid::new(format!("exclude_modules[{at}]"), message);
                    if name.is_empty() {
                        return found.add(invalid("the name is empty".to_owned()));
                    }
                    if names[..at].contains(name) {
                        return found.add(invalid(format!("`{name}` is here twice")));
                    }
                }
            }
        }
        if let Some(preset) = Preset::named(&self.model)
            && let Err(mistake) = self.check_excluded_in(&preset.config())
        {
            found.add(Invalid::of("exclude_modules", mistake).with("model"));
        }
    }

    /// Checks that a model has the modules that are excluded. An `adapter_config` may name those of other models, as in
    /// PEFT.
    pub(super) fn check_excluded_in(&self, model: &ModelConfig) -> Result<(), Mistake> {
        let excluded = self.exclude_modules.as_ref().filter(|_| self.adapter_config.is_none());
        match excluded.and_then(|excluded| check::unknown_module(model, excluded)) {
            Some(part) => {
                let part = quoted(&part.to_string());
                Err(Mistake::new(format!("the model `{}` has no module {part}", self.model)).help("leave it out"))
            }
            None => Ok(()),
        }
    }

    /// The method's own options, and what it does not go with.
    fn check_method(&self, adapter: &AdapterOptions, found: &mut Found) {
        let method = adapter.method.options();
        let mut invalid = Vec::new();
        method.check_values(&mut invalid);
        let context = Context {
            facts: self.adapter.facts(),
            name: self.adapter.name(),
            rank: adapter.rank,
            lora_alpha: adapter.lora_alpha,
            lora_dropout: adapter.lora_dropout,
            lora_fa: adapter.lora_fa,
            layers_to_transform: adapter.layers_to_transform.as_deref(),
            modules_to_save: &adapter.modules_to_save,
            model: &self.model_options(),
            stack: self.stack,
            is_on_gpu: matches!(self.device(), Some(Device::Cuda(_))),
            is_packed: self.packing,
            has_checkpoints: self.gradient_checkpointing != Checkpointing::None,
            weight_decay: self.weight_decay,
        };
        method.check(&context, &mut invalid);
        invalid.into_iter().for_each(|invalid| found.add(invalid));
        if let Some((key, names)) = method.named_layers() {
            self.check_names(key, names, found);
        }
    }

    /// The keys of other methods must have their defaults.
    fn check_own_keys(&self, keys: &Map<String, Value>, found: &mut Found) {
        let defaults = Self::default_map();
        let own = Adapter::own_keys().filter(|key| !self.adapter.heeds(key));
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
        let given = of_adapters()
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
