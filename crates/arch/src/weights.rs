//! The weights of a model, from its family's modules and its sizes.

use options::ModelOptions;

use super::config::ModelConfig;
use super::module::{Bias, Kind, Module, Size};

/// Name, shape and start of one weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightSpec {
    /// Hugging Face's name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// `[rows, columns]` of a matrix, `[columns]` of a norm's weight or a bias.
    pub shape: Vec<usize>,
    /// The start value of random weights.
    pub init: Init,
}

/// How a weight begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// Normal, with the standard deviation `initializer_range`.
    Normal,
    /// Normal, with the standard deviation `initializer_range`, and zeros in the row of the padding token.
    NormalWithZeroRow {
        /// The row of zeros.
        row: usize,
    },
    /// All ones.
    Ones,
    /// All zeros.
    Zeros,
}

impl WeightSpec {
    /// Rows that can be read one by one; a norm's weight is one row.
    pub fn rows(&self) -> usize {
        if self.shape.len() > 1 { self.shape[0] } else { 1 }
    }

    /// Elements in a row.
    pub fn columns(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }
}

impl ModelConfig {
    /// Every module of the model that has weights, with its name in full, in the order of a forward pass. A tied head
    /// is not among them.
    pub fn modules(&self) -> impl Iterator<Item = (String, &'static Module)> {
        let family = self.family.description();
        let named = |module: &'static Module| (module.path.to_owned(), module);
        let blocks = (0..self.num_hidden_layers).flat_map(move |index| {
            let named = move |module: &'static Module| (format!("{}.{index}.{}", family.blocks, module.path), module);
            family.block.iter().map(named)
        });
        let modules = family.embeddings.iter().map(named).chain(blocks);
        let modules = modules.chain(family.head.iter().map(named));
        modules.filter(|(_, module)| module.kind != Kind::TokenHead || !self.tie_word_embeddings)
    }

    /// The index of the block that has the module called `name` in full.
    pub fn block_of(&self, name: &str) -> Option<usize> {
        let within = name.strip_prefix(self.family.description().blocks)?.strip_prefix('.')?;
        within.split('.').next()?.parse().ok()
    }

    /// Every weight of the model, in the order of a forward pass.
    pub fn weights(&self) -> Vec<WeightSpec> {
        let modules = self.modules();
        modules
            .flat_map(|(name, module)| self.weights_of(&name, module))
            .collect()
    }

    /// The weight and bias of `module`, which is called `name` in full.
    fn weights_of(&self, name: &str, module: &Module) -> impl Iterator<Item = WeightSpec> + use<> {
        let weight = WeightSpec {
            name: format!("{name}.weight"),
            shape: module.dims(self),
            init: match (module.kind, self.pad_token_id) {
                (Kind::Norm, _) => Init::Ones,
                (Kind::CenteredNorm, _) => Init::Zeros,
                (Kind::PaddedEmbedding, Some(id)) => Init::NormalWithZeroRow { row: id as usize },
                _ => Init::Normal,
            },
        };
        let bias = module.bias.of(self).then(|| WeightSpec {
            name: format!("{name}.bias"),
            shape: vec![module.shape[0].of(self)],
            init: Init::Zeros,
        });
        std::iter::once(weight).chain(bias)
    }

    /// The module whose weight predicts a decoder's tokens: the head, or the embedding that it is tied to. Adapters
    /// that save one of the two whole take them apart, as PEFT does.
    pub fn head_table(&self, options: &ModelOptions) -> &'static str {
        let family = self.family.description();
        let words = family.embeddings[0].path;
        let Some(head) = family.token_head().map(|module| module.path) else {
            return words;
        };
        let adapter = options.adapter.as_ref();
        let is_apart = adapter.is_some_and(|adapter| adapter.saves_whole(words) || adapter.saves_whole(head));
        if self.tie_word_embeddings && !is_apart {
            words
        } else {
            head
        }
    }

    /// Number of weights; a tied head counts once.
    pub fn parameter_count(&self) -> u64 {
        let family = self.family.description();
        let is_tied = |module: &&Module| module.kind == Kind::TokenHead && self.tie_word_embeddings;
        let outside = family
            .embeddings
            .iter()
            .chain(family.head)
            .filter(|module| !is_tied(module));
        let of_block: u64 = family.block.iter().map(|module| module.elements(self)).sum();
        outside.map(|module| module.elements(self)).sum::<u64>() + self.num_hidden_layers as u64 * of_block
    }

    /// The linear layers that can have an adapter, by the last parts of their names.
    pub fn target_modules(&self) -> Vec<&'static str> {
        self.family.target_modules()
    }
}

