//! A model's weights by name, as Hugging Face's checkpoints have them: what is counted, and what adapters are called.

use super::config::{Family, ModelConfig};
use super::training::{Configuration, Targets};
use super::{BaseDtype, Dtype};
use crate::adapter::peft;

/// A weight.
struct Weight {
    name: String,
    shape: Vec<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A linear layer that `all-linear` gives an adapter.
    Linear,
    /// Of a head that is trained whole beside adapters.
    Head,
    Other,
}

impl Configuration {
    /// Weights of the base model; a tied head counts once.
    pub fn parameter_count(&self) -> u64 {
        self.model.weights().iter().map(|weight| elements(&weight.shape)).sum()
    }

    /// Numbers that the optimizer moves.
    pub fn trainable_count(&self) -> u64 {
        if self.rank == 0 {
            return self.parameter_count();
        }
        let trained = |(name, shape): &(String, Vec<usize>)| {
            let frozen = !self.train_lora_a && name.ends_with(peft::SUFFIX_A);
            if frozen { 0 } else { elements(shape) }
        };
        self.adapter_tensors().iter().map(trained).sum()
    }

    /// Bytes of `adapter_model.safetensors`; none with rank 0.
    pub fn adapter_file_bytes(&self) -> Option<u64> {
        let dtype = match self.adapter_dtype {
            Dtype::Float16 => peft::FileDtype::F16,
            Dtype::Bfloat16 => peft::FileDtype::Bf16,
            _ => peft::FileDtype::F32,
        };
        (self.rank > 0).then(|| peft::file_bytes(self.adapter_tensors(), dtype))
    }

    /// What PEFT saves.
    fn adapter_tensors(&self) -> Vec<(String, Vec<usize>)> {
        let rank = self.rank as usize;
        let of = |weight: Weight| {
            let Weight { name, shape, kind } = weight;
            match (name.strip_suffix(".weight"), kind) {
                (_, Kind::Head) => vec![(name, shape)],
                (Some(module), Kind::Linear) if self.targets(module) => vec![
                    (format!("{module}{}", peft::SUFFIX_A), vec![rank, shape[1]]),
                    (format!("{module}{}", peft::SUFFIX_B), vec![shape[0], rank]),
                ],
                _ => Vec::new(),
            }
        };
        self.model.weights().into_iter().flat_map(of).collect()
    }

    fn targets(&self, module: &str) -> bool {
        let last = module.rsplit('.').next().unwrap_or(module);
        match &self.target_modules {
            Targets::AllLinear => true,
            Targets::Names(names) => names.iter().any(|name| name == last),
        }
    }

    /// Whether base weights are quantised.
    pub fn is_quantised(&self) -> bool {
        matches!(self.dtype, BaseDtype::Int8 | BaseDtype::Int4)
    }
}

fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|&n| n as u64).product()
}

impl ModelConfig {
    fn weights(&self) -> Vec<Weight> {
        match self.family {
            Family::Bert | Family::DistilBert => self.encoder_weights(),
            _ => self.decoder_weights(),
        }
    }

