//! The layers of an encoder with a classifier.

use candle_core::{DType, Device};

use crate::{
    arch::Description,
    nn::{classifier::Classifier, encoder_block::EncoderBlock, encoder_embedding::EncoderEmbedding},
};

/// DistilBERT or BERT with everything it was configured to train.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) description: &'static Description,
    pub(crate) embedding: EncoderEmbedding,
    pub(crate) blocks: Vec<EncoderBlock>,
    pub(crate) head: Classifier,
    /// True if training drops more than the adapters' inputs.
    pub(crate) has_dropout: bool,
    /// The format that hidden states are kept in.
    pub(crate) hidden: DType,
    pub(crate) device: Device,
}
