//! Decoders with a language modelling head.

mod generation;
mod partial_loss;

use arch::{ModelConfig, SlidingWindow};
use options::Attention;
use trace::{Category, Module};

use super::attention::SelfAttention;
use super::attention_options::AttentionOptions;
use super::cache::{Cache, Cached};
use super::loader::Loader;
use super::mask::Shape;
use super::mlp::Mlp;
use super::norm::Norm;
use crate::configuration::{Configuration, MicroBatchShape};
use crate::dtype::Dtype;
use crate::frames::Frame;
use crate::layout::Layout;
use crate::ops::rotary;
use crate::peft::{Base, BaseLayer, Linear, Prefix, Prompt, VirtualTokens};
use crate::tape::Tensor;
use crate::tape::{Mode, Tape};
use crate::versions::{RotaryTables, WindowMasks};

const EMBEDDING: &str = "model.embed_tokens";
/// Gemma's norms before and behind the feed-forward layer.
const FEED_FORWARD_NORMS: [&str; 2] = ["pre_feedforward_layernorm", "post_feedforward_layernorm"];

struct Block<'t> {
    attention: SelfAttention<'t>,
    mlp: Mlp<'t>,
    input_norm: Norm<'t>,
    /// Behind attention: of the residual stream, or of attention's output in Gemma.
    post_attention_norm: Norm<'t>,
    /// Gemma's norms before and behind the feed-forward layer.
    feed_forward_norms: Option<[Norm<'t>; 2]>,
}

impl<'t> Block<'t> {
    fn norms(&mut self) -> impl Iterator<Item = &mut Norm<'t>> {
        let norms = [&mut self.input_norm, &mut self.post_attention_norm];
        let own = norms.into_iter().chain(self.feed_forward_norms.iter_mut().flatten());
        self.attention.norms().chain(own)
    }
}

/// A causal language model.
pub(crate) struct Decoder<'t> {
    /// Frozen weights of which copies are trained, and copies of buffers beside those.
    _originals: Vec<Tensor<'t>>,
    /// What an adapter puts before the tokens.
    virtual_tokens: Option<VirtualTokens<'t>>,
    embedding: Tensor<'t>,
    /// The factor of the embedded tokens, if the family has one.
    embedding_scale: Option<Tensor<'t>>,
    /// The model multiplies by it, and holds on to what it multiplies.
    scales_in_model: bool,
    blocks: Vec<Block<'t>>,
    norm: Norm<'t>,
    head: Linear<'t>,
    has_softcap: bool,
    /// A cache that the model was given is among its outputs, whether caching is on or not.
    returns_cache: bool,
    rotary_dim: u32,
    /// Of each rotary embedding the frequencies, and the original ones that some ways of scaling go back to.
    _frequencies: Vec<[Tensor<'t>; 2]>,
    /// Blocks with a window and those without have rotary embeddings of their own.
    has_local_angles: bool,
    attention: AttentionOptions,
    window: Option<SlidingWindow>,
    window_masks: WindowMasks,
    /// A mask is made for layers without a window, whether there are any or not.
    both_masks: bool,
}

/// The outputs of a forward pass: transformers' `CausalLMOutputWithPast`.
pub(crate) struct Output<'t> {
    pub loss: Tensor<'t>,
    /// None if they are never there at once.
    pub logits: Option<Tensor<'t>>,
    pub cache: Cache<'t>,
}

/// The tokens of a forward pass.
struct Tokens<'r, 't> {
    micro: &'r MicroBatchShape,
    /// Tokens whose keys and values are cached already.
    past: u32,
    /// The positions (batch, length), if they are given.
    positions: Option<Tensor<'t>>,
}

/// What TRL's collator gives a padding-free batch besides the ids (`DataCollatorForLanguageModeling` in
/// `trl/trainer/sft_trainer.py` of TRL 1.16).
struct Apart<'t> {
    positions: Tensor<'t>,
    /// Where each sample begins, and the end; the same once more for the keys.
    starts: Tensor<'t>,
    _of_keys: Tensor<'t>,
    /// The labels, which ignore the first token of each sample, and the number of each token's sample.
    _others: [Tensor<'t>; 2],
}

