//! `adapter_config.json`.

use std::collections::BTreeSet;

use options::methods::interface::{Field, Of, SavedTensor};
use options::methods::{PROMPT_EMBEDDINGS, VERA_SHARED};
use options::{Adapter, AdapterMethod, AdapterOptions, Bias, LoraATraining, NamePattern, TargetModules, Task, ends_in};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::field_error::FieldError;
use super::targets::{Layers, Targets};

/// A field of `adapter_config.json`, the key of a cell that it stands for, and the key's value.
pub type FieldKey = (&'static str, &'static str, Value);

/// The content of `adapter_config.json`. Missing fields have PEFT's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub(super) common: Common,
    /// The method with its options. Which modules have it is said by the fields of this type.
    pub(super) adapter: AdapterOptions,
    /// The modules that have an adapter; none of virtual tokens.
    pub target_modules: Option<Targets>,
    /// The blocks that have them; all without.
    pub layers_to_transform: Option<Layers>,
    /// Suffixes of the names of modules that are trained and saved whole, besides the adapters.
    pub modules_to_save: Option<Vec<String>>,
    /// The first field with which new adapters begin otherwise than here, and its value.
    pub(super) other_start: Option<(String, String)>,
}

/// The fields that say what the adapter is of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Common {
    pub(super) task_type: Option<String>,
    pub(super) base_model_name_or_path: Option<String>,
    pub(super) inference_mode: bool,
}

/// Names of a classifier's head, which PEFT saves with its adapter.
const HEADS: [&str; 2] = ["classifier", "score"];
/// Names of the tables of tokens' vectors and of the head, which PEFT saves where one of them has an adapter.
const TABLES: [&str; 2] = ["embed_tokens", "lm_head"];

/// PEFT's name of a task.
pub fn task_type(task: Task) -> &'static str {
    match task {
        Task::CausalLm => "CAUSAL_LM",
        Task::SequenceClassification => "SEQ_CLS",
    }
}

impl Config {
    /// The configuration of a model's adapters. PEFT saves the head of a classifier with it.
    pub fn new(task: Task, base_model: impl Into<String>, adapter: &AdapterOptions) -> Self {
        let heads: &[&str] = match task {
            Task::CausalLm => &[],
            Task::SequenceClassification => &HEADS,
        };
        let saved = adapter.modules_to_save.iter().cloned();
        let saved: Vec<String> = saved.chain(heads.iter().map(ToString::to_string)).collect();
        Self {
            common: Common {
                task_type: Some(task_type(task).into()),
                base_model_name_or_path: Some(base_model.into()),
                inference_mode: true,
            },
            target_modules: (!adapter.adapter().has_virtual_tokens()).then(|| match &adapter.target_modules {
                Some(TargetModules::Pattern(pattern)) => Targets::Pattern(pattern.to_string()),
                None | Some(TargetModules::AllLinear | TargetModules::Peft) => Targets::Names(BTreeSet::new()),
                Some(TargetModules::Names(names)) => Targets::Names(names.iter().cloned().collect()),
            }),
            // Modules that are listed one by one need none.
            layers_to_transform: match &adapter.target_modules {
                _ if matches!(adapter.method, AdapterMethod::Ia3(_)) || adapter.exclude_modules.is_some() => None,
                Some(TargetModules::Names(names)) if names.iter().any(|name| name.contains('.')) => None,
                _ => adapter.layers_to_transform.clone().map(Layers::Several),
            },
            modules_to_save: (!saved.is_empty()).then_some(saved),
            adapter: AdapterOptions {
                lora_alpha: adapter.lora_alpha,
                lora_dropout: adapter.lora_dropout,
                lora_fa: LoraATraining::Trained,
                exclude_modules: adapter.exclude_modules.clone(),
                ..AdapterOptions::of_rank(adapter.method.clone(), adapter.rank)
            },
            other_start: None,
        }
    }

