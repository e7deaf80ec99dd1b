//! Older releases of transformers, as far as what they do differs by family.

/// Releases of transformers 4, by their minor numbers, with which its code for a family changed. What changed for all
/// families at once stands in `torch`. `until` is the first release without a behaviour; 0, if no release that has
/// been studied has it.
#[derive(Debug, Clone, Copy)]
pub struct Releases {
    /// The first release that has been studied with the family.
    pub oldest: u32,
    /// Each layer has its own cosines and sines: `self.rotary_emb(…)` in `LlamaSdpaAttention.forward` and its like.
    pub own_angles_until: u32,
    /// Each layer keeps cosines and sines for all positions: `cos_cached` of `LlamaRotaryEmbedding` and its like.
    pub kept_angles_until: u32,
    /// Layers with their own cosines and sines take them out of those that they keep, and do not compute them.
    pub taken_out_angles_until: u32,
    /// The outputs hold the logits in float32: `logits = logits.float()` in `LlamaForCausalLM.forward` and its like.
    pub float32_logits_until: u32,
    /// flash_attention_2 is given keys and values repeated for the queries that share them: `repeat_kv` in
    /// `MistralFlashAttention2.forward` and its like.
    pub repeated_flash_heads_until: u32,
    /// Releases that make a causal mask of all positions for every batch, which has not been studied.
    pub full_masks: Option<FullMasks>,
}

/// Releases of transformers 4 that make a causal mask of all positions.
#[derive(Debug, Clone, Copy)]
pub struct FullMasks {
    /// The minor number of the first.
    pub from: u32,
    /// That of the first without.
    pub until: u32,
    /// The nearest releases that have been studied.
    pub nearest: [&'static str; 2],
}

impl Releases {
    /// Of a family that has been studied from 4.48 on, when all families had come to share their code.
    pub(super) const SINCE_4_48: Self = Self {
        oldest: 48,
        own_angles_until: 48,
        kept_angles_until: 0,
        taken_out_angles_until: 0,
        float32_logits_until: 46,
        repeated_flash_heads_until: 48,
        full_masks: None,
    };
}
