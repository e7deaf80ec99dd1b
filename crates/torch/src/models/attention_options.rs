//! How attention is computed in a run: what transformers chooses.

use options::Attention;

use crate::configuration::Configuration;
use crate::dtype::Dtype;
use crate::versions::AttentionWeights;

/// How attention is computed in this run.
#[derive(Clone, Copy)]
pub(crate) struct AttentionOptions {
    pub implementation: Attention,
    /// `sdpa` is given fewer heads of keys and values than of queries, unless there is a mask (`use_gqa_in_sdpa` in
    /// `integrations/sdpa_attention.py`).
    pub grouped: bool,
    /// It is given the heads of one token that share keys and values as so many tokens.
    pub packs_heads_of_one_token: bool,
    /// The kernel is given contiguous queries, keys and values, always or where there is a mask.
    pub copies_heads: bool,
    pub copies_masked_heads: bool,
    /// Eager attention clamps its scores at the lowest number.
    pub clamps_scores: bool,
    /// It caps them where the family does.
    pub caps_scores: bool,
    /// An encoder's scales queries and not scores, and fills the scores of padding.
    pub fills_scores: bool,
    /// Encoders have code of their own, whose eager attention holds on to its scores.
    pub has_own_encoders: bool,
    /// How long its weights stay.
    pub weights: AttentionWeights,
    /// It adds the mask to them in place.
    pub masks_in_place: bool,
    /// The block holds on to the output.
    pub is_held: bool,
    /// flash_attention_2 is given keys and values repeated for the queries that share them.
    pub repeats_flash_heads: bool,
    /// The format that flash_attention_2 is given in place of float32.
    pub flash_dtype: Dtype,
    /// Keys and values are copied into the cache.
    pub copies_into_cache: bool,
}

impl AttentionOptions {
    /// The choices of transformers for this configuration.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        Self {
            implementation: configuration.attn_implementation,
            grouped: !configuration.transformers.repeats_heads,
            packs_heads_of_one_token: configuration.transformers.packs_heads_of_one_token,
            copies_heads: configuration.transformers.copies_heads,
            copies_masked_heads: configuration.transformers.copies_masked_heads,
            clamps_scores: configuration.transformers.clamps_scores,
            caps_scores: configuration.transformers.caps_scores,
            fills_scores: configuration.transformers.fills_scores,
            has_own_encoders: configuration.transformers.has_own_encoders,
            weights: configuration.transformers.attention_weights,
            masks_in_place: configuration.transformers.masks_in_place,
            is_held: configuration.transformers.holds_attention,
            repeats_flash_heads: configuration.transformers.repeats_flash_heads,
            flash_dtype: configuration.autocast_dtype().unwrap_or(configuration.unquantised()),
            copies_into_cache: configuration.transformers.copies_into_cache,
        }
    }
}
