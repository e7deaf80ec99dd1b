//! Prefix tuning (Li & Liang 2021, arXiv:2101.00190).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Context, Facts, Method, Of, fixed, remark, start};
use super::prompt_tuning::{OF_MODEL, ONE_STACK, check_sequences, check_tokens, virtual_tokens};
use crate::{Invalid, Stack};

pub(super) const FACTS: Facts = Facts {
    title: "Prefix tuning",
    peft_type: "PREFIX_TUNING",
    mark: None,
    of: Of::CachedTokens,
    is_chosen_by_family: false,
    keys: &["prefix_tuning", "adapter_dtype"],
    fields: &[
        virtual_tokens("prefix_tuning.num_virtual_tokens").field(),
        OF_MODEL[0],
        OF_MODEL[1],
        OF_MODEL[2],
        ONE_STACK,
        // A saved prefix is the projected one.
        fixed("prefix_projection", "false"),
        remark("encoder_hidden_size"),
        start("init_weights", "null"),
    ],
    tensors: &[],
};

/// Options of prefix tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrefixTuning {
    /// Virtual tokens before each sequence, besides the tokens that max_seq_length counts.
    #[schemars(range(min = 1))]
    pub num_virtual_tokens: usize,
}

impl Default for PrefixTuning {
    fn default() -> Self {
        Self { num_virtual_tokens: 20 }
    }
}

impl Method for PrefixTuning {
    fn shorter_side(&self, _: usize) -> usize {
        self.num_virtual_tokens
    }

    fn virtual_tokens(&self) -> usize {
        self.num_virtual_tokens
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        check_tokens("prefix_tuning.num_virtual_tokens", self.num_virtual_tokens, found);
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        check_sequences(context, found);
        if context.stack == Stack::Torch && context.has_checkpoints {
            let message = "PEFT refuses prefix tuning with gradient checkpointing, whose blocks are given no cache to take \
                           the prefix from";
            let invalid = Invalid::new("adapter", message).with("gradient_checkpointing");
            found.push(invalid.help("use `gradient_checkpointing: none`, or `adapter: prompt_tuning`"));
        }
    }
}