    /// PEFT's name of the task, if there is one.
    pub fn task_type(&self) -> Option<&str> {
        self.common.task_type.as_deref()
    }

    /// The name or the folder of the model that the adapter belongs to.
    pub fn base_model(&self) -> Option<&str> {
        self.common.base_model_name_or_path.as_deref()
    }

    /// The method of the adapters.
    pub fn adapter(&self) -> Adapter {
        self.adapter.adapter()
    }

    /// The options of the adapters.
    ///
    /// # Errors
    /// If `target_modules` is no regular expression.
    pub fn options(&self) -> Result<AdapterOptions, FieldError> {
        let target_modules = match &self.target_modules {
            None => None,
            Some(Targets::Names(names)) => Some(TargetModules::Names(names.iter().cloned().collect())),
            Some(Targets::Pattern(text)) if text == "all-linear" => Some(TargetModules::AllLinear),
            Some(Targets::Pattern(text)) => {
                let pattern = NamePattern::whole(text).map_err(|error| FieldError::new("target_modules", error))?;
                Some(TargetModules::Pattern(pattern))
            }
        };
        let is_of_classifier = self.task_type() == Some(task_type(Task::SequenceClassification));
        let is_head = |name: &String| is_of_classifier && HEADS.contains(&name.as_str());
        let saved = self.modules_to_save.iter().flatten().filter(|name| !is_head(name));
        Ok(AdapterOptions {
            target_modules,
            layers_to_transform: match &self.layers_to_transform {
                Some(Layers::One(layer)) => Some(vec![*layer]),
                // PEFT takes an empty list for none.
                Some(Layers::Several(layers)) => Some(layers.clone()).filter(|layers| !layers.is_empty()),
                None => None,
            },
            modules_to_save: saved.cloned().collect(),
            ..self.adapter.clone()
        })
    }

