//! The layers of an encoder with a classifier.

use std::sync::Arc;

use candle_core::{DType, Device};

use crate::{
    arch::Description,
    model::host_blocks::HostBlocks,
    nn::{
        adapter::SharedFactors, classifier::Classifier, encoder_block::EncoderBlock,
        encoder_embedding::EncoderEmbedding,
    },
};

/// DistilBERT or BERT with everything it was configured to train.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) description: &'static Description,
    pub(crate) embedding: EncoderEmbedding,
    pub(crate) blocks: Vec<EncoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub(crate) host_blocks: HostBlocks,
    pub(crate) head: Classifier,
    /// True if training drops more than the adapters' inputs.
    pub(crate) has_dropout: bool,
    /// The factors that the adapters share.
    pub(crate) shared: Option<Arc<SharedFactors>>,
    /// The format that hidden states are kept in.
    pub(crate) hidden: DType,
    pub(crate) device: Device,
}
