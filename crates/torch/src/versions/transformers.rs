//! Releases of transformers.

use arch::{Family, Releases};
use base::text::Mistake;

use super::version::{Version, asked, planned, studied};
use crate::loading::{LoadOrder, WarmUp};

/// The origin of the cosines and sines of a layer's rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryTables {
    /// From the model, which computes them once for all layers.
    Shared,
    /// It computes them itself.
    Computed,
    /// It takes them out of tables that it keeps for all positions.
    TakenOut,
}

/// The origin of the masks of layers with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowMasks {
    /// From the model, which makes one for all layers.
    Shared,
    /// Each layer makes its own out of the model's mask of all scores.
    Own,
    /// It copies that once more.
    Copied,
}

/// How long the weights of an encoder's eager attention stay, if nothing else has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionWeights {
    /// Until attention is done.
    Dropped,
    /// Until its block is.
    Held,
    /// Until the next block is: the block returns them.
    Returned,
}

/// How a release of transformers computes the models of one family. What differs by family is in its
/// [`arch::Releases`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transformers {
    /// The loss takes the last token's logits away, which copies the others, and gives them a gradient of 0, which is
    /// another copy; later the labels are shifted. Until 4.49.0: `ForCausalLMLoss` in `loss/loss_utils.py`, and before
    /// the family's `float32_logits_until` in `LlamaForCausalLM.forward` and its like.
    pub shifts_logits: bool,
    /// The outputs hold the logits in float32 and not in the model's format: the family's `float32_logits_until`.
    pub returns_float32_logits: bool,
    /// The family's `own_angles_until` and `taken_out_angles_until`.
    pub angles: RotaryTables,
    /// Each layer keeps cosines and sines for all positions: the family's `kept_angles_until`.
    pub keeps_angles: bool,
    /// `sdpa` is given keys and values repeated for the queries that share them, for every kernel. Until 4.54.0:
    /// `use_gqa_in_sdpa` in `integrations/sdpa_attention.py`.
    pub repeats_heads: bool,
    /// flash_attention_2 is given keys and values repeated for the queries that share them: the family's
    /// `repeated_flash_heads_until`.
    pub repeats_flash_heads: bool,
    /// `sdpa` is given the heads of one token that share keys and values as so many tokens, and then repeats nothing
    /// where there is a mask. From 5.23.0: `pack_gqa` in `integrations/sdpa_attention.py`.
    pub packs_heads_of_one_token: bool,
    /// `sdpa` is given queries, keys and values that are contiguous by heads, and so is its output, which is then
    /// copied. From 4.48.0 until 4.56.0: `sdpa_attention_forward` in `integrations/sdpa_attention.py`.
    pub copies_heads: bool,
    /// The mask of padded batches for `sdpa` is made of numbers, once, and not of booleans that each layer turns into
    /// numbers. Nor are samples searched for that are packed into a row. Until 4.53.0, which has `masking_utils.py`;
    /// before, `modeling_attn_mask_utils.py` or the model's `_update_causal_mask`.
    pub masks_are_numbers: bool,
    /// The masks of layers with a window: the family's `own_windows_until` and `copied_windows_from`.
    pub window_masks: WindowMasks,
    /// Encoders make masks and compute attention with code of their own, and not with that of all models. Until 5.0.0:
    /// `BertModel.forward`, `BertSelfAttention.forward` and their like.
    pub has_own_encoders: bool,
    /// Eager attention of an encoder scales queries and not scores, and fills the scores of padding: the family's
    /// `fills_scores`, until 5.0.0.
    pub fills_scores: bool,
    /// The end of the weights of an encoder's eager attention: with that until 5.0.0, or from the family's
    /// `returned_weights_from` on with the next block.
    pub attention_weights: AttentionWeights,
    /// The layers with and without a window are exchanged. Until 4.42.4: `is_sliding` in `Gemma2DecoderLayer`.
    pub exchanges_windows: bool,
    /// Eager attention caps its scores where a family does. From 4.42.3: `Gemma2Attention.forward`.
    pub caps_scores: bool,
    /// Eager attention adds the mask to the scores in place: the family's `masks_in_place_from`, until 4.48.0.
    pub masks_in_place: bool,
    /// A block holds on to what attention gave it: the family's `held_attention_until`.
    pub holds_attention: bool,
    /// flash_attention_2 takes the padding out of batches that have none: the family's `unpads_whole_batches_from`,
    /// until its `own_windows_until`.
    pub unpads_whole_batches: bool,
    /// Blocks are given the cosines and sines of those with a window and of the others. Until 5.0.0:
    /// `Gemma3DecoderLayer.forward`.
    pub gives_all_angles: bool,
    /// The model and not its embedding scales the embedded tokens: the family's `scales_in_model`, until 5.4.0.
    pub scales_in_model: bool,
    /// A model in training has a cache. Not in 4.43 and 4.44, and from the family's `training_cache_from` on.
    pub caches_in_training: bool,
    /// Keys and values are copied into the cache, behind nothing. From 4.56.0: `DynamicLayer.update` in
    /// `cache_utils.py`.
    pub copies_into_cache: bool,
    /// Positions times frequencies are a product by cuBLAS. Until 5.19.0: `LlamaRotaryEmbedding.forward` and its like.
    pub multiplies_angles: bool,
    /// `gradient_checkpointing_enable()` asks for reentrant checkpointing. Until 5.0.0: `modeling_utils.py`.
    pub use_reentrant: bool,
    /// `gradient_checkpointing_enable()` makes the embeddings' output require a gradient in every model, and not only
    /// in those with adapters. From 5.0.0: `modeling_utils.py`.
    pub requires_input_grads: bool,
    /// The order in which weights that are quantised arrive. From 5.0.0 until 5.4.0 a `ThreadPoolExecutor` brings them:
    /// `convert_and_load_state_dict_in_model` in `core_model_loading.py`; before, `_load_state_dict_into_meta_model` in
    /// `modeling_utils.py` takes one after the other.
    pub load_order: LoadOrder,
    /// Scores are clamped at the lowest number before the softmax, which saves them. This and the next four are the
    /// family's `first_code_until`.
    pub clamps_scores: bool,
    /// The logits are cast to float32 before the loss. Without it autocast does so, inside of the loss.
    pub upcasts_logits: bool,
    /// An RMSNorm multiplies the hidden states as they are by their float32 scale, and that by its weight, before it
    /// casts back.
    pub casts_norms_late: bool,
    /// The cosines and sines that a layer keeps are float32.
    pub keeps_float32_angles: bool,
    /// Queries may share keys and values.
    pub groups_heads: bool,
    /// Rotary embeddings may turn a share of each head. From 4.49.0: `apply_rotary_pos_emb` in `modeling_phi3.py`.
    pub rotates_shares: bool,
    /// flash_attention_2 has a mask of all scores made, which it does not take. Until 4.35.0: `LlamaModel.forward` and
    /// its like.
    pub makes_flash_mask: bool,
    /// Blocks can be checkpointed: the family's `checkpointing_from`.
    pub checkpoints: bool,
    /// It has `sdpa`: the family's `sdpa_from`.
    pub has_sdpa: bool,
    /// It has `flash_attention_2`: the family's `flash_from`.
    pub has_flash: bool,
    /// Checkpoints are within the blocks' modules, so that what wraps a module, as FSDP does, is not run again: the
    /// family's `checkpoints_within_from`.
    pub checkpoints_within: bool,
    /// Checkpointing that is not reentrant can be asked for (`gradient_checkpointing_kwargs`). From 4.35.0.
    pub chooses_reentrant: bool,
    /// `sdpa` with a mask is given queries, keys and values that are contiguous by heads. Until 4.48.0:
    /// `LlamaSdpaAttention.forward` and its like.
    pub copies_masked_heads: bool,
    /// The Trainer lets embeddings keep states of 32 bits with an optimizer of 8 bits. From 4.52.0: `create_optimizer`
    /// in `trainer.py`; before, only with bitsandbytes' `Adam8bit`, which it made no more.
    pub embedding_states_32bit: bool,
    /// The block that warms the allocator up: none until 4.50.0, all weights as they are until 4.52.0, half of that
    /// until 5.0.0.
    pub warm_up: WarmUp,
}

