//! A family's description: plain facts, from which everything else that is known of its models follows.

use options::Task;

use super::module::{Module, Size};
use super::releases::Releases;

/// The facts of one family.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// The first part of transformers' class names: `Llama` in `LlamaForCausalLM`.
    pub class: &'static str,
    /// The task that its models are trained for: a decoder's or an encoder's.
    pub task: Task,
    /// The part of the names that a bare encoder's checkpoint leaves out; empty for decoders.
    pub prefix: &'static str,
    /// The name of the list of blocks.
    pub blocks: &'static str,
    /// The modules before the blocks, in the order of a forward pass.
    pub embeddings: &'static [Module],
    /// The modules of a block, in the order of a forward pass.
    pub block: &'static [Module],
    /// The modules after the blocks, in the order of a forward pass.
    pub head: &'static [Module],
    /// The leaf modules without weights.
    pub weightless_leaves: WeightlessLeaves,
    /// What our trainer builds its models as; `None` if it does not train them.
    pub built_as: Option<Build>,
    /// Of each head the share is rotated that the file gives as `partial_rotary_factor`: `rotary_dim` in
    /// `apply_rotary_pos_emb` of `modeling_phi3.py`. Other families rotate whole heads.
    pub rotates_shares: bool,
    /// The norms of queries and keys come when all three are projected and lie by heads: `Gemma3Attention.forward`. In
    /// other families each norm comes right behind its projection: `Qwen3Attention.forward`.
    pub norms_by_heads: bool,
    /// A cache that the model was given is among its outputs, whether caching is on or not: `past_key_values` at the
    /// end of `LlamaModel.forward`. Other families have `past_key_values if use_cache else None` there, as
    /// `MistralModel.forward`.
    pub returns_cache: bool,
    /// A mask is made for layers without a window, whether there are any or not: `causal_mask_mapping` in
    /// `Qwen2Model.forward`. Other families make one mask: `mask_function` in `MistralModel.forward`.
    pub both_masks: bool,
    /// The dense layers that lead back to the residual stream are in modules of their own, with dropout and the norm
    /// behind: `BertSelfOutput` and `BertOutput`. In other encoders the block itself adds and normalises, and
    /// attention's output has no dropout: DistilBERT's `TransformerBlock`.
    pub has_output_modules: bool,
    /// What older releases of transformers do with its models, if that has been studied.
    pub releases: Option<Releases>,
    /// Keys of `config.json` that the family calls differently, with its names.
    pub key_names: &'static [(&'static str, &'static str)],
    /// The keys that this family reads, of those that not every family reads.
    pub keys: &'static [&'static str],
    /// Keys with the one value that is known here.
    pub fixed: &'static [(&'static str, Fixed)],
    /// The values of keys that a file leaves out: those of transformers' configuration class.
    pub defaults: Defaults,
}

impl Description {
    /// The class of a decoder's block in transformers.
    pub fn block_class(&self) -> String {
        format!("{}DecoderLayer", self.class)
    }

    /// The module of that name, if the family has it.
    pub fn module(&self, path: &str) -> Option<&'static Module> {
        let mut modules = self.embeddings.iter().chain(self.block).chain(self.head);
        modules.find(|module| module.path == path)
    }
}

/// A way in which our trainer builds a model from its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// A decoder: norms, and projections with one input, fused or not.
    Decoder,
    /// An encoder with a ReLU in its classifier, and without dropout on attention's output.
    DistilBert,
    /// An encoder with a hyperbolic tangent in its classifier, and dropout on attention's output.
    Bert,
}

/// Leaf modules without weights, by the width of their outputs: dropout layers and activations. Those that return no
/// tensor, such as rotary embeddings, and those that no forward pass calls, such as attention's dropout with fused
/// attention, are left out.
#[derive(Debug, Clone, Copy)]
pub struct WeightlessLeaves {
    /// Before the blocks.
    pub embeddings: &'static [Size],
    /// In a block.
    pub block: &'static [Size],
    /// After the blocks.
    pub head: &'static [Size],
}

/// The one value of a key that is known here.
#[derive(Debug, Clone, Copy)]
pub enum Fixed {
    /// `false`
    False,
    /// A number, 0.
    Zero,
    /// A word; also if the key is null.
    Word(&'static str),
}

/// The values of keys that a `config.json` leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    /// `None`: as many as query heads.
    pub(super) num_key_value_heads: Option<usize>,
    /// `None`: an equal share of the hidden size.
    pub(super) head_dim: Option<usize>,
    pub(super) max_position_embeddings: usize,
    pub(super) type_vocab_size: usize,
    /// The one that is computed, and behind it what files call it too (`GemmaConfig.__post_init__`).
    pub(super) activation: &'static [&'static str],
    pub(super) norm_eps: f64,
    pub(super) rope_theta: f64,
    /// `None`: blocks with a window have the base of all.
    pub(super) local_rope_theta: Option<f64>,
    pub(super) query_pre_attn_scalar: Option<usize>,
    pub(super) attention_softcap: Option<f64>,
    pub(super) logit_softcap: Option<f64>,
    pub(super) tie_word_embeddings: bool,
    pub(super) sliding_window: Option<usize>,
    pub(super) windows: Windows,
    pub(super) hidden_dropout: f64,
    pub(super) attention_dropout: f64,
    /// `None`: the hidden dropout.
    pub(super) classifier_dropout: Option<f64>,
    pub(super) pad_token_id: Option<u32>,
}

/// The blocks in which a family's `sliding_window` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    /// No block.
    Never,
    /// Those that `layer_types` names; without it all blocks.
    All,
    /// With `use_sliding_window`, the blocks from `max_window_layers` on or those that `layer_types` names.
    Later,
    /// Those that `layer_types` names; without it all but each so many-th, or `sliding_window_pattern`-th.
    AllBut(usize),
}
