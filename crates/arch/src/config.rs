//! The shape of a model.

use options::{Dtype, QuantType, Task};

use super::family::Family;
use super::module::Kind;
use super::rope::Rope;

/// The `quant_method` of bitsandbytes.
pub(super) const BITSANDBYTES: &str = "bitsandbytes";

/// A model's shape, as its `config.json` gives it; what the file leaves out is as transformers has it for the family.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The kind of model.
    pub family: Family,
    /// Rows of the embedding; every token id is below it.
    pub vocab_size: usize,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; each serves `num_attention_heads / num_key_value_heads` query heads.
    pub num_key_value_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// The most tokens that a sample can have.
    pub max_position_embeddings: usize,
    /// Rows of BERT's token-type embedding; 0 in the other families.
    pub type_vocab_size: usize,
    /// The feed-forward layer's activation, by transformers' name.
    pub activation: String,
    /// Added under the root of RMSNorm (to the mean square) or LayerNorm (to the variance).
    pub norm_eps: f64,
    /// The rotary embedding; unused by encoders, which learn their positions.
    pub rope: Rope,
    /// The rotary embedding of blocks with a sliding window, if it is another.
    pub local_rope: Option<Rope>,
    /// Attention to a limited number of tokens, in some of the blocks.
    pub sliding_window: Option<SlidingWindow>,
    /// Scores are divided by its root, if not by that of `head_dim`.
    pub query_pre_attn_scalar: Option<usize>,
    /// Soft cap of attention's scores.
    pub attention_softcap: Option<f64>,
    /// Soft cap of the logits.
    pub logit_softcap: Option<f64>,
    /// The attention's linear layers have biases, in the families where the file decides it.
    pub attention_bias: bool,
    /// The feed-forward layer's linear layers have biases, in the families where the file decides it.
    pub mlp_bias: bool,
    /// The head is the embedding's transpose, not a weight of its own.
    pub tie_word_embeddings: bool,
    /// Dropout on embeddings and on the outputs of layers.
    pub hidden_dropout: f64,
    /// Dropout on the weights of attention.
    pub attention_dropout: f64,
    /// Dropout on the classifier's input.
    pub classifier_dropout: f64,
    /// The id that fills up a batch's shorter samples; it is never a label.
    pub pad_token_id: Option<u32>,
    /// The embedding's row that gets no gradient (PyTorch's `padding_idx`).
    pub padding_row: Option<u32>,
    /// The id that ends a text; the first if there are several.
    pub eos_token_id: Option<u32>,
    /// Outputs of an encoder's classifier.
    pub num_labels: usize,
    /// The task of the checkpoint's head. An encoder without one gets a new head.
    pub head: Option<Task>,
    /// The class that told the family, of a file without a `model_type`.
    pub told_by: Option<String>,
    /// How the checkpoint's weights were quantised, if somebody did (`quantization_config`).
    pub quantised: Option<Quantised>,
    /// Standard deviation of random matrices and embeddings.
    pub initializer_range: f64,
}

/// The `quantization_config` of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantised {
    /// Who quantised it (`quant_method`).
    pub by: String,
    /// bitsandbytes' format: int4 or int8.
    pub dtype: Option<Dtype>,
    /// The 4-bit data type, if it says which.
    pub quant_type: Option<QuantType>,
}

/// Attention to the last tokens alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Tokens that a token sees, itself included.
    pub tokens: usize,
    /// True for each block with the window; the others see all tokens.
    pub layers: Vec<bool>,
}

impl SlidingWindow {
    /// True if block `layer` has the window.
    pub fn is_in(&self, layer: usize) -> bool {
        self.layers.get(layer) == Some(&true)
    }
}

impl ModelConfig {
    /// The task that models of the family are trained for.
    pub fn task(&self) -> Task {
        self.family.description().task
    }

    /// Labels that samples have; `None` if the next token is predicted.
    pub fn labels(&self) -> Option<usize> {
        (self.task() == Task::SequenceClassification).then_some(self.num_labels)
    }

    /// Tokens that a token sees in block `layer`, itself included; `None` if it sees all before it.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let window = self.sliding_window.as_ref().filter(|window| window.is_in(layer));
        window.map(|window| window.tokens)
    }

    /// Factor of the products of queries and keys.
    pub fn attention_scale(&self) -> f64 {
        1.0 / (self.query_pre_attn_scalar.unwrap_or(self.head_dim) as f64).sqrt()
    }

    /// Factor of the tokens' vectors, if the family has one.
    pub fn embedding_scale(&self) -> Option<f32> {
        let embedding = self.family.description().embeddings.first()?;
        (embedding.kind == Kind::ScaledEmbedding).then(|| (self.hidden_size as f64).sqrt() as f32)
    }

    /// Width of a head's part that is rotated.
    pub fn rotary_dim(&self) -> usize {
        self.rope.rotary_dim(self.head_dim)
    }
}
