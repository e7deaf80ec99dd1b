//! Prompt tuning (Lester et al. 2021, arXiv:2104.08691).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Context, Facts, Field, KeyField, Method, Of, key, other_start, remark, word};
use crate::invalid::{Invalid, at_least, at_most};
use crate::{Stack, Task};

/// PEFT's module of what stands before sequences.
pub const PROMPT_ENCODER: &str = "prompt_encoder";
/// Its weight: `[virtual tokens, features]`.
pub const PROMPT_EMBEDDING: &str = "embedding.weight";
/// The weight's name in files, which belongs to no module.
pub const PROMPT_EMBEDDINGS: &str = "prompt_embeddings";

pub(super) const FACTS: Facts = Facts {
    title: "Prompt tuning",
    peft_type: "PROMPT_TUNING",
    mark: None,
    of: Of::VirtualTokens,
    is_chosen_by_family: false,
    keys: &["prompt_tuning", "adapter_dtype"],
    fields: &[
        virtual_tokens("prompt_tuning.num_virtual_tokens").field(),
        OF_MODEL[0],
        OF_MODEL[1],
        OF_MODEL[2],
        ONE_STACK,
        key("prompt_tuning_init", "prompt_tuning.init")
            .words(&[
                word(r#""RANDOM""#, r#""random""#),
                word(r#""TEXT""#, r#""text""#),
                other_start(r#""SAMPLE_VOCAB""#, r#""random""#),
            ])
            .field(),
        key("prompt_tuning_init_text", "prompt_tuning.init_text").field(),
        Field::Tokenizer("tokenizer_name_or_path"),
    ],
    tensors: &[],
};

/// The number of virtual tokens, which PEFT has no default of.
pub(super) const fn virtual_tokens(of: &'static str) -> KeyField {
    key("num_virtual_tokens", of).default("0").decides()
}

/// Sizes that PEFT takes from the model.
pub(super) const OF_MODEL: [Field; 3] = [remark("token_dim"), remark("num_attention_heads"), remark("num_layers")];
/// Models with one stack of blocks alone are known.
pub(super) const ONE_STACK: Field = Field::Remark {
    name: "num_transformer_submodules",
    values: &["1", "null"],
};

/// Options of prompt tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromptTuning {
    /// Virtual tokens before each sequence, besides the tokens that max_seq_length counts.
    #[schemars(range(min = 1))]
    pub num_virtual_tokens: usize,
    /// Start values: random (normal), or text (the embeddings of init_text's tokens, repeated and cut).
    pub init: PromptInit,
    /// The text of `init: text`.
    pub init_text: Option<String>,
}

/// Start values of virtual tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptInit {
    /// Normal numbers.
    Random,
    /// The embeddings of a text's tokens.
    Text,
}

impl Default for PromptTuning {
    fn default() -> Self {
        Self {
            num_virtual_tokens: 20,
            init: PromptInit::Random,
            init_text: None,
        }
    }
}

impl PromptTuning {
    /// The text whose tokens' embeddings are the start values, repeated and cut; random ones without.
    pub fn start(&self) -> Option<&str> {
        match self.init {
            PromptInit::Random => None,
            PromptInit::Text => self.init_text.as_deref(),
        }
    }
}

impl Method for PromptTuning {
    fn shorter_side(&self, _: usize) -> usize {
        self.num_virtual_tokens
    }

    fn virtual_tokens(&self) -> usize {
        self.num_virtual_tokens
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        check_tokens("prompt_tuning.num_virtual_tokens", self.num_virtual_tokens, found);
        let key = "prompt_tuning.init_text";
        found.extend(match (self.init, &self.init_text) {
            (PromptInit::Text, None) => {
                let message = "the virtual tokens start from a text that is not there";
                let invalid = Invalid::new("prompt_tuning.init", message).with(key);
                Some(invalid.help("write `init_text`, or use `init: random`"))
            }
            (PromptInit::Text, Some(text)) if text.is_empty() => {
                Some(Invalid::new(key, "the text is empty").help("use `init: random`"))
            }
            (PromptInit::Random, Some(_)) => {
                let invalid = Invalid::idle(key, "only `init: text` starts from a text").with("prompt_tuning.init");
                Some(invalid.help("leave the key out, or use `init: text`"))
            }
            (PromptInit::Text | PromptInit::Random, _) => None,
        });
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        check_sequences(context, found);
        if context.stack == Stack::Torch && context.model.loss.is_partial() {
            let message =
                "TRL's chunks leave out the tokens without a label, as virtual ones are, which is not planned yet";
            let invalid = Invalid::new("loss", message).with("adapter");
            found.push(invalid.help("use `loss: full`, or another `adapter`"));
        }
    }
}

/// The number of virtual tokens.
pub(super) fn check_tokens(key: &str, tokens: usize, found: &mut Vec<Invalid>) {
    let range = at_least(key, tokens, 1).and_then(|()| at_most(key, tokens, 1 << 16));
    found.extend(range.err());
}

/// What does not go with virtual tokens.
pub(super) fn check_sequences(context: &Context<'_>, found: &mut Vec<Invalid>) {
    let name = context.name;
    let invalid = |message: &str| Invalid::new("adapter", format!("`{name}` {message}"));
    if context.model.task == Task::SequenceClassification {
        let invalid = invalid("is trained in decoders only so far").with("task");
        found.push(invalid.help("use `task: causal_lm`, or another `adapter`"));
    }
    if context.is_packed {
        let invalid = invalid("puts virtual tokens before each sample, and packed samples share a row").with("packing");
        found.push(invalid.help("use `packing: false`, or another `adapter`"));
    }
}
