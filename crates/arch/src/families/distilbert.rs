//! DistilBERT with a classifier: transformers' `DistilBertForSequenceClassification`.

use super::base::ENCODER;
use crate::description::{Build, Defaults, Description, Fixed, WeightlessLeaves};
use crate::module::Bias::Always;
use crate::module::Size::{Hidden, Intermediate, Labels, Positions, Vocabulary};
use crate::module::{classifier, embedding, layer_norm, linear, padded_embedding};
use crate::releases::Releases;

pub(crate) const FAMILY: Description = Description {
    model_type: "distilbert",
    class: "DistilBert",
    releases: Some(Releases {
        sdpa_from: 46,
        flash_from: 36,
        checkpointing_from: 31,
        fills_scores: true,
        returned_weights_from: 58,
        ..Releases::ENCODER
    }),
    prefix: "distilbert.",
    blocks: "distilbert.transformer.layer",
    embeddings: &[
        padded_embedding("distilbert.embeddings.word_embeddings", &[Vocabulary, Hidden]),
        embedding("distilbert.embeddings.position_embeddings", &[Positions, Hidden]),
        layer_norm("distilbert.embeddings.LayerNorm", &[Hidden]),
    ],
    block: &[
        linear("attention.q_lin", &[Hidden, Hidden], Always),
        linear("attention.k_lin", &[Hidden, Hidden], Always),
        linear("attention.v_lin", &[Hidden, Hidden], Always),
        linear("attention.out_lin", &[Hidden, Hidden], Always),
        layer_norm("sa_layer_norm", &[Hidden]),
        linear("ffn.lin1", &[Intermediate, Hidden], Always),
        linear("ffn.lin2", &[Hidden, Intermediate], Always),
        layer_norm("output_layer_norm", &[Hidden]),
    ],
    head: &[
        classifier("pre_classifier", &[Hidden, Hidden]),
        classifier("classifier", &[Labels, Hidden]),
    ],
    weightless_leaves: WeightlessLeaves {
        // Dropout; GELU and dropout; dropout. The head's ReLU is made in the forward pass, where no hook is.
        embeddings: &[Hidden],
        block: &[Intermediate, Hidden],
        head: &[Hidden],
    },
    built_as: Some(Build::DistilBert),
    key_names: &[
        ("hidden_size", "dim"),
        ("intermediate_size", "hidden_dim"),
        ("num_hidden_layers", "n_layers"),
        ("num_attention_heads", "n_heads"),
        ("hidden_act", "activation"),
        ("hidden_dropout_prob", "dropout"),
        ("attention_probs_dropout_prob", "attention_dropout"),
        ("classifier_dropout", "seq_classif_dropout"),
    ],
    fixed: &[
        ("sinusoidal_pos_embds", Fixed::False),
        ("problem_type", Fixed::Word("single_label_classification")),
    ],
    defaults: Defaults {
        num_hidden_layers: 6,
        type_vocab_size: 0,
        classifier_dropout: Some(0.2),
        ..ENCODER.defaults
    },
    ..ENCODER
};
