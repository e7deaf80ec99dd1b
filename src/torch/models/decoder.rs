//! Decoders with a language modelling head: Llama, Mistral, Qwen2, Qwen3 and Phi-3.

use super::attention::{Cache, SelfAttention};
use super::attention_options::AttentionOptions;
use super::loader::Loader;
use super::mask::Shape;
use super::mlp::Mlp;
use crate::arch::{Family, ModelConfig};
use crate::memory::{Category, Module};
use crate::options::Attention;
use crate::torch::configuration::{Configuration, MicroBatchShape};
use crate::torch::dtype::Dtype;
use crate::torch::frames::Frame;
use crate::torch::layout::Layout;
use crate::torch::ops::rotary;
use crate::torch::peft::Linear;
use crate::torch::tape::Tensor;
use crate::torch::tape::{Mode, Tape};
use crate::torch::versions::RotaryTables;

struct Block<'t> {
    attention: SelfAttention<'t>,
    mlp: Mlp<'t>,
    input_norm: Tensor<'t>,
    post_attention_norm: Tensor<'t>,
}

/// A causal language model.
pub(crate) struct Decoder<'t> {
    embedding: Tensor<'t>,
    blocks: Vec<Block<'t>>,
    norm: Tensor<'t>,
    head: Linear<'t>,
    rotary_dim: u32,
    /// The frequencies, and the original ones that some ways of scaling go back to.
    _frequencies: [Tensor<'t>; 2],
    attention: AttentionOptions,
    window: Option<u32>,
    first_windowed: usize,
    /// A mask is made for layers without a window, whether there are any or not.
    both_masks: bool,
}

/// The outputs of a forward pass: transformers' `CausalLMOutputWithPast`.
pub(crate) struct Output<'t> {
    pub(crate) loss: Tensor<'t>,
    pub(crate) logits: Tensor<'t>,
    pub(crate) cache: Cache<'t>,
}

