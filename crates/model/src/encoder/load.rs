//! Builds an encoder, layer by layer.

use arch::{ModelConfig, Module, ModuleName};
use kernels::attention::Scores;
use nn::{
    activation::Gelu,
    attention::{Attention, Visibility},
    classifier::{Activation, Classifier},
    encoder_block::{ATTENTION, EncoderBlock},
    encoder_embedding::EncoderEmbedding,
    feed_forward::FeedForward,
    layer_norm::LayerNorm,
    linear::Projection,
};

use super::Encoder;
use crate::{Model, error::LoadError, host_blocks::HostBlocks, loader::Loader};

/// The features in which a family differs by more than names and sizes.
struct Variant {
    /// The activation after the dense layer of the head.
    activation: Activation,
    /// True if attention's output has dropout.
    drops_attention_output: bool,
}

impl Loader<'_> {
    pub(crate) fn bert(&mut self, config: &ModelConfig) -> Result<Model, LoadError> {
        let variant = Variant {
            activation: Activation::Tanh,
            drops_attention_output: true,
        };
        self.encoder(config, &variant)
    }

    pub(crate) fn distilbert(&mut self, config: &ModelConfig) -> Result<Model, LoadError> {
        let variant = Variant {
            activation: Activation::Relu,
            drops_attention_output: false,
        };
        self.encoder(config, &variant)
    }

    fn encoder(&mut self, config: &ModelConfig, variant: &Variant) -> Result<Model, LoadError> {
        let description = config.family.description();
        let embedding = self.encoder_embedding(config, description.embeddings)?;
        let mut blocks = Vec::with_capacity(config.num_hidden_layers);
        let mut host_blocks = HostBlocks::default();
        for index in 0..config.num_hidden_layers {
            let mut block = self.encoder_block(config, variant, index)?;
            let mut frozen = Vec::new();
            block.frozen(&mut frozen);
            self.place(index, frozen, &mut host_blocks)?;
            blocks.push(block);
        }
        let [dense, classifier] = description.head else {
            return Err(LoadError::Family(config.family.name()));
        };
        let classifier_name = self.outside(classifier);
        let dropouts = [
            config.hidden_dropout,
            config.attention_dropout,
            config.classifier_dropout,
        ];
        Ok(Model::Encoder(Box::new(Encoder {
            description,
            embedding,
            blocks,
            host_blocks,
            head: Classifier {
                dense: self.projection(self.outside(dense), dense)?,
                activation: variant.activation,
                dropout: self.dropout(format_args!("{classifier_name}.input"), config.classifier_dropout),
                classifier: self.projection(classifier_name, classifier)?,
                products: self.products(),
            },
            has_dropout: dropouts.iter().any(|probability| *probability > 0.0),
            shared: self.shared_factors(),
            hidden: self.hidden(),
            device: self.device().clone(),
        })))
    }

    fn encoder_embedding(
        &mut self,
        config: &ModelConfig,
        modules: &'static [Module],
    ) -> Result<EncoderEmbedding, LoadError> {
        let (words, positions, token_types, norm) = match modules {
            [words, positions, norm] => (words, positions, None, norm),
            [words, positions, token_types, norm] => (words, positions, Some(token_types), norm),
            _ => return Err(LoadError::Family(config.family.name())),
        };
        let words_table = self.table(self.outside(words), words)?;
        let mut table = |module| self.dense(self.outside(module), module, "weight");
        Ok(EncoderEmbedding {
            words: words_table,
            positions: table(positions)?,
            token_types: token_types.map(table).transpose()?,
            dropout: self.dropout(self.outside(norm), config.hidden_dropout),
            norm: self.layer_norm(config, self.outside(norm), norm)?,
            padding: config.padding_row,
        })
    }

    fn encoder_block(
        &mut self,
        config: &ModelConfig,
        variant: &Variant,
        index: usize,
    ) -> Result<EncoderBlock, LoadError> {
        memory::timeline::write_out();
        let [
            query,
            key,
            value,
            attention_output,
            attention_norm,
            intermediate,
            output,
            output_norm,
        ] = config.family.description().block
        else {
            return Err(LoadError::Family(config.family.name()));
        };
        let name = |module| config.in_block(index, module);
        let output_dropout = if variant.drops_attention_output {
            config.hidden_dropout
        } else {
            0.0
        };
        let hidden = config.hidden_size;
        let qkv = vec![
            self.linear(name(query), query)?,
            self.linear(name(key), key)?,
            self.linear(name(value), value)?,
        ];
        Ok(EncoderBlock {
            attention: Attention {
                names: [query, key, value].map(in_attention),
                qkv: Projection::new(qkv, [hidden; 3]),
                norms: None,
                output: self.projection(name(attention_output), attention_output)?,
                heads: config.num_attention_heads,
                kv_heads: config.num_attention_heads,
                head_dim: hidden / config.num_attention_heads,
                scores: Scores::of(hidden / config.num_attention_heads),
                visibility: Visibility::All,
                implementation: self.attention(),
                weight_dropout: self.dropout(format_args!("{}.weights", name(query)), config.attention_dropout),
                output_dropout: self.dropout(format_args!("{}.output", name(attention_output)), output_dropout),
            },
            attention_norm_name: attention_norm.path,
            attention_norm: self.layer_norm(config, name(attention_norm), attention_norm)?,
            feed_forward: FeedForward {
                modules: [intermediate.path, output.path],
                names: [""],
                inner: self.projection(name(intermediate), intermediate)?,
                output: self.projection(name(output), output)?,
                output_dropout: self.dropout(format_args!("{}.output", name(output)), config.hidden_dropout),
                activation: &Gelu,
            },
            output_norm_name: output_norm.path,
            output_norm: self.layer_norm(config, name(output_norm), output_norm)?,
            products: self.products(),
        })
    }

    fn layer_norm(&mut self, config: &ModelConfig, name: ModuleName, module: &Module) -> Result<LayerNorm, LoadError> {
        Ok(LayerNorm {
            weight: self.dense(name, module, "weight")?,
            bias: self.dense(name, module, "bias")?,
            eps: config.norm_eps,
        })
    }
}

/// The name of a layer from the attention on.
fn in_attention(module: &Module) -> &'static str {
    let name = module.path.strip_prefix(ATTENTION).unwrap_or(module.path);
    name.strip_prefix('.').unwrap_or(name)
}
