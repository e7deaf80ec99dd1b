//! A family's description: plain facts, from which everything else that is known of its models follows.

use options::Task;

use super::ia3::Ia3Modules;
use super::module::{Module, Size};

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
    /// PEFT's choice of layers for IA3, if it has one.
    pub ia3: Option<Ia3Modules>,
    /// The leaf modules without weights.
    pub weightless_leaves: WeightlessLeaves,
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
    /// The module of that name, if the family has it.
    pub fn module(&self, path: &str) -> Option<&'static Module> {
        let mut modules = self.embeddings.iter().chain(self.block).chain(self.head);
        modules.find(|module| module.path == path)
    }
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
    pub(super) activation: &'static str,
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
    /// All blocks.
    All,
    /// With `use_sliding_window`, the blocks from `max_window_layers` on or those that `layer_types` names.
    Later,
    /// Those that `layer_types` names; without it all but each so many-th, or `sliding_window_pattern`-th.
    AllBut(usize),
}

/// Llama's defaults, from which the other decoders' differ in some.
pub(super) const DECODER: Defaults = Defaults {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: None,
    head_dim: None,
    max_position_embeddings: 2048,
    type_vocab_size: 0,
    activation: "silu",
    norm_eps: 1e-6,
    rope_theta: 10_000.0,
    local_rope_theta: None,
    query_pre_attn_scalar: None,
    attention_softcap: None,
    logit_softcap: None,
    tie_word_embeddings: false,
    sliding_window: None,
    windows: Windows::Never,
    hidden_dropout: 0.0,
    attention_dropout: 0.0,
    classifier_dropout: None,
    pad_token_id: None,
};

/// BERT's defaults, from which the other encoders' differ in some.
pub(super) const ENCODER: Defaults = Defaults {
    vocab_size: 30_522,
    hidden_size: 768,
    intermediate_size: 3072,
    num_hidden_layers: 12,
    num_attention_heads: 12,
    max_position_embeddings: 512,
    type_vocab_size: 2,
    activation: "gelu",
    norm_eps: 1e-12,
    hidden_dropout: 0.1,
    attention_dropout: 0.1,
    pad_token_id: Some(0),
    ..DECODER
};

/// A decoder's: the feed-forward layer's activation.
pub(super) const DECODER_LEAVES: WeightlessLeaves = WeightlessLeaves {
    embeddings: &[],
    block: &[Size::Intermediate],
    head: &[],
};
