//! Builds a decoder, layer by layer.

use arch::{ModelConfig, Module, ModuleName};
use kernels::{attention::Scores, softcap::SoftCap};
use nn::{
    activation::{Activation, GeGlu, SwiGlu},
    attention::{Attention, Visibility},
    decoder_block::{DecoderBlock, MLP, OutputNorm},
    embedding::Embedding,
    feed_forward::FeedForward,
    linear::Projection,
    loss::CausalLoss,
    norm::RmsNorm,
    prefix::Prefix,
    prompt::Prompt,
    rope::Rope,
    virtual_tokens::VirtualTokens,
};
use options::AdapterMethod;

use super::model::{Decoder, Ropes, Tables};
use crate::{Model, error::LoadError, host_blocks::HostBlocks, loader::Loader};

/// The modules of a block by their part in it, from its family's description: a norm, attention, the norm of its output
/// if there is one, and the same with the feed-forward layer. Projections with one input are one module or several.
struct Parts {
    input_norm: &'static Module,
    qkv: &'static [Module],
    /// Norms of queries and keys.
    head_norms: Option<[&'static Module; 2]>,
    attention_output: &'static Module,
    mlp_input_norm: &'static Module,
    gate_up: &'static [Module],
    mlp_output: &'static Module,
    /// Norms of attention's output and of the feed-forward layer's.
    output_norms: Option<[&'static Module; 2]>,
}

impl Parts {
    fn of(config: &ModelConfig) -> Result<Self, LoadError> {
        let part = |module: &Module| module.path.split_once('.').map_or(module.path, |(part, _)| part);
        let block = config.family.description().block;
        let parts: Vec<&'static [Module]> = block.chunk_by(|a, b| part(a) == part(b)).collect();
        let (input_norm, attention, mlp_input_norm, mlp, output_norms) = match *parts {
            [[a], attention, [b], mlp] => (a, attention, b, mlp, None),
            [[a], attention, [c], [b], mlp, [d]] => (a, attention, b, mlp, Some([c, d])),
            _ => return Err(LoadError::Family(config.family.name())),
        };
        let ([inputs @ .., attention_output], [gate_up @ .., mlp_output]) = (attention, mlp) else {
            return Err(LoadError::Family(config.family.name()));
        };
        let (qkv, head_norms) = match inputs {
            [qkv @ .., q_norm, k_norm] if q_norm.kind.is_norm() => (qkv, Some([q_norm, k_norm])),
            qkv => (qkv, None),
        };
        Ok(Self {
            input_norm,
            qkv,
            head_norms,
            attention_output,
            mlp_input_norm,
            gate_up,
            mlp_output,
            output_norms,
        })
    }
}

impl Loader<'_> {
    pub(crate) fn decoder(&mut self, config: &ModelConfig) -> Result<Model, LoadError> {
        let description = config.family.description();
        let (embedding, [norm, head]) = (&description.embeddings[0], description.head) else {
            return Err(LoadError::Family(config.family.name()));
        };
        let parts = Parts::of(config)?;
        let table = self.table(self.outside(embedding), embedding)?;
        let embed_tokens = Embedding {
            scale: config.embedding_scale(),
            padding: config.padding_row,
        };
        let virtual_tokens = self.virtual_tokens(config)?;
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
        let tables = match self.has_own_head() {
            true => {
                let weight = self.table(self.outside(head), head)?;
                Tables {
                    table: Some(table),
                    head: self.head(head, weight)?,
                }
            }
            false => Tables {
                table: None,
                head: self.head(head, table)?,
            },
        };
        let rope = {
            let _module = memory::module("model.rotary_emb");
            let new = |rope| Rope::new(rope, config.head_dim, self.positions(), self.device());
            Ropes {
                global: new(&config.rope)?,
                local: config.local_rope.as_ref().map(new).transpose()?,
            }
        };
        Ok(Model::Decoder(Box::new(Decoder {
            description,
            embed_tokens,
            virtual_tokens,
            blocks,
            host_blocks,
            norm,
            tables,
            rope,
            shared: self.shared_factors(),
            loss: CausalLoss {
                way: self.loss(),
                cap: config.logit_softcap.map(|cap| SoftCap(cap as f32)),
            },
            hidden: self.hidden(),
            device: self.device().clone(),
        })))
    }

    /// The virtual tokens that are trained, if some are.
    fn virtual_tokens(&self, config: &ModelConfig) -> Result<Option<VirtualTokens>, LoadError> {
        let Some(adapter) = self.adapter().filter(|adapter| adapter.virtual_tokens() > 0) else {
            return Ok(None);
        };
        let (dtype, seed, device) = (adapter.dtype, self.seed(), self.device());
        let _module = memory::module(options::methods::PROMPT_ENCODER);
        Ok(match &adapter.method {
            AdapterMethod::PromptTuning(options) => {
                let shape = (options.num_virtual_tokens, config.hidden_size);
                Some(VirtualTokens::Prompt(Prompt::new(shape, dtype, seed, device)?))
            }
            AdapterMethod::PrefixTuning(options) => {
                let width = config.num_key_value_heads * config.head_dim;
                let shape = (options.num_virtual_tokens, config.num_hidden_layers, width);
                Some(VirtualTokens::Prefix(Prefix::new(shape, dtype, seed, device)?))
            }
            _ => None,
        })
    }

    fn decoder_block(&mut self, config: &ModelConfig, parts: &Parts, index: usize) -> Result<DecoderBlock, LoadError> {
        memory::timeline::write_out();
        let name = |module: &Module| config.in_block(index, module);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let [attention_norm, mlp_norm] = match parts.output_norms {
            Some(norms) => norms.map(Some),
            None => [None; 2],
        };
        Ok(DecoderBlock {
            input_norm: self.rms_norm(config, name(parts.input_norm), parts.input_norm)?,
            self_attn: Attention {
                names: names(parts.qkv),
                qkv: self.projections(config, index, parts.qkv, [queries, keys, keys])?,
                norms: match parts.head_norms {
                    Some([q, k]) => Some([self.rms_norm(config, name(q), q)?, self.rms_norm(config, name(k), k)?]),
                    None => None,
                },
                output: self.projection(name(parts.attention_output), parts.attention_output)?,
                heads: config.num_attention_heads,
                kv_heads: config.num_key_value_heads,
                head_dim: config.head_dim,
                scores: Scores {
                    scale: config.attention_scale() as f32,
                    cap: config.attention_softcap.map(|cap| SoftCap(cap as f32)),
                },
                visibility: config.window(index).map_or(Visibility::Causal, Visibility::Window),
                implementation: self.attention(),
                weight_dropout: self.dropout("", 0.0),
                output_dropout: self.dropout("", 0.0),
            },
            attention_norm: self.output_norm(config, index, attention_norm)?,
            mlp_input_norm_name: parts.mlp_input_norm.path,
            mlp_input_norm: self.rms_norm(config, name(parts.mlp_input_norm), parts.mlp_input_norm)?,
            mlp: FeedForward {
                modules: [MLP; 2],
                names: names(parts.gate_up),
                inner: self.projections(config, index, parts.gate_up, [config.intermediate_size; 2])?,
                output: self.projection(name(parts.mlp_output), parts.mlp_output)?,
                output_dropout: self.dropout("", 0.0),
                activation: activation(&config.activation)?,
            },
            mlp_norm: self.output_norm(config, index, mlp_norm)?,
        })
    }

    fn output_norm(
        &mut self,
        config: &ModelConfig,
        index: usize,
        module: Option<&'static Module>,
    ) -> Result<Option<OutputNorm>, LoadError> {
        let Some(module) = module else { return Ok(None) };
        let norm = self.rms_norm(config, config.in_block(index, module), module)?;
        Ok(Some(OutputNorm {
            name: module.path,
            norm,
        }))
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
            offset: module.kind.norm_offset(),
            eps: config.norm_eps,
            output: self.products(),
        })
    }
}

/// The activation of gate and up, by transformers' name.
fn activation(name: &str) -> Result<&'static dyn Activation<2>, LoadError> {
    match name {
        "silu" => Ok(&SwiGlu),
        "gelu_pytorch_tanh" => Ok(&GeGlu),
        other => Err(LoadError::Activation(other.into())),
    }
}

/// The names of the layers that give each output: of one layer for all, or of one layer each.
fn names<const N: usize>(modules: &[Module]) -> [&'static str; N] {
    std::array::from_fn(|at| modules[at.min(modules.len() - 1)].name())
}