impl<'t> Apart<'t> {
    fn new(tape: &'t Tape, micro: &MicroBatchShape) -> Self {
        let input = |dims: &[u32], dtype| tape.empty_as(Layout::contiguous(dims), dtype, Category::Input);
        let (row, starts) = ([1, micro.len], [micro.apart + 1]);
        let labels = input(&row, Dtype::Int64);
        Self {
            positions: input(&row, Dtype::Int64),
            starts: input(&starts, Dtype::Int32),
            _of_keys: input(&starts, Dtype::Int32),
            _others: [labels, input(&row, Dtype::Int32)],
        }
    }
}

impl<'t> Decoder<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig, attention: AttentionOptions) -> Self {
        let (tape, family) = (loader.tape, config.family.description());
        let transformers = loader.configuration.transformers;
        let mut embedding = loader.weight(EMBEDDING);
        let blocks = (0..config.num_hidden_layers).map(|index| {
            loader.enter(Some(index));
            Block {
                attention: SelfAttention::load(loader, config),
                mlp: Mlp::load(loader),
                input_norm: Norm::load(loader, "input_layernorm"),
                post_attention_norm: Norm::load(loader, "post_attention_layernorm"),
                feed_forward_norms: loader.has(FEED_FORWARD_NORMS[0]).then(|| {
                    let norms = FEED_FORWARD_NORMS;
                    norms.map(|path| Norm::load(loader, path))
                }),
            }
        });
        let mut blocks: Vec<_> = blocks.collect();
        loader.enter(None);
        let mut norm = Norm::load(loader, "model.norm");
        let mut head = if config.tie_word_embeddings {
            Linear {
                path: "lm_head",
                base: BaseLayer {
                    weight: Base::Dense(embedding.clone()),
                    bias: None,
                    dims: loader.matrix("lm_head"),
                },
                adapter: None,
            }
        } else {
            loader.head("lm_head")
        };
        let rotary_dim = config.rotary_dim() as u32;
        let frequencies = || {
            [0, 1].map(|_| {
                let layout = Layout::contiguous(&[rotary_dim / 2]);
                tape.empty_as(layout, Dtype::Float32, Category::Parameter)
            })
        };
        let windowed = (0..config.num_hidden_layers).filter(|&layer| config.window(layer).is_some());
        let windowed = windowed.count();
        let has_both = windowed > 0 && windowed < config.num_hidden_layers;
        let has_local_angles = config.local_rope.is_some() && has_both;
        let scale = config.embedding_scale().map(|_| {
            let dtype = loader.configuration.unquantised();
            tape.empty_as(Layout::contiguous(&[]), dtype, Category::Parameter)
        });
        let mut window = config.sliding_window.clone();
        let exchanged = window.iter_mut().filter(|_| transformers.exchanges_windows);
        exchanged
            .flat_map(|window| &mut window.layers)
            .for_each(|has| *has = !*has);
        loader.end_base_model();
        loader.save_whole(&mut embedding, EMBEDDING, None);
        if let Some(buffer) = &scale {
            loader.save_buffer(buffer, EMBEDDING, None);
        }
        for (index, block) in blocks.iter_mut().enumerate() {
            for linear in block.attention.linears().chain(block.mlp.linears()) {
                loader.adapt(linear, Some(index));
            }
            for table in block.attention.tables() {
                loader.save_buffer(table, "self_attn", Some(index));
            }
            for norm in block.norms() {
                loader.train_norm(norm, Some(index));
            }
        }
        loader.train_norm(&mut norm, None);
        loader.adapt(&mut head, None);
        tape.cast_adapters();
        Self {
            _originals: std::mem::take(&mut loader.originals),
            virtual_tokens: loader.virtual_tokens(),
            embedding,
            embedding_scale: scale,
            scales_in_model: transformers.scales_in_model,
            blocks,
            norm,
            head,
            has_softcap: config.logit_softcap.is_some(),
            returns_cache: family.returns_cache,
            rotary_dim,
            _frequencies: (0..=usize::from(has_local_angles)).map(|_| frequencies()).collect(),
            has_local_angles,
            attention,
            window,
            window_masks: transformers.window_masks,
            both_masks: family.both_masks,
        }
    }

    fn block(
        &self,
        index: usize,
        hidden: &Tensor<'t>,
        mask: Option<&Tensor<'t>>,
        angles: Option<[&Tensor<'t>; 2]>,
        cached: Option<&mut Cached<'t>>,
    ) -> Tensor<'t> {
        let block = &self.blocks[index];
        let tape = hidden.tape;
        let enter = |name| {
            let layer = Some(index as u16);
            tape.enter(Module { name, layer });
        };
        let window = self.window_of(index);
        let has_own = window.is_some()
            && self.window_masks != WindowMasks::Shared
            && self.attention.implementation != Attention::FlashAttention2;
        let own = mask
            .filter(|_| has_own)
            .map(|mask| tape.own_window(mask, self.window_masks == WindowMasks::Copied));
        let mask = own.as_ref().map(|[_, mask]| mask).or(mask);
        enter("input_layernorm");
        let normed = block.input_norm.forward(hidden);
        enter("self_attn");
        let (attended, _weights) = tape.in_container(None, normed.requires_grad(), || {
            block
                .attention
                .forward(&normed, mask, angles, cached, window, self.attention)
        });
        drop(normed);
        let Some([before, behind]) = &block.feed_forward_norms else {
            let residual = hidden.add(&attended);
            let _held = self.attention.is_held.then_some(attended);
            enter("post_attention_layernorm");
            let normed = block.post_attention_norm.forward(&residual);
            enter("mlp");
            let inner = tape.in_container(None, normed.requires_grad(), || block.mlp.forward(&normed));
            drop(normed);
            let output = residual.add(&inner);
            drop(inner);
            return output;
        };
        enter("post_attention_layernorm");
        let normed = block.post_attention_norm.forward(&attended);
        drop(attended);
        let residual = hidden.add(&normed);
        drop(normed);
        enter(FEED_FORWARD_NORMS[0]);
        let normed = before.forward(&residual);
        enter("mlp");
        let inner = tape.in_container(None, normed.requires_grad(), || block.mlp.forward(&normed));
        drop(normed);
        enter(FEED_FORWARD_NORMS[1]);
        let normed = behind.forward(&inner);
        drop(inner);
        let output = residual.add(&normed);
        drop(normed);
        output
    }

    /// Runs a checkpointed block again, or a chunk of the loss, which has the number behind the last block.
    pub(crate) fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<Tensor<'t>> {
        if frame.block == self.blocks.len() {
            let [hidden, targets, ..] = frame.inputs.map(|view| view.map(|view| tape.tensor(view).clone_kept()));
            return hidden?.chunk_loss(self.head_weight()?, &targets?).into();
        }
        let [hidden, mask, cos, sin, ..] = frame.inputs.map(|view| view.map(|view| tape.tensor(view).clone_kept()));
        let angles = cos.as_ref().zip(sin.as_ref()).map(<[_; 2]>::from);
        let (block, hidden) = (frame.block, hidden?);
        Some(tape.in_checkpoint(block, &hidden, || {
            self.block(block, &hidden, mask.as_ref(), angles, None)
        }))
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
        let prefixed = self.prefix().map(|prefix| {
            part("prompt_encoder");
            prefix.cache(micro.batch, self.embedding.dtype())
        });
        let transformers = configuration.transformers;
        let caches = configuration.use_cache && transformers.caches_in_training;
        let empty = || caches.then(|| vec![None; self.blocks.len()]);
        let mut cache = prefixed.or_else(empty);
        let is_output = configuration.use_cache || self.returns_cache;
        let output_cache = |cache: Option<Cache<'t>>| cache.filter(|_| is_output).unwrap_or_default();
        let (normed, prompted) = tape.in_container(None, false, || {
            let mut embedded = tape.in_embedding(|| self.embed(ids));
            if configuration.enable_input_require_grads && !embedded.requires_grad() {
                embedded = tape.require_grad(embedded);
            }
            let (embedded, prompted) = match self.prompt() {
                Some(prompt) => {
                    part("prompt_encoder");
                    let prompted = prompt.before(embedded, ids);
                    (prompted.embedded.clone(), Some(prompted))
                }
                None => (embedded, None),
            };
            let tokens = Tokens {
                micro,
                past: self.prefix().map_or(0, Prefix::tokens),
                positions: None,
            };
            (
                self.hidden_states(configuration, embedded, tokens, cache.as_mut()),
                prompted,
            )
        });
        let labels = prompted.as_ref().map_or(ids, |prompted| &prompted.labels);
        if configuration.loss.is_partial() {
            part("loss");
            return Output {
                loss: self.partial_loss(configuration.loss, &normed, labels),
                logits: None,
                cache: output_cache(cache),
            };
        }
        let mut logits = tape.in_tail(normed.requires_grad(), || self.logits(&normed));
        part("loss");
        if transformers.returns_float32_logits {
            logits = logits.to(Dtype::Float32);
        }
        let loss = match transformers.shifts_logits {
            true => logits.shifted_causal_loss(labels, transformers.upcasts_logits),
            false => logits.causal_loss(labels),
        };
        drop(normed);
        Output {
            loss,
            logits: Some(logits),
            cache: output_cache(cache),
        }
    }

    /// The tokens that a token of block `index` sees, if it does not see all.
    fn window_of(&self, index: usize) -> Option<u32> {
        let window = self.window.as_ref().filter(|window| window.is_in(index))?;
        Some(window.tokens as u32)
    }

    /// The prefix that an adapter puts into the cache.
    fn prefix(&self) -> Option<&Prefix<'t>> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prefix(prefix)) => Some(prefix),
            Some(VirtualTokens::Prompt(_)) | None => None,
        }
    }

    /// The prompt that an adapter puts before the tokens.
    fn prompt(&self) -> Option<&Prompt<'t>> {
        match &self.virtual_tokens {
            Some(VirtualTokens::Prompt(prompt)) => Some(prompt),
            Some(VirtualTokens::Prefix(_)) | None => None,
        }
    }

    /// The tokens' embeddings.
    fn embed(&self, ids: &Tensor<'t>) -> Tensor<'t> {
        ids.tape.enter(Module {
            name: "embed_tokens",
            layer: None,
        });
        let parameters = [Some(&self.embedding), None];
        let embedded = ids.tape.in_module(parameters, false, || self.embedding.embedding(ids));
        match self.scales_in_model {
            true => embedded,
            false => self.scaled(embedded),
        }
    }

    /// The embedded tokens times the family's factor, if it has one.
    fn scaled(&self, embedded: Tensor<'t>) -> Tensor<'t> {
        match &self.embedding_scale {
            Some(scale) => embedded.mul(&scale.to(self.embedding.dtype())),
            None => embedded,
        }
    }

    /// The logits of hidden states.
    fn logits(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        hidden.tape.enter(Module {
            name: "lm_head",
            layer: None,
        });
        let logits = self.head.forward(hidden);
        match self.has_softcap {
            true => logits.soft_capped(),
            false => logits,
        }
    }

    /// The hidden states behind the last norm. Their keys and values are added to the cache.
    fn hidden_states(
        &self,
        configuration: &Configuration,
        embedded: Tensor<'t>,
        tokens: Tokens<'_, 't>,
        mut cache: Option<&mut Cache<'t>>,
    ) -> Tensor<'t> {
        let (tape, micro) = (embedded.tape, tokens.micro);
        let part = |name| tape.enter(Module { name, layer: None });
        let len = embedded.dim_from_last(1);
        part("model");
        let transformers = configuration.transformers;
        let apart = (micro.apart > 0).then(|| Apart::new(tape, micro));
        let given = tokens.positions.or_else(|| Some(apart.as_ref()?.positions.clone()));
        let positions = given.unwrap_or_else(|| tape.positions(len));
        let shape = |window: Option<u32>| Shape {
            batch: micro.batch,
            len,
            past: window.map_or(tokens.past, |window| tokens.past.min(window - 1)),
            padded: micro.padded,
            searched: cache.is_none() && !transformers.masks_are_numbers,
            window,
        };
        let mask = |window: Option<u32>| {
            let shape = shape(window);
            match configuration.attn_implementation {
                Attention::Eager => tape.number_mask(&shape, true, embedded.dtype()),
                Attention::Sdpa if transformers.masks_are_numbers => {
                    let always = self.window_masks != WindowMasks::Shared;
                    tape.number_mask(&shape, always, embedded.dtype())
                }
                Attention::Sdpa => tape.causal_mask(&shape, false),
                // In the place of a mask: where the samples begin that it keeps apart.
                Attention::FlashAttention2 => apart.as_ref().map(|apart| apart.starts.clone()),
            }
        };
        // It is an argument of every block, which a checkpoint keeps, and of no kernel.
        let unused = (transformers.makes_flash_mask && configuration.attn_implementation == Attention::FlashAttention2)
            .then(|| tape.number_mask(&shape(None), true, embedded.dtype()))
            .flatten();
        let are_shared = self.window_masks == WindowMasks::Shared;
        let full = (self.both_masks || self.window.is_none()).then(|| mask(None)).flatten();
        let windowed = self.window.as_ref().filter(|_| are_shared);
        let windowed = windowed.and_then(|window| mask(Some(window.tokens as u32)));
        let mut hidden = match self.scales_in_model {
            true => self.scaled(embedded.clone()),
            false => embedded.clone(),
        };
        let rows = match positions.dims() {
            &[rows, len] => [rows, len],
            _ => [1, len],
        };
        let angles = || {
            (transformers.angles == RotaryTables::Shared).then(|| {
                tape.within(Mode::NoGrad, || {
                    let by_cublas = transformers.multiplies_angles;
                    let dtype = embedded.dtype();
                    tape.in_container(None, false, || {
                        rotary::angles(tape, rows, self.rotary_dim, dtype, by_cublas)
                    })
                })
            })
        };
        let local = self.has_local_angles.then(&angles).flatten();
        let angles = angles();
        for index in 0..self.blocks.len() {
            let has_window = self.window.as_ref().is_some_and(|window| window.is_in(index));
            let mask = if has_window && are_shared { &windowed } else { &full }.as_ref();
            let of_block = local.as_ref().filter(|_| has_window).or(angles.as_ref());
            let shared = of_block.map(|[cos, sin]| [cos, sin]);
            let run = |cached: Option<&mut Cached<'t>>| {
                tape.in_checkpoint(index, &hidden, || self.block(index, &hidden, mask, shared, cached))
            };
            let checkpoints = configuration.gradient_checkpointing.recomputes(index) && !tape.is_evaluating();
            let output = tape.in_block(index, &hidden, || {
                if !checkpoints {
                    return run(cache.as_deref_mut().map(|cache| &mut cache[index]));
                }
                let [cos, sin] = [0, 1].map(|which| shared.map(|angles| angles[which]));
                // Releases that make the mask have no shared angles, so it takes the place of one.
                let cos = cos.or(unused.as_ref());
                let others = if has_window { &angles } else { &local };
                let others = others
                    .as_ref()
                    .filter(|_| transformers.gives_all_angles && self.has_local_angles);
                let [other_cos, other_sin] = [0, 1].map(|which| others.map(|angles| &angles[which]));
                let inputs = [Some(&hidden), mask, cos, sin, Some(&positions), other_cos, other_sin];
                tape.checkpoint(transformers.use_reentrant, index, inputs, || run(None))
            });
            hidden = output;
        }
        part("norm");
        let normed = tape.in_tail(hidden.requires_grad(), || self.norm.forward(&hidden));
        drop((
            hidden, positions, embedded, full, windowed, local, angles, apart, unused,
        ));
        normed
    }
}
