//! Encoders with a classification head, as a chain of segments: embeddings, blocks, head.

mod config;
pub(super) mod hf_config;
mod load;

use candle_core::{DType, Device};

use crate::nn::{
    classifier::Classifier, encoder_block::EncoderBlock, encoder_embedding::EncoderEmbedding, param::Param,
};

pub use config::{EncoderConfig, Family};

/// DistilBERT or BERT with everything it was configured to train.
#[derive(Debug)]
pub struct Encoder {
    pub family: Family,
    pub embedding: EncoderEmbedding,
    pub blocks: Vec<EncoderBlock>,
    pub head: Classifier,
    /// Whether training drops anything beside the adapters' inputs.
    pub has_dropout: bool,
    /// The format that hidden states are kept in.
    pub hidden: DType,
    pub device: Device,
}

impl Encoder {
    /// Everything that is trained, in a fixed order, each once.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.embedding.trainable();
        params.extend(self.blocks.iter_mut().flat_map(EncoderBlock::trainable));
        params.extend(self.head.trainable());
        params
    }
}