impl Transformers {
    /// The newest release.
    pub const TODAY: Self = Self {
        shifts_logits: false,
        returns_float32_logits: false,
        angles: RotaryTables::Shared,
        keeps_angles: false,
        repeats_heads: false,
        repeats_flash_heads: false,
        packs_heads_of_one_token: true,
        copies_heads: false,
        masks_are_numbers: false,
        window_masks: WindowMasks::Shared,
        has_own_encoders: false,
        fills_scores: false,
        attention_weights: AttentionWeights::Held,
        exchanges_windows: false,
        caps_scores: true,
        masks_in_place: false,
        holds_attention: false,
        unpads_whole_batches: false,
        gives_all_angles: false,
        scales_in_model: false,
        caches_in_training: true,
        copies_into_cache: true,
        multiplies_angles: false,
        use_reentrant: false,
        requires_input_grads: true,
        load_order: LoadOrder::InTurn,
        clamps_scores: false,
        upcasts_logits: true,
        casts_norms_late: false,
        keeps_float32_angles: false,
        groups_heads: true,
        rotates_shares: true,
        makes_flash_mask: false,
        checkpoints: true,
        has_sdpa: true,
        has_flash: true,
        checkpoints_within: true,
        chooses_reentrant: true,
        copies_masked_heads: false,
        embedding_states_32bit: true,
        warm_up: WarmUp::Quantised,
    };

    const OLDEST: Version = Version(4, 30, 0);