    /// The keys of a cell that the fields stand for, but for those without a value. Modules that are left open are those
    /// that PEFT chooses.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub fn keys(&self) -> Result<Vec<FieldKey>, FieldError> {
        let (options, facts) = (self.options()?, self.adapter().facts());
        let json = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
        let chosen = (!facts.is_chosen_by_family).then_some(TargetModules::Peft);
        let targets = options.target_modules.clone().or(chosen);
        let targets = targets.filter(|_| facts.of == Of::Layers);
        let saved = Some(&options.modules_to_save).filter(|saved| !saved.is_empty());
        let mut keys = vec![
            (
                facts.mark.unwrap_or("peft_type"),
                "adapter",
                self.adapter().name().into(),
            ),
            ("target_modules", "target_modules", json(serde_json::to_value(targets))),
            (
                "layers_to_transform",
                "layers_to_transform",
                json(serde_json::to_value(&options.layers_to_transform)),
            ),
            ("modules_to_save", "modules_to_save", json(serde_json::to_value(saved))),
            (
                "exclude_modules",
                "exclude_modules",
                json(serde_json::to_value(&options.exclude_modules)),
            ),
        ];
        let own = facts.fields.iter().filter_map(Field::key);
        keys.extend(own.map(|field| (field.name, field.key, options.value(field.key))));
        keys.retain(|(_, _, value)| !value.is_null());
        Ok(keys)
    }

    /// Lists the modules that have adapters, given by their names with their tensors' shapes.
    pub(super) fn list_modules(&mut self, modules: &[(&str, &[usize])]) {
        let in_full = |modules: &mut dyn Iterator<Item = &(&str, &[usize])>| -> BTreeSet<String> {
            modules.map(|(name, _)| (*name).to_owned()).collect()
        };
        // Modules that are listed one by one need nothing that excludes others.
        let is_single =
            self.adapter.exclude_modules.is_some() || self.target_modules.as_ref().is_some_and(Targets::are_single);
        let listed = match &mut self.adapter.method {
            AdapterMethod::Ia3(ia3) => {
                let scaled = |(_, shape): &&(&str, &[usize])| shape.first() == Some(&1);
                let feedforward = in_full(&mut modules.iter().filter(scaled));
                ia3.feedforward_modules = Some(feedforward.into_iter().collect());
                in_full(&mut modules.iter())
            }
            method if method.adapter().has_virtual_tokens() => return,
            _ if is_single => in_full(&mut modules.iter()),
            _ => {
                let last = modules.iter().filter_map(|(name, _)| name.rsplit('.').next());
                last.map(str::to_owned).collect()
            }
        };
        self.target_modules = Some(Targets::Names(listed));
    }

    /// The tensors of one module's adapter.
    pub(super) fn tensors(&self) -> &'static [SavedTensor] {
        self.adapter().facts().tensors
    }

    /// The rank of a module's adapter.
    pub(super) fn rank_of(&self, module: &str) -> usize {
        self.adapter.rank_of(module)
    }

    /// True if a tensor belongs to a module that is saved whole, is a trained bias, or belongs to no module.
    pub(super) fn saves_whole(&self, name: &str) -> bool {
        if name == PROMPT_EMBEDDINGS {
            return self.adapter().has_virtual_tokens();
        }
        if VERA_SHARED.contains(&name) {
            return matches!(&self.adapter.method, AdapterMethod::Vera(vera) if vera.save_projection);
        }
        if self.adapter.bias() != Bias::None && name.ends_with(".bias") {
            return true;
        }
        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
        // Beside an adapter of the head PEFT saves both tables (`save_embedding_layers` in `utils/save_and_load.py`).
        let last = module.strip_suffix(".base_layer").unwrap_or(module);
        if TABLES.iter().any(|table| ends_in(last, table)) {
            return true;
        }
        // `classifier` is DistilBERT's `pre_classifier`, too: PEFT compares letters.
        let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
        let mut outer = ends.map(|end| &module[..end]);
        outer.any(|outer| {
            let mut saved = self.modules_to_save.iter().flatten();
            saved.any(|name| outer.ends_with(name.as_str()))
        })
    }

    /// The fields of the method, as they are written.
    fn own_fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for field in self.adapter().facts().fields {
            let value = match field {
                Field::Key(key) => {
                    let value = self.adapter.value(key.key);
                    (!key.is_optional || !is_neutral(&value)).then(|| key.write(&value))
                }
                Field::Fixed { .. } => field.fixed().filter(|value| !value.is_null()),
                Field::Remark { .. } => None,
                // PEFT asks for it with a text.
                Field::Tokenizer(_) => match &self.adapter.method {
                    AdapterMethod::PromptTuning(prompt) if prompt.start().is_some() => {
                        self.base_model().map(Value::from)
                    }
                    _ => Some(Value::Null),
                },
            };
            fields.extend(value.map(|value| (field.name().to_owned(), value)));
        }
        fields
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            task_type: &'a Option<String>,
            base_model_name_or_path: &'a Option<String>,
            peft_type: &'a str,
            #[serde(flatten)]
            own: Map<String, Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            target_modules: &'a Option<Targets>,
            #[serde(skip_serializing_if = "Option::is_none")]
            layers_to_transform: &'a Option<Layers>,
            #[serde(skip_serializing_if = "Option::is_none")]
            modules_to_save: &'a Option<Vec<String>>,
            inference_mode: bool,
        }
        let fields = Fields {
            task_type: &self.common.task_type,
            base_model_name_or_path: &self.common.base_model_name_or_path,
            peft_type: self.adapter().facts().peft_type,
            own: self.own_fields(),
            target_modules: &self.target_modules,
            layers_to_transform: &self.layers_to_transform,
            modules_to_save: &self.modules_to_save,
            inference_mode: self.common.inference_mode,
        };
        fields.serialize(serializer)
    }
}

/// True for a value that asks for nothing.
pub(super) fn is_neutral(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