impl Size {
    /// The number of rows or columns.
    pub fn of(self, config: &ModelConfig) -> usize {
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        match self {
            Self::Vocabulary => config.vocab_size,
            Self::Positions => config.max_position_embeddings,
            Self::TokenTypes => config.type_vocab_size,
            Self::Labels => config.num_labels,
            Self::Hidden => config.hidden_size,
            Self::Intermediate => config.intermediate_size,
            Self::GateAndUp => 2 * config.intermediate_size,
            Self::Head => config.head_dim,
            Self::Queries => queries,
            Self::Keys => keys,
            Self::QueriesKeysValues => queries + 2 * keys,
        }
    }
}

impl Bias {
    /// True if the module has a bias.
    pub fn of(self, config: &ModelConfig) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Attention => config.attention_bias,
            Self::Mlp => config.mlp_bias,
        }
    }
}

impl Module {
    /// The shape of the module's weight.
    pub fn dims(&self, config: &ModelConfig) -> Vec<usize> {
        self.shape.iter().map(|size| size.of(config)).collect()
    }

    /// Elements of the module's weight and bias.
    fn elements(&self, config: &ModelConfig) -> u64 {
        let weight: u64 = self.shape.iter().map(|size| size.of(config) as u64).product();
        let bias = if self.bias.of(config) {
            self.shape[0].of(config) as u64
        } else {
            0
        };
        weight + bias
    }

    /// The last part of the name, by which adapters are placed.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ModelConfig, Preset};

    fn tiny() -> ModelConfig {
        Preset::named("tiny").unwrap().config()
    }

    fn shape(config: &ModelConfig, name: &str) -> Option<Vec<usize>> {
        let weights = config.weights();
        weights
            .into_iter()
            .find(|weight| weight.name == name)
            .map(|weight| weight.shape)
    }

    #[test]
    fn a_tied_head_is_not_a_weight() {
        let mut config = tiny();
        assert_eq!(shape(&config, "lm_head.weight"), None);
        config.tie_word_embeddings = false;
        assert_eq!(shape(&config, "lm_head.weight"), Some(vec![512, 64]));
    }

    #[test]
    fn grouped_queries_give_narrow_keys() {
        let tiny = tiny();
        for (name, expected) in [
            ("model.layers.1.self_attn.q_proj.weight", vec![64, 64]),
            ("model.layers.1.self_attn.k_proj.weight", vec![32, 64]),
            ("model.layers.1.mlp.down_proj.weight", vec![64, 160]),
            ("model.norm.weight", vec![64]),
        ] {
            assert_eq!(shape(&tiny, name), Some(expected), "{name}");
        }
    }

    /// `state_dict()` of transformers' classes.
    #[test]
    fn names_are_those_of_transformers() {
        for (preset, names, count) in [
            (
                "distilbert-base",
                [
                    "distilbert.embeddings.word_embeddings.weight",
                    "distilbert.embeddings.LayerNorm.bias",
                    "distilbert.transformer.layer.5.sa_layer_norm.weight",
                    "distilbert.transformer.layer.0.ffn.lin2.bias",
                    "pre_classifier.weight",
                    "classifier.bias",
                ],
                104,
            ),
            (
                "bert-base",
                [
                    "bert.embeddings.token_type_embeddings.weight",
                    "bert.encoder.layer.11.attention.self.query.weight",
                    "bert.encoder.layer.0.attention.output.LayerNorm.bias",
                    "bert.encoder.layer.0.intermediate.dense.bias",
                    "bert.pooler.dense.weight",
                    "classifier.weight",
                ],
                201,
            ),
            (
                "qwen2.5-0.5b",
                [
                    "model.layers.23.self_attn.v_proj.bias",
                    "model.layers.0.self_attn.o_proj.weight",
                    "model.layers.0.input_layernorm.weight",
                    "model.layers.0.mlp.gate_proj.weight",
                    "model.embed_tokens.weight",
                    "model.norm.weight",
                ],
                290,
            ),
            (
                "qwen3-0.6b",
                [
                    "model.layers.27.self_attn.q_norm.weight",
                    "model.layers.0.self_attn.k_norm.weight",
                    "model.layers.0.self_attn.q_proj.weight",
                    "model.layers.0.post_attention_layernorm.weight",
                    "model.layers.0.mlp.up_proj.weight",
                    "model.norm.weight",
                ],
                310,
            ),
        ] {
            let all: Vec<String> = (Preset::named(preset).unwrap().config().weights().into_iter())
                .map(|weight| weight.name)
                .collect();
            assert_eq!(all.len(), count, "{preset}");
            for name in names {
                assert!(all.iter().any(|known| known == name), "{name} of {preset}");
            }
        }
    }
}
