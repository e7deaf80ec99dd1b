//! Builds a decoder, layer by layer.

use super::Llama;
use crate::{
    arch::ModelConfig,
    memory,
    model::{error::LoadError, loader::Loader},
    nn::{attention::Attention, block::Block, mlp::Mlp, norm::RmsNorm, rope::Rope},
};

impl Loader<'_> {
    pub(crate) fn llama(&mut self, config: &ModelConfig) -> Result<Llama, LoadError> {
        let embed_tokens = self.dense("model.embed_tokens.weight")?;
        let blocks = (0..config.num_hidden_layers)
            .map(|index| self.block(config, index))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = self.norm(config, "model.norm.weight")?;
        let lm_head = if config.tie_word_embeddings {
            None
        } else {
            Some(self.dense("lm_head.weight")?)
        };
        let rope = {
            let _module = memory::module("model.rotary_emb");
            Rope::new(&config.rope, config.head_dim, self.positions(), self.device())?
        };
        Ok(Llama {
            embed_tokens,
            blocks,
            norm,
            lm_head,
            rope,
            hidden: self.hidden(),
            device: self.device().clone(),
        })
    }

    fn block(&mut self, config: &ModelConfig, index: usize) -> Result<Block, LoadError> {
        memory::timeline::write_out();
        let prefix = format!("model.layers.{index}");
        Ok(Block {
            input_layernorm: self.norm(config, &format!("{prefix}.input_layernorm.weight"))?,
            self_attn: Attention {
                q_proj: self.linear(&format!("{prefix}.self_attn.q_proj"))?,
                k_proj: self.linear(&format!("{prefix}.self_attn.k_proj"))?,
                v_proj: self.linear(&format!("{prefix}.self_attn.v_proj"))?,
                o_proj: self.linear(&format!("{prefix}.self_attn.o_proj"))?,
                heads: config.num_attention_heads,
                kv_heads: config.num_key_value_heads,
                head_dim: config.head_dim,
            },
            post_attention_layernorm: self.norm(config, &format!("{prefix}.post_attention_layernorm.weight"))?,
            mlp: Mlp {
                gate_proj: self.linear(&format!("{prefix}.mlp.gate_proj"))?,
                up_proj: self.linear(&format!("{prefix}.mlp.up_proj"))?,
                down_proj: self.linear(&format!("{prefix}.mlp.down_proj"))?,
            },
        })
    }

    fn norm(&mut self, config: &ModelConfig, name: &str) -> Result<RmsNorm, LoadError> {
        Ok(RmsNorm {
            weight: self.dense(name)?,
            eps: config.norm_eps,
        })
    }
}
