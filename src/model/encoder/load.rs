//! Builds an encoder, layer by layer.

use super::{Encoder, names::EncoderNames, variant::Variant};
use crate::{
    arch::ModelConfig,
    memory,
    model::{error::LoadError, loader::Loader},
    nn::{
        affine::Affine,
        classifier::{Activation, Classifier},
        dropout::Dropout,
        encoder_block::EncoderBlock,
        encoder_embedding::EncoderEmbedding,
        encoder_names::ATTENTION,
        feed_forward::FeedForward,
        layer_norm::LayerNorm,
        self_attention::SelfAttention,
    },
};

impl Loader<'_> {
    pub(crate) fn encoder(&mut self, config: &ModelConfig) -> Result<Encoder, LoadError> {
        let variant = Variant::new(config.family).ok_or(LoadError::Family(config.family.name()))?;
        let names = EncoderNames::get(variant);
        Ok(Encoder {
            variant,
            embedding: self.encoder_embedding(config, names)?,
            blocks: (0..config.num_hidden_layers)
                .map(|index| self.encoder_block(config, variant, index))
                .collect::<Result<Vec<_>, _>>()?,
            head: self.classifier(config, variant)?,
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

    fn encoder_embedding(&mut self, config: &ModelConfig, names: &EncoderNames) -> Result<EncoderEmbedding, LoadError> {
        let mut table = |name| self.dense(&format!("{name}.weight"));
        Ok(EncoderEmbedding {
            words: table(names.words)?,
            positions: table(names.positions)?,
            token_types: names.token_types.map(table).transpose()?,
            norm: self.layer_norm(config, names.embedding_norm)?,
            dropout: self.dropout(names.embedding_norm, config.hidden_dropout),
            padding: config.pad_token_id,
        })
    }

    fn encoder_block(
        &mut self,
        config: &ModelConfig,
        variant: Variant,
        index: usize,
    ) -> Result<EncoderBlock, LoadError> {
        memory::timeline::write_out();
        let names = &EncoderNames::get(variant).block;
        let block = format!("{}.{index}", config.family.description().blocks);
        let of_block = |name: &str| format!("{block}.{name}");
        let of_attention = |name: &str| format!("{block}.{ATTENTION}.{name}");
        // DistilBERT's attention has no dropout on its output.
        let output_dropout = match variant {
            Variant::Bert => config.hidden_dropout,
            Variant::DistilBert => 0.0,
        };
        let (query, attention_output) = (of_attention(names.query), of_attention(names.attention_output));
        let output = of_block(names.output);
        Ok(EncoderBlock {
            names,
            attention: SelfAttention {
                names,
                query: self.affine(&query)?,
                key: self.affine(&of_attention(names.key))?,
                value: self.affine(&of_attention(names.value))?,
                output: self.affine(&attention_output)?,
                heads: config.num_attention_heads,
                weight_dropout: self.dropout(&format!("{query}.weights"), config.attention_dropout),
                dropout: self.dropout(&format!("{attention_output}.output"), output_dropout),
            },
            attention_norm: self.layer_norm(config, &of_block(names.attention_norm))?,
            feed_forward: FeedForward {
                names,
                intermediate: self.affine(&of_block(names.intermediate))?,
                output: self.affine(&output)?,
                dropout: self.dropout(&format!("{output}.output"), config.hidden_dropout),
            },
            output_norm: self.layer_norm(config, &of_block(names.output_norm))?,
        })
    }

    /// Beside adapters the head is trained whole, as PEFT does it (`modules_to_save`): all that is called `…classifier`,
    /// so DistilBERT's dense layer too. BERT's is a layer like those of the blocks.
    fn classifier(&mut self, config: &ModelConfig, variant: Variant) -> Result<Classifier, LoadError> {
        let names = EncoderNames::get(variant);
        let (dense, activation) = match variant {
            Variant::Bert => (self.affine(names.dense)?, Activation::Tanh),
            Variant::DistilBert => (self.trained_affine(names.dense)?, Activation::Relu),
        };
        let classifier = names.classifier;
        Ok(Classifier {
            dense,
            activation,
            dropout: self.dropout(&format!("{classifier}.input"), config.classifier_dropout),
            classifier: self.trained_affine(classifier)?,
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

    fn layer_norm(&mut self, config: &ModelConfig, name: &str) -> Result<LayerNorm, LoadError> {
        Ok(LayerNorm {
            weight: self.dense(&format!("{name}.weight"))?,
            bias: self.dense(&format!("{name}.bias"))?,
            eps: config.norm_eps,
        })
    }

    fn dropout(&self, module: &str, probability: f64) -> Dropout {
        Dropout::new(self.seed(), module, probability)
    }
}
