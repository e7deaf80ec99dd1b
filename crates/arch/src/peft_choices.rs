//! What PEFT chooses by a model's `model_type` where a configuration leaves it open: the
//! `TRANSFORMERS_MODELS_TO_*_TARGET_MODULES_MAPPING` in `utils/constants.py` of PEFT 0.21.2. Names are ends of names.

use options::Adapter;

use super::config::ModelConfig;
use super::family::Family;

/// PEFT's choice for some kinds of models.
#[derive(Debug)]
struct Choice {
    /// `model_type` in `config.json`.
    model_types: &'static [&'static str],
    /// The layers of LoRA, DoRA, MiSS, OFT, LoHa and LoKr.
    layers: &'static [&'static str],
    /// The layers of VeRA.
    vera: &'static [&'static str],
    /// The layers of IA3, if it has a choice.
    ia3: Option<Ia3Modules>,
    /// The norms of LayerNorm tuning, if it has a choice.
    norms: Option<&'static [&'static str]>,
}

/// PEFT's choice of layers for IA3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ia3Modules {
    /// The layers that get an adapter.
    pub targets: &'static [&'static str],
    /// Those of them whose inputs are scaled (`..._FEEDFORWARD_MODULES_MAPPING`).
    pub feedforward: &'static [&'static str],
}

const QUERIES_AND_VALUES: &[&str] = &["q_proj", "v_proj"];
const NORMS: &[&str] = &["input_layernorm", "post_attention_layernorm", "norm"];

/// Queries and values, and no choice of IA3's or of norms.
const PLAIN: Choice = Choice {
    model_types: &[],
    layers: QUERIES_AND_VALUES,
    vera: QUERIES_AND_VALUES,
    ia3: None,
    norms: None,
};

const CHOICES: &[Choice] = &[
    Choice {
        model_types: &["llama", "mistral"],
        ia3: ia3(&["k_proj", "v_proj", "down_proj"], &["down_proj"]),
        norms: Some(NORMS),
        ..PLAIN
    },
    Choice {
        model_types: &["qwen2", "qwen3"],
        ia3: ia3(&["q_proj", "v_proj", "down_proj"], &["down_proj"]),
        norms: Some(&["post_attention_layernorm"]),
        ..PLAIN
    },
    Choice {
        model_types: &["gemma"],
        ia3: ia3(&["q_proj", "v_proj", "down_proj"], &["down_proj"]),
        norms: Some(NORMS),
        ..PLAIN
    },
    Choice {
        model_types: &["gemma2", "gemma3_text"],
        ia3: ia3(&["q_proj", "v_proj", "down_proj"], &["down_proj"]),
        norms: Some(&[
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
            "norm",
        ]),
        ..PLAIN
    },
    Choice {
        model_types: &["mixtral"],
        ia3: ia3(&["k_proj", "v_proj", "w2"], &["w2"]),
        ..PLAIN
    },
    Choice {
        model_types: &["llama4"],
        ia3: ia3(&["q_proj", "v_proj", "down_proj"], &["down_proj"]),
        ..PLAIN
    },
    Choice {
        model_types: &["opt"],
        ia3: ia3(&["q_proj", "k_proj", "fc2"], &["fc2"]),
        ..PLAIN
    },
    Choice {
        model_types: &["phi"],
        layers: &["q_proj", "v_proj", "fc1", "fc2"],
        ia3: ia3(&["q_proj", "v_proj", "fc2"], &["fc2"]),
        norms: Some(&["input_layernorm", "final_layernorm"]),
        ..PLAIN
    },
    Choice {
        model_types: &["gpt2"],
        layers: &["c_attn"],
        vera: &["c_attn"],
        ia3: ia3(&["c_attn", "mlp.c_proj"], &["mlp.c_proj"]),
        norms: Some(&["ln_1", "ln_2", "ln_f"]),
    },
    Choice {
        model_types: &["bert", "roberta"],
        layers: &["query", "value"],
        vera: &["query", "value"],
        ia3: ia3(&["key", "value", "output.dense"], &["output.dense"]),
        ..PLAIN
    },
    Choice {
        model_types: &["xlm-roberta", "electra"],
        layers: &["query", "value"],
        vera: &["query", "value"],
        ..PLAIN
    },
    Choice {
        model_types: &["deberta-v2"],
        layers: &["query_proj", "value_proj"],
        vera: &["query_proj", "value_proj"],
        ia3: ia3(&["key_proj", "value_proj", "output.dense"], &["output.dense"]),
        ..PLAIN
    },
];

