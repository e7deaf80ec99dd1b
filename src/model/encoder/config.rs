//! The shape of an encoder with a classification head, and the tensors that follow from it.

use crate::model::{Init, Tensor};
use crate::nn::encoder_block::{ATTENTION, Names};

/// DistilBERT or BERT with a sequence-classification head. Field names are those of BERT's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    pub family: Family,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    /// Rows of the embedding; every token id is below it.
    pub vocab_size: usize,
    /// Rows of the learned position embedding.
    pub max_position_embeddings: usize,
    /// Rows of the token-type embedding; 0 where the family has none.
    pub type_vocab_size: usize,
    /// Added to the variance under LayerNorm's root.
    pub layer_norm_eps: f64,
    /// The id that fills up a batch's shorter samples; its embedding is never trained.
    pub pad_token_id: Option<u32>,
    /// Outputs of the classifier.
    pub num_labels: usize,
    /// Whether the checkpoint is of a classifier, so that it must have the head; else the head is new.
    pub has_head: bool,
    /// Dropout on embeddings and on the outputs of layers.
    pub hidden_dropout: f64,
    /// Dropout on the weights of attention.
    pub attention_dropout: f64,
    /// Dropout on what the classifier is given.
    pub classifier_dropout: f64,
    /// Standard deviation of random matrices and embeddings.
    pub initializer_range: f64,
}

/// What the tensors are called, and what is computed between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Sanh et al. 2019, arXiv:1910.01108.
    DistilBert,
    /// Devlin et al. 2018, arXiv:1810.04805.
    Bert,
}

/// Hugging Face's names of a block's layers, in full.
#[derive(Debug)]
pub(super) struct BlockNames {
    pub query: String,
    pub key: String,
    pub value: String,
    pub attention_output: String,
    pub attention_norm: String,
    pub intermediate: String,
    pub output: String,
    pub output_norm: String,
}

impl Family {
    /// What the names of the encoder's tensors begin with; the head's do not.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::DistilBert => "distilbert.",
            Self::Bert => "bert.",
        }
    }

    /// What `config.json` calls one of BERT's keys.
    pub(super) fn key(self, key: &str) -> &str {
        if self == Self::Bert {
            return key;
        }
        match key {
            "hidden_size" => "dim",
            "intermediate_size" => "hidden_dim",
            "num_hidden_layers" => "n_layers",
            "num_attention_heads" => "n_heads",
            "hidden_dropout_prob" => "dropout",
            "attention_probs_dropout_prob" => "attention_dropout",
            "classifier_dropout" => "seq_classif_dropout",
            same => same,
        }
    }

    /// The last parts of the names of the linear layers that can have an adapter. BERT's `dense` is also its pooler's.
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Self::DistilBert => &["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"],
            Self::Bert => &["query", "key", "value", "dense"],
        }
    }

    /// Hugging Face's names of a block's layers, from the block on.
    pub(super) fn layers(self) -> &'static Names {
        match self {
            Self::DistilBert => &Names {
                query: "q_lin",
                key: "k_lin",
                value: "v_lin",
                attention_output: "out_lin",
                attention_norm: "sa_layer_norm",
                intermediate: "ffn.lin1",
                output: "ffn.lin2",
                output_norm: "output_layer_norm",
            },
            Self::Bert => &Names {
                query: "self.query",
                key: "self.key",
                value: "self.value",
                attention_output: "output.dense",
                attention_norm: "attention.output.LayerNorm",
                intermediate: "intermediate.dense",
                output: "output.dense",
                output_norm: "output.LayerNorm",
            },
        }
    }

    /// The same in full, of one block.
    pub(super) fn block(self, index: usize) -> BlockNames {
        let block = match self {
            Self::DistilBert => format!("distilbert.transformer.layer.{index}"),
            Self::Bert => format!("bert.encoder.layer.{index}"),
        };
        let of_block = |name: &str| format!("{block}.{name}");
        let of_attention = |name: &str| format!("{block}.{ATTENTION}.{name}");
        let names = self.layers();
        BlockNames {
            query: of_attention(names.query),
            key: of_attention(names.key),
            value: of_attention(names.value),
            attention_output: of_attention(names.attention_output),
            attention_norm: of_block(names.attention_norm),
            intermediate: of_block(names.intermediate),
            output: of_block(names.output),
            output_norm: of_block(names.output_norm),
        }
    }

    /// The layer over the first token, before the classifier.
    pub(super) fn dense(self) -> &'static str {
        match self {
            Self::DistilBert => "pre_classifier",
            Self::Bert => "bert.pooler.dense",
        }
    }
}