impl<'t> Decoder<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig, attention: AttentionOptions) -> Self {
        let tape = loader.tape;
        let embedding = loader.weight("model.embed_tokens");
        let blocks = (0..config.num_hidden_layers).map(|_| Block {
            attention: SelfAttention::load(loader, config),
            mlp: Mlp::load(loader),
            input_norm: loader.weight("input_layernorm"),
            post_attention_norm: loader.weight("post_attention_layernorm"),
        });
        let mut blocks: Vec<_> = blocks.collect();
        let norm = loader.weight("model.norm");
        let mut head = if config.tie_word_embeddings {
            Linear {
                path: "lm_head",
                base: crate::torch::peft::Base::Dense(embedding.clone()),
                bias: None,
                adapter: None,
                dims: loader.matrix("lm_head"),
            }
        } else {
            loader.head("lm_head")
        };
        let rotary_dim = config.rotary_dim() as u32;
        let frequencies = [0, 1].map(|_| {
            let layout = Layout::contiguous(&[rotary_dim / 2]);
            tape.empty_as(layout, Dtype::Float32, Category::Parameter)
        });
        for (index, block) in blocks.iter_mut().enumerate() {
            for linear in block.attention.linears().chain(block.mlp.linears()) {
                loader.adapt(linear, Some(index));
            }
        }
        loader.adapt(&mut head, None);
        Self {
            embedding,
            blocks,
            norm,
            head,
            rotary_dim,
            _frequencies: frequencies,
            attention,
            window: config.sliding_window.map(|window| window.tokens as u32),
            first_windowed: config.sliding_window.map_or(0, |window| window.first_layer),
            both_masks: matches!(config.family, Family::Qwen2 | Family::Qwen3),
        }
    }

    fn block(
        &self,
        index: usize,
        hidden: &Tensor<'t>,
        mask: Option<&Tensor<'t>>,
        angles: Option<[&Tensor<'t>; 2]>,
        cache: Option<&mut Cache<'t>>,
    ) -> Tensor<'t> {
        let block = &self.blocks[index];
        let tape = hidden.tape;
        let enter = |name| {
            let layer = Some(index as u16);
            tape.enter(Module { name, layer });
        };
        enter("input_layernorm");
        let normed = hidden.rms_norm(&block.input_norm);
        enter("self_attn");
        let (attended, _weights) = block.attention.forward(&normed, mask, angles, cache, self.attention);
        drop(normed);
        let residual = hidden.add(&attended);
        drop(attended);
        enter("post_attention_layernorm");
        let normed = residual.rms_norm(&block.post_attention_norm);
        enter("mlp");
        let inner = block.mlp.forward(&normed);
        drop(normed);
        let output = residual.add(&inner);
        drop(inner);
        output
    }

    /// Runs a checkpointed block again.
    pub(crate) fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<Tensor<'t>> {
        let [hidden, mask, cos, sin, _] = frame.inputs.map(|view| view.map(|view| tape.tensor(view).clone_kept()));
        let angles = cos.as_ref().zip(sin.as_ref()).map(<[_; 2]>::from);
        Some(self.block(frame.block, &hidden?, mask.as_ref(), angles, None))
    }

    /// The whole model and its loss.
    pub(crate) fn forward(
        &self,
        tape: &'t Tape,
        configuration: &Configuration,
        micro: &MicroBatchShape,
        ids: &Tensor<'t>,
    ) -> Output<'t> {
        let part = |name| tape.enter(Module { name, layer: None });
        part("embed_tokens");
        let mut embedded = self.embedding.embedding(ids);
        if configuration.inputs_require_grad() && !embedded.requires_grad() {
            embedded = tape.require_grad(embedded);
        }
        part("model");
        let transformers = configuration.transformers;
        let mut cache = configuration.use_cache.then(Cache::new);
        let positions = tape.positions(micro.len);
        let mask = |window| {
            let shape = Shape {
                batch: micro.batch,
                len: micro.len,
                padded: micro.padded,
                searched: !configuration.use_cache && !transformers.masks_are_numbers,
                window,
            };
            match configuration.attn_implementation {
                Attention::Eager => tape.number_mask(&shape, true, embedded.dtype()),
                Attention::Sdpa if transformers.masks_are_numbers => tape.number_mask(&shape, false, embedded.dtype()),
                Attention::Sdpa => tape.causal_mask(&shape, false),
                Attention::FlashAttention2 => None,
            }
        };
        let full = (self.both_masks || self.window.is_none()).then(|| mask(None)).flatten();
        let windowed = self.window.and_then(|window| mask(Some(window)));
        let mut hidden = embedded.clone();
        let angles = (transformers.angles == RotaryTables::Shared).then(|| {
            tape.within(Mode::NoGrad, || {
                rotary::angles(tape, micro.len, self.rotary_dim, embedded.dtype())
            })
        });
        let shared = angles.as_ref().map(|[cos, sin]| [cos, sin]);
        for index in 0..self.blocks.len() {
            let has_window = self.window.is_some() && index >= self.first_windowed;
            let mask = if has_window { &windowed } else { &full }.as_ref();
            let run = |cache: Option<&mut Cache<'t>>| self.block(index, &hidden, mask, shared, cache);
            hidden = if configuration.gradient_checkpointing.recomputes(index) {
                let [cos, sin] = [0, 1].map(|which| shared.map(|angles| angles[which]));
                let inputs = [Some(&hidden), mask, cos, sin, Some(&positions)];
                tape.checkpoint(transformers.use_reentrant, index, inputs, || run(None))
            } else {
                run(cache.as_mut())
            };
        }
        part("norm");
        let normed = hidden.rms_norm(&self.norm);
        drop((hidden, embedded, positions, full, windowed, angles));
        part("lm_head");
        let mut logits = self.head.forward(&normed);
        part("loss");
        if transformers.returns_float32_logits {
            logits = logits.to(Dtype::Float32);
        }
        let loss = match transformers.shifts_logits {
            true => logits.shifted_causal_loss(ids),
            false => logits.causal_loss(ids),
        };
        drop(normed);
        Output {
            loss,
            logits,
            cache: cache.unwrap_or_default(),
        }
    }
}