    /// Checks that `text` names a release that can be planned.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn check(text: &str) -> Result<(), Mistake> {
        studied("transformers", text, Self::OLDEST).map(drop)
    }

    /// The release that is planned for `text` with models of `family`, if that is one with `nearest` before it.
    pub fn planned(text: &str, family: Family) -> Option<String> {
        planned(text, || Self::version(text, family))
    }

    /// The release that `text` names or has planned.
    fn version(text: &str, family: Family) -> Result<Version, Mistake> {
        const FIFTH: Version = Version(5, 0, 0);
        let (_, takes_nearest) = asked(text)?;
        let version = studied("transformers", text, Self::OLDEST)?;
        if version >= FIFTH {
            return Ok(version);
        }
        let class = family.description().class;
        let Some(releases) = family.description().releases else {
            if takes_nearest {
                return Ok(FIFTH);
            }
            let message = format!("what transformers {text} does with {class} has not been studied");
            return Err(Mistake::new(message).help("leave the key out for today's"));
        };
        let oldest = Version(4, releases.oldest, 0);
        if version < oldest {
            if takes_nearest {
                return Ok(oldest);
            }
            let message = format!("transformers {text} is older than any that has been studied with {family:?}");
            return Err(
                Mistake::new(message).help(format!("the oldest is {oldest}, which `nearest {text}` stands for"))
            );
        }
        let Version(_, minor, _) = version;
        let Some(gap) = releases.gap.filter(|gap| (gap.from..gap.until).contains(&minor)) else {
            return Ok(version);
        };
        let [older, newer] = gap.nearest;
        if takes_nearest {
            let is_older = minor - gap.from < gap.until - minor;
            return if is_older { older } else { newer }.parse();
        }
        let message = format!("{} of {class} in transformers {text} has not been studied", gap.what);
        Err(Mistake::new(message).help(format!("{older} and {newer} are the nearest that have been")))
    }

    /// The behaviour of the release `text` with models of `family`.
    ///
    /// # Errors
    /// The text is not a version, or the two together have not been studied.
    pub fn of(text: &str, family: Family) -> Result<Self, Mistake> {
        let version = Self::version(text, family)?;
        let releases = family.description().releases.unwrap_or(Releases::SINCE_4_48);
        let scales_in_model = releases.scales_in_model && version < Version(5, 4, 0);
        if version >= Version(5, 0, 0) {
            return Ok(Self {
                scales_in_model,
                multiplies_angles: version < Version(5, 19, 0),
                packs_heads_of_one_token: version >= Version(5, 23, 0),
                load_order: match version < Version(5, 4, 0) {
                    true => LoadOrder::THREADS,
                    false => LoadOrder::InTurn,
                },
                ..Self::TODAY
            });
        }
        let before = |minor| version < Version(4, minor, 0);
        let is_first = before(releases.first_code_until);
        Ok(Self {
            clamps_scores: is_first,
            upcasts_logits: !is_first,
            casts_norms_late: is_first,
            keeps_float32_angles: is_first,
            groups_heads: !is_first,
            rotates_shares: !before(49),
            makes_flash_mask: before(35),
            checkpoints: !before(releases.checkpointing_from),
            has_sdpa: !before(releases.sdpa_from),
            has_flash: !before(releases.flash_from),
            checkpoints_within: !before(releases.checkpoints_within_from),
            chooses_reentrant: !before(35),
            copies_masked_heads: before(48),
            shifts_logits: before(49),
            returns_float32_logits: !is_first && before(releases.float32_logits_until),
            angles: match before(releases.own_angles_until) {
                false => RotaryTables::Shared,
                true if before(releases.taken_out_angles_until) => RotaryTables::TakenOut,
                true => RotaryTables::Computed,
            },
            keeps_angles: before(releases.kept_angles_until),
            repeats_heads: before(54),
            repeats_flash_heads: before(releases.repeated_flash_heads_until),
            packs_heads_of_one_token: false,
            copies_heads: !before(48) && before(56),
            masks_are_numbers: before(53),
            window_masks: match before(releases.own_windows_until) {
                false => WindowMasks::Shared,
                true if before(releases.copied_windows_from) => WindowMasks::Own,
                true => WindowMasks::Copied,
            },
            has_own_encoders: true,
            fills_scores: releases.fills_scores,
            attention_weights: match before(releases.returned_weights_from) {
                true => AttentionWeights::Dropped,
                false => AttentionWeights::Returned,
            },
            exchanges_windows: before(releases.own_windows_until) && version < Version(4, 42, 4),
            caps_scores: version >= Version(4, 42, 3),
            masks_in_place: !before(releases.masks_in_place_from) && before(48),
            holds_attention: before(releases.held_attention_until),
            unpads_whole_batches: !before(releases.unpads_whole_batches_from) && before(releases.own_windows_until),
            gives_all_angles: true,
            scales_in_model,
            caches_in_training: !before(releases.training_cache_from) && (before(43) || !before(45)),
            copies_into_cache: !before(56),
            multiplies_angles: true,
            use_reentrant: true,
            requires_input_grads: false,
            load_order: LoadOrder::InTurn,
            embedding_states_32bit: !before(52),
            warm_up: match () {
                () if before(50) => WarmUp::None,
                () if before(52) => WarmUp::Unquantised,
                () => WarmUp::Half,
            },
        })
    }
}
