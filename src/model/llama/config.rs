//! The shape of a Llama model, and the tensors that follow from it.

use crate::model::{Init, Tensor};

/// A decoder of the Llama family. Field names are those of Hugging Face's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamaConfig {
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; each serves `num_attention_heads / num_key_value_heads` query heads.
    pub num_key_value_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Rows of the embedding; every token id is below it.
    pub vocab_size: usize,
    /// Added to the mean square under RMSNorm's root.
    pub rms_norm_eps: f64,
    /// Base of the rotary embedding's frequencies.
    pub rope_theta: f64,
    /// How those frequencies are stretched to longer contexts, if they are.
    pub rope_scaling: Option<Llama3Scaling>,
    /// The head is the embedding's transpose, and no tensor of its own.
    pub tie_word_embeddings: bool,
    /// Positions that the model was trained on.
    pub max_position_embeddings: usize,
    /// The id that fills up a batch's shorter samples; it is never a label.
    pub pad_token_id: Option<u32>,
    /// Standard deviation of random matrices and embeddings.
    pub initializer_range: f64,
}

/// Llama 3's scaling of rotary frequencies (transformers' `rope_type: llama3`): wavelengths above
/// `original_max_position_embeddings / low_freq_factor` are stretched by `factor`, those below
/// `original_max_position_embeddings / high_freq_factor` are kept, and those between are interpolated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3Scaling {
    pub factor: f64,
    pub low_freq_factor: f64,
    pub high_freq_factor: f64,
    pub original_max_position_embeddings: usize,
}

impl LlamaConfig {
    /// Every weight of the model, in the order in which a forward pass meets them. A tied head is not among them.
    pub fn tensors(&self) -> Vec<Tensor> {
        let (hidden, inter) = (self.hidden_size, self.intermediate_size);
        let queries = self.num_attention_heads * self.head_dim;
        let keys = self.num_key_value_heads * self.head_dim;
        let mut tensors = vec![tensor("model.embed_tokens.weight", &[self.vocab_size, hidden])];
        for layer in 0..self.num_hidden_layers {
            let of_layer = |name: &str, shape: &[usize]| tensor(&format!("model.layers.{layer}.{name}.weight"), shape);
            tensors.extend([
                of_layer("input_layernorm", &[hidden]),
                of_layer("self_attn.q_proj", &[queries, hidden]),
                of_layer("self_attn.k_proj", &[keys, hidden]),
                of_layer("self_attn.v_proj", &[keys, hidden]),
                of_layer("self_attn.o_proj", &[hidden, queries]),
                of_layer("post_attention_layernorm", &[hidden]),
                of_layer("mlp.gate_proj", &[inter, hidden]),
                of_layer("mlp.up_proj", &[inter, hidden]),
                of_layer("mlp.down_proj", &[hidden, inter]),
            ]);
        }
        tensors.push(tensor("model.norm.weight", &[hidden]));
        if !self.tie_word_embeddings {
            tensors.push(tensor("lm_head.weight", &[self.vocab_size, hidden]));
        }
        tensors
    }
}

fn tensor(name: &str, shape: &[usize]) -> Tensor {
    Tensor {
        name: name.into(),
        shape: shape.into(),
        init: if shape.len() == 1 { Init::Ones } else { Init::Normal },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Preset;

    fn tiny() -> LlamaConfig {
        match Preset::Tiny.config() {
            crate::model::Config::Llama(config) => config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tied_head_is_no_tensor() {
        let mut config = tiny();
        let has_head = |config: &LlamaConfig| config.tensors().iter().any(|tensor| tensor.name == "lm_head.weight");
        assert!(!has_head(&config));
        config.tie_word_embeddings = false;
        assert!(has_head(&config));
    }

    #[test]
    fn grouped_queries_give_narrow_keys() {
        let tensors = tiny().tensors();
        let shape = |name: &str| tensors.iter().find(|tensor| tensor.name == name).unwrap().shape.clone();
        assert_eq!(shape("model.layers.1.self_attn.q_proj.weight"), [64, 64]);
        assert_eq!(shape("model.layers.1.self_attn.k_proj.weight"), [32, 64]);
        assert_eq!(shape("model.layers.1.mlp.down_proj.weight"), [64, 160]);
        assert_eq!(shape("model.norm.weight"), [64]);
    }
}
