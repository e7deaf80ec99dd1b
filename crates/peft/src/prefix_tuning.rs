//! `adapter_config.json` of prefix tuning.

use options::PrefixTuningOptions;
use serde::{Deserialize, Serialize};

use super::{field_error::FieldError, prompt_tuning::VirtualTokens};

/// The keys of PEFT's `PrefixTuningConfig`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrefixTuningConfig {
    /// The virtual tokens.
    #[serde(flatten)]
    pub tokens: VirtualTokens,
    prefix_projection: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoder_hidden_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) init_weights: Option<String>,
}

impl PrefixTuningConfig {
    pub(super) fn new(prefix: &PrefixTuningOptions) -> Self {
        Self {
            tokens: VirtualTokens::new(prefix.num_virtual_tokens),
            prefix_projection: false,
            encoder_hidden_size: None,
            init_weights: None,
        }
    }

    /// The options, or the mistake. A saved prefix is the projected one.
    pub(super) fn options(&self) -> Result<PrefixTuningOptions, FieldError> {
        if self.prefix_projection {
            return Err(FieldError::unsupported("prefix_projection", true));
        }
        Ok(PrefixTuningOptions {
            num_virtual_tokens: self.tokens.number()?,
        })
    }
}
