//! True shapes of well-known models, from the `config.json` that each is published with. Their weights are random, all of
//! the same spread, whatever the file says of a start of training.

use super::random_weights::INITIALIZER_RANGE;
use super::{Config, EncoderConfig, Family, Llama3Scaling, LlamaConfig};

/// A well-known model's shape; its weights are random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    Tiny,
    Smollm2_135m,
    Smollm2_360m,
    Tinyllama1_1b,
    Llama3_2_1b,
    Llama3_2_3b,
    DistilbertBase,
    BertBase,
}

impl Preset {
    /// Every preset: decoders, then encoders, the smallest of each first.
    pub const ALL: [Self; 8] = [
        Self::Tiny,
        Self::Smollm2_135m,
        Self::Smollm2_360m,
        Self::Tinyllama1_1b,
        Self::Llama3_2_1b,
        Self::Llama3_2_3b,
        Self::DistilbertBase,
        Self::BertBase,
    ];

    /// The name that a spec's `model` gives.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Smollm2_135m => "smollm2-135m",
            Self::Smollm2_360m => "smollm2-360m",
            Self::Tinyllama1_1b => "tinyllama-1.1b",
            Self::Llama3_2_1b => "llama-3.2-1b",
            Self::Llama3_2_3b => "llama-3.2-3b",
            Self::DistilbertBase => "distilbert-base",
            Self::BertBase => "bert-base",
        }
    }

    /// The preset of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The model's shape.
    pub fn config(self) -> Config {
        Config::Llama(match self {
            Self::Tiny => tiny(),
            Self::Smollm2_135m => smollm2(576, 1536, 30, 9, 3),
            Self::Smollm2_360m => smollm2(960, 2560, 32, 15, 5),
            Self::Tinyllama1_1b => tinyllama(),
            Self::Llama3_2_1b => llama_3_2(2048, 16, 32, 64),
            Self::Llama3_2_3b => llama_3_2(3072, 28, 24, 128),
            Self::DistilbertBase => return Config::Encoder(distilbert()),
            Self::BertBase => return Config::Encoder(bert()),
        })
    }
}

/// Nobody's model: small enough for tests and a first run of a few seconds, with every feature of the large ones.
fn tiny() -> LlamaConfig {
    LlamaConfig {
        hidden_size: 64,
        intermediate_size: 160,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 16,
        vocab_size: 512,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: None,
        tie_word_embeddings: true,
        max_position_embeddings: 512,
        pad_token_id: None,
        initializer_range: INITIALIZER_RANGE,
    }
}

fn tinyllama() -> LlamaConfig {
    LlamaConfig {
        hidden_size: 2048,
        intermediate_size: 5632,
        num_hidden_layers: 22,
        num_attention_heads: 32,
        num_key_value_heads: 4,
        head_dim: 64,
        vocab_size: 32_000,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: None,
        tie_word_embeddings: false,
        max_position_embeddings: 2048,
        pad_token_id: None,
        initializer_range: INITIALIZER_RANGE,
    }
}

fn smollm2(hidden: usize, intermediate: usize, layers: usize, heads: usize, kv_heads: usize) -> LlamaConfig {
    LlamaConfig {
        hidden_size: hidden,
        intermediate_size: intermediate,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim: 64,
        vocab_size: 49_152,
        rms_norm_eps: 1e-5,
        rope_theta: 100_000.0,
        rope_scaling: None,
        tie_word_embeddings: true,
        max_position_embeddings: 8192,
        pad_token_id: None,
        initializer_range: INITIALIZER_RANGE,
    }
}

fn llama_3_2(hidden: usize, layers: usize, heads: usize, head_dim: usize) -> LlamaConfig {
    LlamaConfig {
        hidden_size: hidden,
        intermediate_size: 8192,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: 8,
        head_dim,
        vocab_size: 128_256,
        rms_norm_eps: 1e-5,
        rope_theta: 500_000.0,
        rope_scaling: Some(Llama3Scaling {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192,
        }),
        tie_word_embeddings: true,
        max_position_embeddings: 131_072,
        pad_token_id: None,
        initializer_range: INITIALIZER_RANGE,
    }
}

/// distilbert-base-uncased.
fn distilbert() -> EncoderConfig {
    EncoderConfig {
        family: Family::DistilBert,
        num_hidden_layers: 6,
        type_vocab_size: 0,
        classifier_dropout: 0.2,
        ..bert()
    }
}

/// bert-base-uncased.
fn bert() -> EncoderConfig {
    EncoderConfig {
        family: Family::Bert,
        hidden_size: 768,
        intermediate_size: 3072,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        vocab_size: 30_522,
        max_position_embeddings: 512,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
        pad_token_id: Some(0),
        num_labels: 2,
        has_head: false,
        hidden_dropout: 0.1,
        attention_dropout: 0.1,
        classifier_dropout: 0.1,
        initializer_range: INITIALIZER_RANGE,
    }
}