    fn decoder_weights(&self) -> Vec<Weight> {
        let hidden = self.hidden_size as usize;
        let inner = self.intermediate_size as usize;
        let queries = (self.num_attention_heads * self.head_dim) as usize;
        let keys = (self.num_key_value_heads * self.head_dim) as usize;
        let vocabulary = self.vocab_size as usize;
        let mut weights = Vec::new();
        let mut add = |name: String, shape: &[usize], kind| {
            weights.push(Weight {
                name,
                shape: shape.to_vec(),
                kind,
            });
        };
        add("model.embed_tokens.weight".into(), &[vocabulary, hidden], Kind::Other);
        for layer in 0..self.num_hidden_layers {
            let block = format!("model.layers.{layer}");
            let mut linear = |name: &str, outputs: usize, inputs: usize, bias: bool| {
                add(format!("{block}.{name}.weight"), &[outputs, inputs], Kind::Linear);
                if bias {
                    add(format!("{block}.{name}.bias"), &[outputs], Kind::Other);
                }
            };
            let bias = self.attention_bias;
            if self.family == Family::Phi3 {
                linear("self_attn.qkv_proj", queries + 2 * keys, hidden, false);
                linear("self_attn.o_proj", hidden, queries, false);
                linear("mlp.gate_up_proj", 2 * inner, hidden, false);
            } else {
                linear("self_attn.q_proj", queries, hidden, bias);
                linear("self_attn.k_proj", keys, hidden, bias);
                linear("self_attn.v_proj", keys, hidden, bias);
                linear(
                    "self_attn.o_proj",
                    hidden,
                    queries,
                    bias && self.family != Family::Qwen2,
                );
                linear("mlp.gate_proj", inner, hidden, self.mlp_bias);
                linear("mlp.up_proj", inner, hidden, self.mlp_bias);
            }
            linear("mlp.down_proj", hidden, inner, self.mlp_bias);
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                add(format!("{block}.{norm}.weight"), &[hidden], Kind::Other);
            }
            if self.family == Family::Qwen3 {
                for norm in ["q_norm", "k_norm"] {
                    let width = self.head_dim as usize;
                    add(format!("{block}.self_attn.{norm}.weight"), &[width], Kind::Other);
                }
            }
        }
        add("model.norm.weight".into(), &[hidden], Kind::Other);
        if !self.tie_word_embeddings {
            add("lm_head.weight".into(), &[vocabulary, hidden], Kind::Other);
        }
        weights
    }

    fn encoder_weights(&self) -> Vec<Weight> {
        let (hidden, inner) = (self.hidden_size as usize, self.intermediate_size as usize);
        let is_bert = self.family == Family::Bert;
        let prefix = if is_bert { "bert" } else { "distilbert" };
        let mut weights = Vec::new();
        let mut add = |name: String, shape: &[usize], kind| {
            weights.push(Weight {
                name,
                shape: shape.to_vec(),
                kind,
            });
        };
        let tables = [
            ("word", self.vocab_size),
            ("position", self.max_position_embeddings),
            ("token_type", self.type_vocab_size),
        ];
        for (table, rows) in tables.into_iter().filter(|(_, rows)| *rows > 0) {
            let name = format!("{prefix}.embeddings.{table}_embeddings.weight");
            add(name, &[rows as usize, hidden], Kind::Other);
        }
        let mut norms = vec![format!("{prefix}.embeddings.LayerNorm")];
        let mut linears = Vec::new();
        for layer in 0..self.num_hidden_layers {
            let (block, names) = if is_bert {
                (format!("bert.encoder.layer.{layer}"), BERT)
            } else {
                (format!("distilbert.transformer.layer.{layer}"), DISTILBERT)
            };
            let [q, k, v, out, first, second, norm, last_norm] = names;
            for name in [q, k, v, out] {
                linears.push((format!("{block}.{name}"), hidden, hidden, Kind::Linear));
            }
            linears.push((format!("{block}.{first}"), inner, hidden, Kind::Linear));
            linears.push((format!("{block}.{second}"), hidden, inner, Kind::Linear));
            norms.extend([norm, last_norm].map(|norm| format!("{block}.{norm}")));
        }
        // PEFT trains whole what ends with `classifier`, so DistilBERT's dense layer too.
        linears.push(if is_bert {
            ("bert.pooler.dense".into(), hidden, hidden, Kind::Linear)
        } else {
            ("pre_classifier".into(), hidden, hidden, Kind::Head)
        });
        linears.push(("classifier".into(), self.num_labels as usize, hidden, Kind::Head));
        for (name, outputs, inputs, kind) in linears {
            add(format!("{name}.weight"), &[outputs, inputs], kind);
            let bias = if kind == Kind::Head { kind } else { Kind::Other };
            add(format!("{name}.bias"), &[outputs], bias);
        }
        for norm in norms {
            for part in ["weight", "bias"] {
                add(format!("{norm}.{part}"), &[hidden], Kind::Other);
            }
        }
        weights
    }
}

/// A block's query, key, value, output, both feed-forward layers and both norms.
const BERT: [&str; 8] = [
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
    "attention.output.LayerNorm",
    "output.LayerNorm",
];

const DISTILBERT: [&str; 8] = [
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    "ffn.lin1",
    "ffn.lin2",
    "sa_layer_norm",
    "output_layer_norm",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// As the models' cards and transformers' `num_parameters()` say.
    #[test]
    fn presets_have_the_true_parameter_counts() {
        for (name, count) in [
            ("smollm2-135m", 134_515_008),
            ("smollm2-1.7b", 1_711_376_384),
            ("tinyllama-1.1b", 1_100_048_384),
            ("llama-2-7b", 6_738_415_616),
            ("llama-3.1-8b", 8_030_261_248),
            ("llama-3.2-3b", 3_212_749_824),
            ("qwen2.5-0.5b", 494_032_768),
            ("qwen2.5-1.5b", 1_543_714_304),
            ("qwen2.5-7b", 7_615_616_512),
            ("qwen3-0.6b", 596_049_920),
            ("qwen3-8b", 8_190_735_360),
            ("mistral-7b", 7_248_023_552),
            ("phi-3-mini", 3_821_079_552),
            ("phi-4-mini", 3_836_021_760),
            ("bert-base", 109_483_778),
            ("distilbert-base", 66_955_010),
        ] {
            let config = ModelConfig::preset(name).expect(name);
            let found: u64 = config.weights().iter().map(|weight| elements(&weight.shape)).sum();
            assert_eq!(found, count, "{name}");
        }
    }
}
