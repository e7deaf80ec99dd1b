//! Builds a decoder, layer by layer.

use std::marker::PhantomData;

use super::Decoder;
use crate::{
    arch::{Kind, ModelConfig, Module, ModuleName},
    memory,
    model::{Model, error::LoadError, host_blocks::HostBlocks, loader::Loader},
    nn::{
        attention::Attention,
        decoder_block::{DecoderBlock, MLP},
        feed_forward::FeedForward,
        linear::Projection,
        norm::RmsNorm,
        rope::Rope,
    },
};

/// The modules of a block by their part in it, from its family's description: a norm, the projections of queries, keys and
/// values and that of the output, a norm, the projections of gate and up and that of the output. Projections with one
/// input are one module or several.
struct Parts {
    input_norm: &'static Module,
    qkv: &'static [Module],
    attention_output: &'static Module,
    post_norm: &'static Module,
    gate_up: &'static [Module],
    mlp_output: &'static Module,
}

impl Parts {
    fn of(config: &ModelConfig) -> Result<Self, LoadError> {
        let is_norm = |module: &&Module| module.kind == Kind::Norm;
        let mut layers = config
            .family
            .description()
            .block
            .split_inclusive(|module| is_norm(&module));
        match (layers.next(), layers.next(), layers.next(), layers.next()) {
            (
                Some([input_norm]),
                Some([qkv @ .., attention_output, post_norm]),
                Some([gate_up @ .., mlp_output]),
                None,
            ) => Ok(Self {
                input_norm,
                qkv,
                attention_output,
                post_norm,
                gate_up,
                mlp_output,
            }),
            _ => Err(LoadError::Family(config.family.name())),
        }
    }
}

impl Loader<'_> {
    pub(crate) fn decoder(&mut self, config: &ModelConfig) -> Result<Model, LoadError> {
        let description = config.family.description();
        let (embedding, [norm, head]) = (&description.embeddings[0], description.head) else {
            return Err(LoadError::Family(config.family.name()));
        };
        let parts = Parts::of(config)?;
        let embed_tokens = self.table(self.outside(embedding), embedding)?;
        let mut blocks = Vec::with_capacity(config.num_hidden_layers);
        let mut host_blocks = HostBlocks::default();
        for index in 0..config.num_hidden_layers {
            let mut block = self.decoder_block(config, &parts, index)?;
            let mut frozen = Vec::new();
            block.frozen(&mut frozen);
            self.place(index, frozen, &mut host_blocks)?;
            blocks.push(block);
        }
        let norm = self.rms_norm(config, self.outside(norm), norm)?;
        let lm_head = if config.tie_word_embeddings {
            None
        } else {
            Some(self.table(self.outside(head), head)?)
        };
        let rope = {
            let _module = memory::module("model.rotary_emb");
            Rope::new(&config.rope, config.head_dim, self.positions(), self.device())?
        };
        Ok(Model::Decoder(Box::new(Decoder {
            description,
            embed_tokens,
            blocks,
            host_blocks,
            norm,
            lm_head,
            rope,
            loss: self.loss(),
            hidden: self.hidden(),
            device: self.device().clone(),
        })))
    }

    fn decoder_block(&mut self, config: &ModelConfig, parts: &Parts, index: usize) -> Result<DecoderBlock, LoadError> {
        memory::timeline::write_out();
        let name = |module: &Module| config.in_block(index, module);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        Ok(DecoderBlock {
            input_layernorm: self.rms_norm(config, name(parts.input_norm), parts.input_norm)?,
            self_attn: Attention {
                names: names(parts.qkv),
                qkv: self.projections(config, index, parts.qkv, [queries, keys, keys])?,
                output: self.projection(name(parts.attention_output), parts.attention_output)?,
                heads: config.num_attention_heads,
                kv_heads: config.num_key_value_heads,
                head_dim: config.head_dim,
                is_causal: true,
                implementation: self.attention(),
                weight_dropout: self.dropout("", 0.0),
                output_dropout: self.dropout("", 0.0),
            },
            post_attention_layernorm: self.rms_norm(config, name(parts.post_norm), parts.post_norm)?,
            mlp: FeedForward {
                modules: [MLP; 2],
                names: names(parts.gate_up),
                inner: self.projections(config, index, parts.gate_up, [config.intermediate_size; 2])?,
                output: self.projection(name(parts.mlp_output), parts.mlp_output)?,
                output_dropout: self.dropout("", 0.0),
                activation: PhantomData,
            },
        })
    }

    fn projections<const N: usize>(
        &mut self,
        config: &ModelConfig,
        index: usize,
        modules: &[Module],
        widths: [usize; N],
    ) -> Result<Projection<N>, LoadError> {
        let mut linears = Vec::with_capacity(modules.len());
        for module in modules {
            linears.push(self.linear(config.in_block(index, module), module)?);
        }
        Ok(Projection::new(linears, widths))
    }

    fn rms_norm(&mut self, config: &ModelConfig, name: ModuleName, module: &Module) -> Result<RmsNorm, LoadError> {
        Ok(RmsNorm {
            weight: self.dense(name, module, "weight")?,
            eps: config.norm_eps,
            output: self.products(),
        })
    }
}

/// The names of the layers that give each output: of one layer for all, or of one layer each.
fn names<const N: usize>(modules: &[Module]) -> [&'static str; N] {
    std::array::from_fn(|at| modules[at.min(modules.len() - 1)].name())
}
