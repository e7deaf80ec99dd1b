//! Keys of a recipe that do not suit the model or the GPU, and what stands in their place.

use arch::ModelConfig;
use cell::{Attention, Cell};
use serde_json::{Value, json};
use torch::gpu::{Gpu, Technique};

use super::config_files::CASTS;
use super::overrides::Overrides;
use super::recipes::Recipe;

/// A recipe, and what it may not suit.
pub(super) struct GivingWay<'a> {
    pub recipe: &'static Recipe,
    pub model: &'a str,
    /// The model's shape, if it is known.
    pub config: Option<&'a ModelConfig>,
    pub gpu: Option<&'static Gpu>,
    pub overrides: &'a Overrides,
}

impl GivingWay<'_> {
    /// Changes the keys that an override does not set anyway. Returns a remark on each that the recipe's source has.
    pub(super) fn change(&self, keys: &mut Value) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.change_attention(keys));
        notes.extend(self.change_release(keys));
        notes.extend(self.change_modules(keys));
        notes.extend(self.change_casts(keys));
        notes
            .iter()
            .map(|note| format!("--recipe {}: {note}", self.recipe))
            .collect()
    }

    /// transformers' own attention where FlashAttention-2 has no kernels.
    fn change_attention(&self, keys: &mut Value) -> Option<String> {
        const KEY: &str = "attn_implementation";
        let is = |keys: &Value, attention: Attention| keys[KEY] == json!(attention);
        let has_cap = self.config.is_some_and(|config| config.attention_softcap.is_some());
        let needed = Technique::FlashAttention2.needs();
        let too_old = self.gpu.filter(|gpu| gpu.capability < needed);
        let gpu = too_old.filter(|_| is(keys, Attention::FlashAttention2) && !self.overrides.sets(KEY));
        if gpu.is_some() {
            keys[KEY] = json!(Attention::Sdpa);
        }
        // transformers' sdpa has no soft cap; its Gemma 2 is eager by default.
        if has_cap && is(keys, Attention::Sdpa) {
            keys[KEY] = json!(Attention::Eager);
        }
        let gpu = gpu?;
        Some(format!(
            "`{KEY}: {}` in place of flash_attention_2, which needs Ampere or newer; `{gpu}` is older",
            keys[KEY].as_str().unwrap_or_default()
        ))
    }

    /// The nearest release of transformers that is known with the model, or today's.
    fn change_release(&self, keys: &mut Value) -> Option<String> {
        const KEY: &str = "transformers_version";
        let release = keys["torch"][KEY].as_str()?.to_owned();
        let config = self.config?;
        if self.overrides.sets("torch") || self.overrides.sets("torch.transformers_version") {
            return None;
        }
        let attention = match self.overrides.value("attn_implementation") {
            Some(attention) => json!(attention),
            None => keys["attn_implementation"].clone(),
        };
        let is_known = |release: &str| {
            let cell = Cell::default().with("torch.transformers_version", &json!(release));
            let cell = cell.and_then(|cell| cell.with("attn_implementation", &attention));
            cell.is_none_or(|cell| cell.check_release(config).is_ok())
        };
        let nearest = format!("nearest {release}");
        let family = config.family.description().class;
        if is_known(&release) {
            return None;
        }
        let instead = if is_known(&nearest) {
            keys["torch"][KEY] = json!(nearest);
            "the nearest that has been"
        } else {
            keys["torch"].as_object_mut()?.remove(KEY);
            "today's"
        };
        Some(format!(
            "transformers {release} has not been studied with {family}; {instead} is taken"
        ))
    }

    /// No casts beside DeepSpeed's own.
    fn change_casts(&self, keys: &mut Value) -> Option<String> {
        if self.overrides.value("distributed") != Some("deepspeed") {
            return None;
        }
        let mut changed = Vec::new();
        // The Trainer's bf16 or fp16 is the model's format then.
        let format = match keys["dtype"].as_str() {
            Some("float32") => "dtype",
            Some("int4" | "int8") => "bnb_4bit_compute_dtype",
            _ => "",
        };
        let mixed = keys["autocast"]
            .as_str()
            .filter(|mixed| *mixed != "none")
            .map(str::to_owned);
        if let Some(mixed) = mixed.filter(|_| !format.is_empty() && !self.overrides.sets("dtype"))
            && !self.overrides.sets(format)
            && keys[format] != json!(mixed)
        {
            changed.push(format!("`{format}: {mixed}`"));
            keys[format] = mixed.into();
        }
        for (key, none) in CASTS {
            let differs = keys[key].as_str().is_some_and(|value| value != none);
            if differs && !self.overrides.sets(key) {
                keys[key] = json!(none);
                changed.push(format!("`{key}: {none}`"));
            }
        }
        (!changed.is_empty()).then(|| format!("{}, as DeepSpeed casts the model itself", changed.join(" and ")))
    }

    /// All linear layers of a model that has none of the recipe's.
    fn change_modules(&self, keys: &mut Value) -> Option<String> {
        const KEY: &str = "target_modules";
        let modules: Vec<&str> = keys[KEY].as_array()?.iter().filter_map(Value::as_str).collect();
        let has = self.config?.family.target_modules();
        if self.overrides.sets(KEY) || modules.iter().any(|module| has.contains(module)) {
            return None;
        }
        let note = format!(
            "`{KEY}: all-linear`, as {} has no {}",
            self.model,
            modules.join(" and no ")
        );
        keys[KEY] = json!("all-linear");
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use arch::Preset;

    use super::*;

    /// No recipe names a release that some family lacks today.
    #[test]
    fn a_release_gives_way_to_the_nearest_or_todays() {
        let change = |model: &str| {
            let config = Preset::named(model).unwrap().config();
            let overrides = Overrides::default();
            let giving_way = GivingWay {
                recipe: Recipe::frugal(),
                model,
                config: Some(&config),
                gpu: None,
                overrides: &overrides,
            };
            let mut keys = json!({ "attn_implementation": "eager", "torch": { "transformers_version": "4.46.3" } });
            let notes = giving_way.change_release(&mut keys);
            (keys["torch"]["transformers_version"].clone(), notes)
        };
        assert_eq!(change("llama-3.1-8b"), (json!("4.46.3"), None));
        let (release, note) = change("ministral-8b");
        assert_eq!(release, json!("nearest 4.46.3"));
        assert!(
            note.unwrap()
                .ends_with("with Ministral; the nearest that has been is taken")
        );
    }
}
