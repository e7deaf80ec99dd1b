//! Builds an encoder, layer by layer.

use super::{
    Encoder, EncoderConfig, Family,
    config::{BlockNames, CLASSIFIER},
};
use crate::{
    memory,
    model::{LoadError, load::Loader},
    nn::{
        affine::Affine,
        classifier::{Activation, Classifier},
        dropout::Dropout,
        encoder_block::EncoderBlock,
        encoder_embedding::EncoderEmbedding,
        feed_forward::FeedForward,
        layer_norm::LayerNorm,
        self_attention::SelfAttention,
    },
};

impl Loader<'_> {
    pub(in crate::model) fn encoder(&mut self, config: &EncoderConfig) -> Result<Encoder, LoadError> {
        Ok(Encoder {
            family: config.family,
            embedding: self.encoder_embedding(config)?,
            blocks: (0..config.num_hidden_layers)
                .map(|index| self.encoder_block(config, &config.family.block(index)))
                .collect::<Result<Vec<_>, _>>()?,
            head: self.classifier(config)?,
            has_dropout: [
                config.hidden_dropout,
                config.attention_dropout,
                config.classifier_dropout,
            ]
            .iter()
            .any(|probability| *probability > 0.0),
            hidden: self.hidden(),
            device: self.device().clone(),
        })
    }

    fn encoder_embedding(&mut self, config: &EncoderConfig) -> Result<EncoderEmbedding, LoadError> {
        let types = config.type_vocab_size > 0;
        Ok(EncoderEmbedding {
            words: self.dense(&config.table("word"))?,
            positions: self.dense(&config.table("position"))?,
            token_types: types.then(|| self.dense(&config.table("token_type"))).transpose()?,
            norm: self.layer_norm(config, &config.embedding_norm())?,
            dropout: self.dropout(&config.embedding_norm(), config.hidden_dropout),
            padding: config.pad_token_id,
        })
    }

    fn encoder_block(&mut self, config: &EncoderConfig, names: &BlockNames) -> Result<EncoderBlock, LoadError> {
        memory::timeline::write_out();
        // DistilBERT's attention has no dropout on its output.
        let attention_output = match config.family {
            Family::DistilBert => 0.0,
            Family::Bert => config.hidden_dropout,
        };
        let layers = config.family.layers();
        Ok(EncoderBlock {
            names: layers,
            attention: SelfAttention {
                names: layers,
                query: self.affine(&names.query)?,
                key: self.affine(&names.key)?,
                value: self.affine(&names.value)?,
                output: self.affine(&names.attention_output)?,
                heads: config.num_attention_heads,
                weight_dropout: self.dropout(&format!("{}.weights", names.query), config.attention_dropout),
                dropout: self.dropout(&format!("{}.output", names.attention_output), attention_output),
            },
            attention_norm: self.layer_norm(config, &names.attention_norm)?,
            feed_forward: FeedForward {
                names: layers,
                intermediate: self.affine(&names.intermediate)?,
                output: self.affine(&names.output)?,
                dropout: self.dropout(&format!("{}.output", names.output), config.hidden_dropout),
            },
            output_norm: self.layer_norm(config, &names.output_norm)?,
        })
    }

    /// Beside adapters the head is trained whole, as PEFT does it (`modules_to_save`): all that is called `…classifier`,
    /// so DistilBERT's dense layer too. BERT's is a layer like those of the blocks.
    fn classifier(&mut self, config: &EncoderConfig) -> Result<Classifier, LoadError> {
        let dense = config.family.dense();
        let (dense, activation) = match config.family {
            Family::DistilBert => (self.trained_affine(dense)?, Activation::Relu),
            Family::Bert => (self.affine(dense)?, Activation::Tanh),
        };
        Ok(Classifier {
            dense,
            activation,
            dropout: self.dropout(&format!("{CLASSIFIER}.input"), config.classifier_dropout),
            classifier: self.trained_affine(CLASSIFIER)?,
        })
    }

    fn affine(&mut self, module: &str) -> Result<Affine, LoadError> {
        Ok(Affine {
            linear: self.linear(module)?,
            bias: self.dense(&format!("{module}.bias"))?,
        })
    }

    fn trained_affine(&mut self, module: &str) -> Result<Affine, LoadError> {
        Ok(Affine {
            linear: self.trained_linear(module)?,
            bias: self.trained(&format!("{module}.bias"))?,
        })
    }

    fn layer_norm(&mut self, config: &EncoderConfig, name: &str) -> Result<LayerNorm, LoadError> {
        Ok(LayerNorm {
            weight: self.dense(&format!("{name}.weight"))?,
            bias: self.dense(&format!("{name}.bias"))?,
            eps: config.layer_norm_eps,
        })
    }

    fn dropout(&self, module: &str, probability: f64) -> Dropout {
        Dropout::new(self.seed(), module, probability)
    }
}
