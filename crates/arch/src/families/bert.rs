//! BERT with a classifier: transformers' `BertForSequenceClassification`.

use super::base::ENCODER;
use crate::description::{Build, Description, Fixed, WeightlessLeaves};
use crate::module::Bias::Always;
use crate::module::Size::{Hidden, Intermediate, Labels, Positions, TokenTypes, Vocabulary};
use crate::module::{classifier, embedding, layer_norm, linear, padded_embedding};

pub(crate) const FAMILY: Description = Description {
    model_type: "bert",
    class: "Bert",
    prefix: "bert.",
    blocks: "bert.encoder.layer",
    embeddings: &[
        padded_embedding("bert.embeddings.word_embeddings", &[Vocabulary, Hidden]),
        embedding("bert.embeddings.position_embeddings", &[Positions, Hidden]),
        embedding("bert.embeddings.token_type_embeddings", &[TokenTypes, Hidden]),
        layer_norm("bert.embeddings.LayerNorm", &[Hidden]),
    ],
    block: &[
        linear("attention.self.query", &[Hidden, Hidden], Always),
        linear("attention.self.key", &[Hidden, Hidden], Always),
        linear("attention.self.value", &[Hidden, Hidden], Always),
        linear("attention.output.dense", &[Hidden, Hidden], Always),
        layer_norm("attention.output.LayerNorm", &[Hidden]),
        linear("intermediate.dense", &[Intermediate, Hidden], Always),
        linear("output.dense", &[Hidden, Intermediate], Always),
        layer_norm("output.LayerNorm", &[Hidden]),
    ],
    head: &[
        linear("bert.pooler.dense", &[Hidden, Hidden], Always),
        classifier("classifier", &[Labels, Hidden]),
    ],
    weightless_leaves: WeightlessLeaves {
        // Dropout; dropout, GELU and dropout; tanh and dropout.
        embeddings: &[Hidden],
        block: &[Hidden, Intermediate, Hidden],
        head: &[Hidden, Hidden],
    },
    built_as: Some(Build::Bert),
    has_output_modules: true,
    keys: &["layer_norm_eps", "type_vocab_size"],
    fixed: &[
        ("is_decoder", Fixed::False),
        ("add_cross_attention", Fixed::False),
        ("position_embedding_type", Fixed::Word("absolute")),
        ("problem_type", Fixed::Word("single_label_classification")),
    ],
    ..ENCODER
};
