//! A model's shape, and what all families have in common of it.

use std::path::Path;

use super::{EncoderConfig, LlamaConfig, ModelError, Preset, hf_config};
use crate::options::{self, Task};

/// The shape of a model of a family that is computed here.
#[derive(Debug, Clone, PartialEq)]
pub enum Config {
    Llama(LlamaConfig),
    Encoder(EncoderConfig),
}

/// Name and shape of one weight. A matrix is `[rows, columns]`; a norm's weight or a bias `[columns]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Hugging Face's name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    pub shape: Vec<usize>,
    /// What it is where weights are random.
    pub init: Init,
}

/// How a weight begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// Normal, with the standard deviation that all of these models have.
    Normal,
    /// The same with zeros in one row: the padding token's embedding.
    NormalBut {
        zeros: usize,
    },
    Ones,
    Zeros,
}

impl Tensor {
    /// Rows that can be read apart from each other; a norm's weight is one row.
    pub fn rows(&self) -> usize {
        if self.shape.len() > 1 { self.shape[0] } else { 1 }
    }

    /// Elements in a row.
    pub fn columns(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }
}

impl Config {
    /// The true shape of a well-known model, by its [`Preset`]'s name.
    pub fn preset(name: &str) -> Option<Self> {
        Preset::from_name(name).map(Preset::config)
    }

    /// Reads `config.json` of a directory in Hugging Face's layout.
    ///
    /// # Errors
    /// Where the file is missing or invalid, or describes a model that is not computed here.
    pub fn from_dir(dir: &Path) -> Result<Self, ModelError> {
        hf_config::read(&dir.join("config.json"))
    }

    /// Every weight of the model, in the order in which a forward pass meets them. A tied head is not among them.
    pub fn tensors(&self) -> Vec<Tensor> {
        match self {
            Self::Llama(config) => config.tensors(),
            Self::Encoder(config) => config.tensors(),
        }
    }

    /// Number of weights; a tied head counts once.
    pub fn parameter_count(&self) -> u64 {
        self.tensors()
            .iter()
            .map(|tensor| tensor.shape.iter().map(|&n| n as u64).product::<u64>())
            .sum()
    }

    /// What the model can be trained for.
    pub fn task(&self) -> Task {
        match self {
            Self::Llama(_) => Task::CausalLm,
            Self::Encoder(_) => Task::SequenceClassification,
        }
    }

    /// Labels that samples have; none where the next token is predicted.
    pub fn num_labels(&self) -> Option<usize> {
        match self {
            Self::Llama(_) => None,
            Self::Encoder(config) => Some(config.num_labels),
        }
    }

    /// Number of blocks.
    pub fn num_hidden_layers(&self) -> usize {
        match self {
            Self::Llama(config) => config.num_hidden_layers,
            Self::Encoder(config) => config.num_hidden_layers,
        }
    }

    /// Width of the hidden states.
    pub fn hidden_size(&self) -> usize {
        match self {
            Self::Llama(config) => config.hidden_size,
            Self::Encoder(config) => config.hidden_size,
        }
    }

    /// Rows of the embedding; every token id is below it.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Llama(config) => config.vocab_size,
            Self::Encoder(config) => config.vocab_size,
        }
    }

    /// The most tokens that a sample can have.
    pub fn max_position_embeddings(&self) -> usize {
        match self {
            Self::Llama(config) => config.max_position_embeddings,
            Self::Encoder(config) => config.max_position_embeddings,
        }
    }

    /// The id that fills up a batch's shorter samples; it is never a label.
    pub fn pad_token_id(&self) -> Option<u32> {
        match self {
            Self::Llama(config) => config.pad_token_id,
            Self::Encoder(config) => config.pad_token_id,
        }
    }

    /// Standard deviation of random matrices and embeddings.
    pub fn initializer_range(&self) -> f64 {
        match self {
            Self::Llama(config) => config.initializer_range,
            Self::Encoder(config) => config.initializer_range,
        }
    }

    /// The last parts of the names of the linear layers that can have an adapter.
    pub fn modules(&self) -> &'static [&'static str] {
        match self {
            Self::Llama(_) => &options::MODULES,
            Self::Encoder(config) => config.family.modules(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that the models' cards and transformers' `num_parameters()` give; of the encoders with a head of two
    /// labels.
    #[test]
    fn presets_have_the_true_parameter_counts() {
        for (name, count) in [
            ("tiny", 119_104),
            ("smollm2-135m", 134_515_008),
            ("smollm2-360m", 361_821_120),
            ("tinyllama-1.1b", 1_100_048_384),
            ("llama-3.2-1b", 1_235_814_400),
            ("llama-3.2-3b", 3_212_749_824),
            ("distilbert-base", 66_955_010),
            ("bert-base", 109_483_778),
        ] {
            let config = Config::preset(name).expect(name);
            assert_eq!(config.parameter_count(), count, "{name}");
        }
    }
}
