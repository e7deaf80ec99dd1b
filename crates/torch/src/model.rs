//! A model of any family, loaded.

use options::Generation;

use super::configuration::{Configuration, MicroBatchShape};
use super::frames::{BlockOutputs, Frame};
use super::models::attention_options::AttentionOptions;
use super::models::decoder::{Decoder, Output};
use super::models::encoder::Encoder;
use super::models::loader::Loader;
use super::tape::{Tape, Tensor};
use super::view::View;

/// A model of any family.
pub(super) enum Model<'t> {
    Decoder(Box<Decoder<'t>>),
    Encoder(Box<Encoder<'t>>),
}

impl<'t> Model<'t> {
    pub(super) fn load(loader: &mut Loader<'t, '_>, configuration: &Configuration) -> Self {
        let (config, plan) = (&configuration.model, AttentionOptions::of(configuration));
        if config.family.is_encoder() {
            Self::Encoder(Box::new(Encoder::load(loader, config, plan)))
        } else {
            Self::Decoder(Box::new(Decoder::load(loader, config, plan)))
        }
    }

    /// The weight that the model's own module looks at, beside those of modules in it: that of the head, for a loss that never
    /// holds all logits.
    pub(super) fn looks_at(&self, configuration: &Configuration) -> Option<&Tensor<'t>> {
        match self {
            Self::Decoder(decoder) if configuration.loss.is_partial() => decoder.head_weight(),
            Self::Decoder(_) | Self::Encoder(_) => None,
        }
    }

    pub(super) fn forward(
        &self,
        tape: &'t Tape,
        configuration: &Configuration,
        micro: &MicroBatchShape,
        ids: &Tensor<'t>,
    ) -> Output<'t> {
        match self {
            Self::Decoder(decoder) => decoder.forward(tape, configuration, micro, ids),
            Self::Encoder(encoder) => encoder.forward(tape, configuration, micro, ids),
        }
    }

    /// Generates tokens, as decoders can.
    pub(super) fn generate(&self, tape: &'t Tape, configuration: &Configuration, generation: &Generation) {
        match self {
            Self::Decoder(decoder) => decoder.generate(tape, configuration, generation),
            Self::Encoder(_) => {}
        }
    }

    pub(super) fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<BlockOutputs<View>> {
        let (output, weights) = match self {
            Self::Decoder(decoder) => (decoder.recompute(tape, frame)?, None),
            Self::Encoder(encoder) => encoder.recompute(tape, frame)?,
        };
        Some((output.into_view(), weights.map(Tensor::into_view)))
    }
}
