//! Models of any family that is trained here.

use arch::{Build, ModelConfig};
use candle_core::Device;
use nn::{param::Param, tensor::Tensor, virtual_tokens::VirtualTokens};
use options::{AdapterMethod, ModelOptions};

use super::chain::Chain;
use super::decoder::Decoder;
use super::encoder::Encoder;
use super::error::LoadError;
use super::loader::Loader;

/// A model with everything it was configured to train.
#[derive(Debug)]
pub enum Model {
    /// A decoder with a head that predicts tokens.
    Decoder(Box<Decoder>),
    /// An encoder with a classifier.
    Encoder(Box<Encoder>),
}

/// Builds the model that `config` describes.
pub(super) fn build(loader: &mut Loader, config: &ModelConfig) -> Result<Model, LoadError> {
    match config.family.description().built_as {
        Some(Build::Decoder) => loader.decoder(config),
        Some(Build::DistilBert) => loader.distilbert(config),
        Some(Build::Bert) => loader.bert(config),
        None => Err(LoadError::Family(config.family.name())),
    }
}

/// Evaluates `$body` with the model's chain of segments as `$chain`.
#[macro_export]
macro_rules! with_chain {
    ($model:expr, $chain:ident => $body:expr) => {
        match $model {
            $crate::Model::Decoder($chain) => $body,
            $crate::Model::Encoder($chain) => $body,
        }
    };
}
impl Model {
    /// Virtual tokens that go through the blocks, before each sequence.
    pub fn prompt_tokens(&self) -> usize {
        match self {
            Self::Decoder(decoder) => decoder.prompt_tokens(),
            Self::Encoder(_) => 0,
        }
    }

    /// What stands before each sequence, to be taken away and put back.
    pub fn virtual_tokens(&mut self) -> Option<&mut Option<VirtualTokens>> {
        match self {
            Self::Decoder(decoder) => Some(&mut decoder.virtual_tokens),
            Self::Encoder(_) => None,
        }
    }

    /// Everything that is trained, in a fixed order, each once.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.saved();
        params.retain(|param| param.trainable);
        params
    }

    /// Everything that is saved of a trained adapter, in a fixed order: all that is trained, and the adapters' frozen
    /// tensors.
    pub fn saved(&mut self) -> Vec<&mut Param> {
        with_chain!(self, chain => {
            // Few blocks have more.
            let mut params = Vec::with_capacity(16 * chain.blocks());
            chain.trainable(&mut params);
            params
        })
    }

    /// The frozen factors that adapters share, by the names that PEFT saves them by.
    pub fn shared_factors(&self) -> Vec<(&'static str, &Tensor)> {
        let shared = with_chain!(self, chain => chain.shared());
        let factors = shared.into_iter().flat_map(|shared| [&shared.a, &shared.b]);
        options::methods::VERA_SHARED.into_iter().zip(factors).collect()
    }

    /// Those of them that `options` save.
    pub fn saved_factors(&self, options: &ModelOptions) -> Vec<(&'static str, &Tensor)> {
        let method = options.adapter.as_ref().map(|adapter| &adapter.method);
        match method {
            Some(AdapterMethod::Vera(vera)) if vera.save_projection => self.shared_factors(),
            _ => Vec::new(),
        }
    }

    /// The tables of tokens' vectors and of the head, by the names of their weights in a checkpoint that has both.
    pub fn tables(&self) -> Vec<(String, &Tensor)> {
        match self {
            Self::Decoder(decoder) => decoder.named_tables(),
            Self::Encoder(_) => Vec::new(),
        }
    }

    /// The device that holds the weights.
    pub fn device(&self) -> &Device {
        with_chain!(self, chain => chain.device())
    }
}
