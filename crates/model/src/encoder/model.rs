//! The layers of an encoder with a classifier.

use std::sync::Arc;

use arch::Description;
use candle_core::{DType, Device};
use nn::{
    adapter::SharedFactors, classifier::Classifier, encoder_block::EncoderBlock, encoder_embedding::EncoderEmbedding,
};

use crate::host_blocks::HostBlocks;

/// DistilBERT or BERT with everything it was configured to train.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) description: &'static Description,
    pub(crate) embedding: EncoderEmbedding,
    pub(crate) blocks: Vec<EncoderBlock>,
    /// Frozen weights of blocks that wait in the host's memory.
    pub host_blocks: HostBlocks,
    pub(crate) head: Classifier,
    /// True if training drops more than the adapters' inputs.
    pub has_dropout: bool,
    /// The factors that the adapters share.
    pub shared: Option<Arc<SharedFactors>>,
    /// The format that hidden states are kept in.
    pub hidden: DType,
    pub(crate) device: Device,
}
