//! The names of an encoder's layers by their part in it, from its family's description.

use super::variant::Variant;
use crate::arch::{Description, Family};
use crate::nn::encoder_names::{ATTENTION, Names};

/// Hugging Face's names, in full but for a block's layers.
#[derive(Debug)]
pub(super) struct EncoderNames {
    pub words: &'static str,
    pub positions: &'static str,
    /// `None` in families without a token-type embedding.
    pub token_types: Option<&'static str>,
    pub embedding_norm: &'static str,
    pub block: Names,
    /// The layer over the first token, before the classifier.
    pub dense: &'static str,
    pub classifier: &'static str,
}

static DISTILBERT: EncoderNames = EncoderNames::of(Family::DistilBert.description());
static BERT: EncoderNames = EncoderNames::of(Family::Bert.description());

impl EncoderNames {
    /// The names in an encoder of this variant.
    pub(super) fn get(variant: Variant) -> &'static Self {
        match variant {
            Variant::Bert => &BERT,
            Variant::DistilBert => &DISTILBERT,
        }
    }

    /// Takes the names in their order of a forward pass.
    const fn of(family: &Description) -> Self {
        let (words, positions, token_types, embedding_norm) = match family.embeddings {
            [words, positions, norm] => (words, positions, None, norm),
            [words, positions, types, norm] => (words, positions, Some(types.path), norm),
            _ => panic!("an encoder's embeddings"),
        };
        let [q, k, v, o, attention_norm, intermediate, output, output_norm] = family.block else {
            panic!("an encoder's block");
        };
        let [dense, classifier] = family.head else {
            panic!("an encoder's head");
        };
        Self {
            words: words.path,
            positions: positions.path,
            token_types,
            embedding_norm: embedding_norm.path,
            block: Names {
                query: in_attention(q.path),
                key: in_attention(k.path),
                value: in_attention(v.path),
                attention_output: in_attention(o.path),
                attention_norm: attention_norm.path,
                intermediate: intermediate.path,
                output: output.path,
                output_norm: output_norm.path,
            },
            dense: dense.path,
            classifier: classifier.path,
        }
    }
}

/// The name of a layer from the attention on.
const fn in_attention(path: &'static str) -> &'static str {
    path.split_at(ATTENTION.len() + 1).1
}
