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
    /// The family's first code, Llama's of 4.28 to 4.30: scores are clamped at the lowest number (`torch.max` in
    /// `LlamaAttention.forward`), logits stay in the model's format, an RMSNorm multiplies by its weight before it casts
    /// back, the cosines and sines of all positions are float32, and no queries share keys and values.
    pub first_code_until: u32,
    /// The first release with `sdpa`: `LLAMA_ATTENTION_CLASSES` in `modeling_llama.py` and its like. 58, if none that has
    /// been studied has it.
    pub sdpa_from: u32,
    /// The first release with `flash_attention_2`, likewise.
    pub flash_from: u32,
    /// The first release whose blocks can be checkpointed.
    pub checkpointing_from: u32,
    /// The first release whose checkpoints are within the blocks' modules, and not around them:
    /// `GradientCheckpointingLayer` in `modeling_layers.py`.
    pub checkpoints_within_from: u32,
    /// The first release whose eager attention adds the mask to the scores in place, until 4.48: `attn_weights +=
    /// causal_mask` in `Phi3Attention.forward`. 58, if none does.
    pub masks_in_place_from: u32,
    /// A block holds on to what attention gave it: `attn_outputs` in `Phi3DecoderLayer.forward`.
    pub held_attention_until: u32,
    /// Masks of windows are made by each layer that has one, out of a mask of all scores that every kernel but
    /// flash_attention_2 is given: `sliding_window_mask` in `Gemma2DecoderLayer.forward` and its like.
    pub own_windows_until: u32,
    /// Such layers copy their masks once more: `mask_indexes` there.
    pub copied_windows_from: u32,
    /// flash_attention_2 takes the padding out of batches that have none: `_update_causal_mask` of `Gemma2Model` and its
    /// like gives every mask on.
    pub unpads_whole_batches_from: u32,
    /// Its model and not its embedding scales the embedded tokens, until 5.4.0: `normalizer` in `Gemma2Model.forward`.
    pub scales_in_model: bool,
    /// The first release with a cache of keys and values in training: `not self.training` in `Gemma2Model.forward`. The
    /// others have one, but in 4.43 and 4.44.
    pub training_cache_from: u32,
    /// Eager attention scales queries and not scores, and fills the scores of padding instead of adding a mask to all, until
    /// 5.0.0: `MultiHeadSelfAttention.forward` of DistilBERT.
    pub fills_scores: bool,
    /// The first release whose blocks return the weights of eager attention, asked for or not, until 5.0.0: `outputs` in
    /// `BertLayer.forward`. 58, if none does.
    pub returned_weights_from: u32,
    /// Releases that have not been studied.
    pub gap: Option<Gap>,
}

/// Releases of transformers 4 that have not been studied, between others.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// The minor number of the first.
    pub from: u32,
    /// That of the first behind them.
    pub until: u32,
    /// What they do differently: `the causal mask`.
    pub what: &'static str,
    /// The nearest releases that have been studied.
    pub nearest: [&'static str; 2],
}

impl Releases {
    /// Of a family that has been studied from 4.48 on, when all families had come to share their code.
    pub const SINCE_4_48: Self = Self {
        oldest: 48,
        own_angles_until: 48,
        kept_angles_until: 0,
        taken_out_angles_until: 0,
        float32_logits_until: 46,
        repeated_flash_heads_until: 48,
        first_code_until: 0,
        sdpa_from: 0,
        flash_from: 0,
        checkpointing_from: 0,
        checkpoints_within_from: 52,
        masks_in_place_from: 58,
        held_attention_until: 0,
        own_windows_until: 0,
        copied_windows_from: 0,
        unpads_whole_batches_from: 0,
        scales_in_model: false,
        training_cache_from: 0,
        fills_scores: false,
        returned_weights_from: 58,
        gap: None,
    };

    /// Of Gemma 2, which Gemma 3 has much of.
    pub(super) const GEMMA_2: Self = Self {
        oldest: 42,
        repeated_flash_heads_until: 0,
        checkpoints_within_from: 53,
        own_windows_until: 53,
        copied_windows_from: 52,
        unpads_whole_batches_from: 44,
        scales_in_model: true,
        training_cache_from: 58,
        ..Self::SINCE_4_48
    };

    /// Of BERT, which DistilBERT has much of.
    pub(super) const ENCODER: Self = Self {
        oldest: 30,
        sdpa_from: 41,
        flash_from: 58,
        checkpoints_within_from: 53,
        returned_weights_from: 54,
        ..Self::SINCE_4_48
    };
}
