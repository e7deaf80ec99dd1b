//! `adapter_config.json` of prompt tuning.

use options::PromptTuningOptions;
use serde::{Deserialize, Serialize};

use super::{field_error::FieldError, formats::SavedTensor};

/// PEFT's module of what stands before sequences.
pub const PROMPT_ENCODER: &str = "prompt_encoder";
/// Its weight: `[virtual tokens, features]`.
pub const PROMPT_EMBEDDING: &str = "embedding.weight";
/// The weight's name in files, which belongs to no module.
pub const PROMPT_EMBEDDINGS: &str = "prompt_embeddings";

/// The keys that PEFT takes from the model if they are not there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VirtualTokens {
    /// Virtual tokens before each sequence.
    pub num_virtual_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_transformer_submodules: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_attention_heads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_layers: Option<usize>,
}

impl VirtualTokens {
    /// So many virtual tokens of any model.
    pub(super) fn new(num_virtual_tokens: usize) -> Self {
        Self {
            num_virtual_tokens,
            ..Self::default()
        }
    }

    /// Their number, before the sequences of a model with one stack of blocks.
    pub(super) fn number(&self) -> Result<usize, FieldError> {
        if let Some(stacks) = self.num_transformer_submodules.filter(|stacks| *stacks != 1) {
            return Err(FieldError::unsupported("num_transformer_submodules", stacks));
        }
        match self.num_virtual_tokens {
            0 => {
                let message = "`num_virtual_tokens` is missing or 0; it must be at least 1";
                Err(FieldError::new("num_virtual_tokens", message))
            }
            number => Ok(number),
        }
    }
}

/// PEFT's `PromptTuningInit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PromptStart {
    /// Normal numbers.
    #[default]
    Random,
    /// The embeddings of a text's tokens.
    Text,
    /// The embeddings of random tokens.
    SampleVocab,
}

/// The keys of PEFT's `PromptTuningConfig`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptTuningConfig {
    /// The virtual tokens.
    #[serde(flatten)]
    pub tokens: VirtualTokens,
    /// Their start values.
    pub prompt_tuning_init: PromptStart,
    /// The text that they start from.
    pub prompt_tuning_init_text: Option<String>,
    tokenizer_name_or_path: Option<String>,
}

impl PromptTuningConfig {
    /// The configuration of a model whose tokenizer is found by its name.
    pub(super) fn new(prompt: &PromptTuningOptions, base_model: &str) -> Self {
        Self {
            tokens: VirtualTokens::new(prompt.num_virtual_tokens),
            prompt_tuning_init: match prompt.init_text {
                None => PromptStart::Random,
                Some(_) => PromptStart::Text,
            },
            prompt_tuning_init_text: prompt.init_text.clone(),
            // PEFT asks for it with a text.
            tokenizer_name_or_path: prompt.init_text.as_ref().map(|_| base_model.to_owned()),
        }
    }

    /// The options, or the mistake.
    pub(super) fn options(&self) -> Result<PromptTuningOptions, FieldError> {
        let begins_with_text = self.prompt_tuning_init == PromptStart::Text;
        if begins_with_text && self.prompt_tuning_init_text.is_none() {
            let field = "prompt_tuning_init_text";
            let message = format!("`{field}` is missing beside `prompt_tuning_init: TEXT`");
            return Err(FieldError::new(field, message));
        }
        Ok(PromptTuningOptions {
            num_virtual_tokens: self.tokens.number()?,
            init_text: self.prompt_tuning_init_text.clone().filter(|_| begins_with_text),
        })
    }

    /// The tensors of one module's adapter: none.
    pub(super) fn tensors() -> &'static [SavedTensor] {
        &[]
    }
}