/// The last layer of the head.
pub(super) const CLASSIFIER: &str = "classifier";

impl EncoderConfig {
    /// Name of an embedding table: `word`, `position` or `token_type`.
    pub(super) fn table(&self, kind: &str) -> String {
        format!("{}embeddings.{kind}_embeddings.weight", self.family.prefix())
    }

    pub(super) fn embedding_norm(&self) -> String {
        format!("{}embeddings.LayerNorm", self.family.prefix())
    }

    /// Every weight of the model, in the order in which a forward pass meets them.
    pub(in crate::model) fn tensors(&self) -> Vec<Tensor> {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let mut tensors = vec![
            tensor(
                &self.table("word"),
                &[self.vocab_size, hidden],
                match self.pad_token_id {
                    Some(id) => Init::NormalBut { zeros: id as usize },
                    None => Init::Normal,
                },
            ),
            tensor(
                &self.table("position"),
                &[self.max_position_embeddings, hidden],
                Init::Normal,
            ),
        ];
        if self.type_vocab_size > 0 {
            let shape = [self.type_vocab_size, hidden];
            tensors.push(tensor(&self.table("token_type"), &shape, Init::Normal));
        }
        tensors.extend(norm(&self.embedding_norm(), hidden));
        for index in 0..self.num_hidden_layers {
            let names = self.family.block(index);
            tensors.extend(linear(&names.query, hidden, hidden));
            tensors.extend(linear(&names.key, hidden, hidden));
            tensors.extend(linear(&names.value, hidden, hidden));
            tensors.extend(linear(&names.attention_output, hidden, hidden));
            tensors.extend(norm(&names.attention_norm, hidden));
            tensors.extend(linear(&names.intermediate, inner, hidden));
            tensors.extend(linear(&names.output, hidden, inner));
            tensors.extend(norm(&names.output_norm, hidden));
        }
        tensors.extend(linear(self.family.dense(), hidden, hidden));
        tensors.extend(linear(CLASSIFIER, self.num_labels, hidden));
        tensors
    }

    /// Whether a tensor is of the head, which an encoder's checkpoint need not have.
    pub(in crate::model) fn is_of_head(&self, name: &str) -> bool {
        name.starts_with(self.family.dense()) || name.starts_with(CLASSIFIER)
    }
}

fn linear(name: &str, rows: usize, columns: usize) -> [Tensor; 2] {
    [
        tensor(&format!("{name}.weight"), &[rows, columns], Init::Normal),
        tensor(&format!("{name}.bias"), &[rows], Init::Zeros),
    ]
}

fn norm(name: &str, columns: usize) -> [Tensor; 2] {
    [
        tensor(&format!("{name}.weight"), &[columns], Init::Ones),
        tensor(&format!("{name}.bias"), &[columns], Init::Zeros),
    ]
}

fn tensor(name: &str, shape: &[usize], init: Init) -> Tensor {
    Tensor {
        name: name.into(),
        shape: shape.into(),
        init,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Preset;

    /// `state_dict()` of transformers' `DistilBertForSequenceClassification` and `BertForSequenceClassification`.
    #[test]
    fn names_are_those_of_transformers() {
        for (preset, names, count) in [
            (
                Preset::DistilbertBase,
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
                Preset::BertBase,
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
        ] {
            let all: Vec<String> = preset
                .config()
                .tensors()
                .into_iter()
                .map(|tensor| tensor.name)
                .collect();
            assert_eq!(all.len(), count);
            assert!(
                names.iter().all(|name| all.iter().any(|known| known == name)),
                "{all:?}"
            );
        }
    }
}
