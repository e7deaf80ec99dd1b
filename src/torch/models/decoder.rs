//! Decoders with a language modelling head: Llama, Mistral, Qwen2, Qwen3 and Phi-3.

use super::attention::{Cache, SelfAttention};
use super::attention_options::AttentionOptions;
use super::loader::Loader;
use super::mask::Shape;
use super::mlp::Mlp;
use crate::arch::{Family, ModelConfig};
use crate::memory::{Category, Module};
use crate::options::{Attention, Loss};
use crate::torch::configuration::{Configuration, MicroBatchShape};
use crate::torch::dtype::Dtype;
use crate::torch::frames::Frame;
use crate::torch::layout::Layout;
use crate::torch::ops::rotary;
use crate::torch::peft::{Base, Linear};
use crate::torch::tape::Tensor;
use crate::torch::tape::{Mode, Tape};
use crate::torch::versions::RotaryTables;

/// Tokens of a chunk of TRL's loss: `_CHUNKED_LM_HEAD_CHUNK_SIZE` in `trl/trainer/sft_trainer.py`.
const CHUNK: u32 = 256;

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
    /// None if they are never there at once.
    pub(crate) logits: Option<Tensor<'t>>,
    pub(crate) cache: Cache<'t>,
}

impl<'t> Decoder<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig, attention: AttentionOptions) -> Self {
        let tape = loader.tape;
        let embedding = loader.weight("model.embed_tokens");
        let blocks = (0..config.num_hidden_layers).map(|index| {
            loader.enter(Some(index));
            Block {
                attention: SelfAttention::load(loader, config),
                mlp: Mlp::load(loader),
                input_norm: loader.weight("input_layernorm"),
                post_attention_norm: loader.weight("post_attention_layernorm"),
            }
        });
        let mut blocks: Vec<_> = blocks.collect();
        loader.enter(None);
        let norm = loader.weight("model.norm");
        let mut head = if config.tie_word_embeddings {
            Linear {
                path: "lm_head",
                base: Base::Dense(embedding.clone()),
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
        loader.end_base_model();
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

    /// Runs a checkpointed block again, or a chunk of the loss, which has the number behind the last block.
    pub(crate) fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<Tensor<'t>> {
        if frame.block == self.blocks.len() {
            let [hidden, targets, ..] = frame.inputs.map(|view| view.map(|view| tape.tensor(view).clone_kept()));
            return hidden?.chunk_loss(self.head_weight()?, &targets?).into();
        }
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
                let by_cublas = transformers.multiplies_angles;
                rotary::angles(tape, micro.len, self.rotary_dim, embedded.dtype(), by_cublas)
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
        if configuration.loss == Loss::Chunked {
            part("loss");
            return Output {
                loss: self.chunked_loss(&normed, ids),
                logits: None,
                cache: cache.unwrap_or_default(),
            };
        }
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
            logits: Some(logits),
            cache: cache.unwrap_or_default(),
        }
    }

    /// The head's weight, which is never quantised.
    fn head_weight(&self) -> Option<&Tensor<'t>> {
        match &self.head.base {
            Base::Dense(weight) => Some(weight),
            Base::FourBit(_) | Base::EightBit(_) => None,
        }
    }

    /// TRL's `_chunked_cross_entropy_loss` (`trl/trainer/sft_trainer.py` of 1.9), where every token has a label: each chunk is
    /// checkpointed.
    fn chunked_loss(&self, normed: &Tensor<'t>, ids: &Tensor<'t>) -> Tensor<'t> {
        let tape = normed.tape;
        let others = ids.dim_from_last(0) - 1;
        let shifted = normed.first_positions(others).contiguous();
        let shifted = shifted.reshape(&shifted.rows_and_width());
        let [rows, _] = shifted.rows_and_width();
        let labels = ids.slice_last(others).contiguous();
        // Tokens with a label come first, which here changes nothing.
        let valid = tape.empty(&[rows], Dtype::Bool);
        let order = tape.empty(&[rows], Dtype::Int64);
        let hidden = shifted.ordered(&order);
        drop(shifted);
        let targets = labels.reshape(&[rows]).ordered(&order);
        drop(labels);
        let mut loss = tape.empty(&[], Dtype::Float32);
        for start in (0..rows).step_by(CHUNK as usize) {
            let tokens = CHUNK.min(rows - start);
            let (chunk, targets) = (hidden.first_rows(tokens), targets.first_rows(tokens));
            let inputs = [Some(&chunk), Some(&targets), None, None, None];
            let of_chunk = tape.checkpoint(false, self.blocks.len(), inputs, || match self.head_weight() {
                Some(weight) => chunk.chunk_loss(weight, &targets),
                None => chunk.clone(),
            });
            loss = loss.add(&of_chunk);
        }
        drop((valid, order));
        loss.scale()
    }
}