const fn ia3(targets: &'static [&'static str], feedforward: &'static [&'static str]) -> Option<Ia3Modules> {
    Some(Ia3Modules { targets, feedforward })
}

fn choice(family: Family) -> Option<&'static Choice> {
    CHOICES
        .iter()
        .find(|choice| choice.model_types.contains(&family.name()))
}

/// PEFT's choices of norms for LayerNorm tuning, one for each family that has one.
pub fn norm_choices() -> impl Iterator<Item = &'static [&'static str]> {
    Family::ALL.iter().filter_map(|family| choice(*family)?.norms)
}

impl Family {
    /// The layers that PEFT gives a method's adapter where `target_modules` is left open, by the ends of their names;
    /// `None` where it has no choice and refuses.
    pub fn chosen_layers(self, adapter: Adapter) -> Option<&'static [&'static str]> {
        let choice = choice(self).filter(|_| adapter.is_of_layers())?;
        // PEFT has a table for each of its types.
        match adapter.facts().peft_type {
            "IA3" => choice.ia3.map(|ia3| ia3.targets),
            "VERA" => Some(choice.vera),
            _ => Some(choice.layers),
        }
    }
}

impl ModelConfig {
    /// PEFT's choice for IA3, if it has one for the family.
    pub(super) fn ia3(&self) -> Option<Ia3Modules> {
        choice(self.family)?.ia3
    }

    /// The norms that PEFT tunes, by the ends of their names; `None` where it has no choice.
    pub fn tuned_norms(&self) -> Option<&'static [&'static str]> {
        choice(self.family)?.norms
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use options::ends_in;

    use super::*;
    use crate::module::Kind;

    #[test]
    fn each_kind_of_model_has_one_choice() {
        let types: Vec<&str> = CHOICES.iter().flat_map(|choice| choice.model_types).copied().collect();
        let once: BTreeSet<&str> = types.iter().copied().collect();
        assert_eq!(types.len(), once.len());
    }

    #[test]
    fn the_choice_is_of_modules_that_the_family_has() {
        for family in Family::ALL {
            let description = family.description();
            let modules = || description.block.iter().chain(description.head);
            let has = |name: &&&str, is_meant: fn(Kind) -> bool| {
                modules().any(|module| is_meant(module.kind) && ends_in(module.path, name))
            };
            for adapter in Adapter::ALL {
                let chosen = family.chosen_layers(adapter);
                let missing = chosen
                    .into_iter()
                    .flatten()
                    .find(|name| !has(name, |kind| kind == Kind::Linear));
                assert_eq!(missing, None, "{family:?}, {adapter:?}");
            }
            let Some(choice) = choice(*family) else { continue };
            if let Some(ia3) = choice.ia3 {
                assert!(
                    ia3.feedforward.iter().all(|name| ia3.targets.contains(name)),
                    "{family:?}"
                );
            }
            let missing = choice
                .norms
                .into_iter()
                .flatten()
                .find(|name| !has(name, Kind::is_norm));
            assert_eq!(missing, None, "{family:?}");
        }
    }

    #[test]
    fn the_layers_are_those_of_peft() {
        let of = |family: Family, adapter| family.chosen_layers(adapter);
        assert_eq!(of(Family::Llama, Adapter::Lora), Some(&["q_proj", "v_proj"][..]));
        assert_eq!(of(Family::Bert, Adapter::Oft), Some(&["query", "value"][..]));
        assert_eq!(
            of(Family::Qwen3, Adapter::Ia3),
            Some(&["q_proj", "v_proj", "down_proj"][..])
        );
        assert_eq!(of(Family::Llama, Adapter::LnTuning), None);
        for family in [Family::Phi3, Family::DistilBert, Family::Ministral] {
            assert_eq!(of(family, Adapter::Lora), None, "{family:?}");
        }
    }
}
