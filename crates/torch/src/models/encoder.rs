//! Encoders with a classifier.

use arch::{Description, Kind, ModelConfig, Module as Layer};
use options::Attention;
use trace::{Category, Module};

use super::attention_options::AttentionOptions;
use super::decoder::Output;
use super::loader::Loader;
use crate::configuration::{Backend, Configuration, MicroBatchShape};
use crate::dtype::Dtype;
use crate::frames::{BlockOutputs, Frame};
use crate::layout::Layout;
use crate::peft::Linear;
use crate::tape::Tape;
use crate::tape::Tensor;
use crate::versions::AttentionWeights;

/// A layer norm's weight and bias.
struct Norm<'t>([Tensor<'t>; 2]);

impl<'t> Norm<'t> {
    fn load(loader: &mut Loader<'t, '_>, path: &str) -> Self {
        Self([loader.weight(path), loader.bias(path)])
    }

    fn forward(&self, input: &Tensor<'t>) -> Tensor<'t> {
        input.layer_norm(&self.0[0], &self.0[1])
    }
}

/// The modules of an encoder by their part in it.
struct Parts {
    words: &'static str,
    positions: &'static str,
    segments: Option<&'static str>,
    embedding_norm: &'static str,
    /// Queries, keys and values.
    projections: [&'static str; 3],
    output: &'static str,
    attention_norm: &'static str,
    inner: &'static str,
    outer: &'static str,
    output_norm: &'static str,
    pooler: &'static Layer,
    classifier: &'static str,
}

impl Parts {
    /// The parts of a family with an encoder's modules.
    fn of(family: &Description) -> Option<Self> {
        let (words, positions, segments, embedding_norm) = match family.embeddings {
            [words, positions, norm] => (words, positions, None, norm),
            [words, positions, segments, norm] => (words, positions, Some(segments.path), norm),
            _ => return None,
        };
        let [query, key, value, output, attention_norm, inner, outer, output_norm] = family.block else {
            return None;
        };
        let [pooler, classifier] = family.head else { return None };
        Some(Self {
            words: words.path,
            positions: positions.path,
            segments,
            embedding_norm: embedding_norm.path,
            projections: [query.path, key.path, value.path],
            output: output.path,
            attention_norm: attention_norm.path,
            inner: inner.path,
            outer: outer.path,
            output_norm: output_norm.path,
            pooler,
            classifier: classifier.path,
        })
    }
}

struct Block<'t> {
    projections: [Linear<'t>; 3],
    output: Linear<'t>,
    attention_norm: Norm<'t>,
    inner: Linear<'t>,
    outer: Linear<'t>,
    output_norm: Norm<'t>,
}

/// A sequence classifier.
pub(crate) struct Encoder<'t> {
    /// Tables of words, positions and, in some families, kinds of segments.
    words: Tensor<'t>,
    positions: Tensor<'t>,
    segments: Option<Tensor<'t>>,
    /// The buffer of the kinds of segments.
    segment_ids: Option<Tensor<'t>>,
    embedding_norm: Norm<'t>,
    blocks: Vec<Block<'t>>,
    /// BERT's pooler, DistilBERT's pre-classifier.
    pooler: Linear<'t>,
    classifier: Linear<'t>,
    /// The buffer of positions, and the frozen copy of the classifier if adapters are trained.
    _buffers: Vec<Tensor<'t>>,
    config: ModelConfig,
    /// The dense layers that lead back to the residual stream are in modules of their own, with their dropout.
    has_output_modules: bool,
    attention: AttentionOptions,
}

impl<'t> Encoder<'t> {
    #[expect(
        clippy::expect_used,
        reason = "modelling code knows the parts of its families; a test loads every preset"
    )]
    pub(crate) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig, attention: AttentionOptions) -> Self {
        let (tape, family) = (loader.tape, config.family.description());
        let parts = Parts::of(family).expect("an encoder's modules");
        let words = loader.weight(parts.words);
        let positions = loader.weight(parts.positions);
        let segments = parts.segments.map(|path| loader.weight(path));
        let embedding_norm = Norm::load(loader, parts.embedding_norm);
        let blocks = (0..config.num_hidden_layers).map(|index| {
            loader.enter(Some(index));
            Block {
                projections: parts.projections.map(|path| loader.linear(path)),
                output: loader.linear(parts.output),
                attention_norm: Norm::load(loader, parts.attention_norm),
                inner: loader.linear(parts.inner),
                outer: loader.linear(parts.outer),
                output_norm: Norm::load(loader, parts.output_norm),
            }
        });
        let mut blocks: Vec<_> = blocks.collect();
        loader.enter(None);
        let can_adapt_pooler = parts.pooler.kind == Kind::Linear;
        let mut pooler = if can_adapt_pooler {
            loader.linear(parts.pooler.path)
        } else {
            // PEFT trains a copy, and refuses one whose weight is quantised (as of 0.21: "only Tensors of floating
            // point dtype can require gradients"). So bitsandbytes has to be told to leave it out, by
            // `llm_int8_skip_modules`.
            loader.head(parts.pooler.path)
        };
        let mut classifier = loader.head(parts.classifier);
        let buffer = || {
            let layout = Layout::contiguous(&[1, config.max_position_embeddings as u32]);
            tape.empty_as(layout, Dtype::Int64, Category::Parameter)
        };
        let mut buffers = vec![buffer()];
        let segment_ids = segments.is_some().then(buffer);
        loader.end_base_model();
        for (index, block) in blocks.iter_mut().enumerate() {
            let linears = block
                .projections
                .iter_mut()
                .chain([&mut block.output, &mut block.inner, &mut block.outer]);
            linears.for_each(|linear| loader.adapt(linear, Some(index)));
        }
        if can_adapt_pooler {
            loader.adapt(&mut pooler, None);
        } else {
            // Its name ends in that of the classifier, which is all that PEFT asks.
            loader.train_layer_copy(&mut pooler, None);
        }
        loader.train_layer_copy(&mut classifier, None);
        tape.cast_adapters();
        buffers.append(&mut loader.originals);
        Self {
            words,
            positions,
            segments,
            segment_ids,
            embedding_norm,
            blocks,
            pooler,
            classifier,
            _buffers: buffers,
            config: config.clone(),
            has_output_modules: family.has_output_modules,
            attention,
        }
    }

    fn dropout(&self, input: Tensor<'t>) -> Tensor<'t> {
        if self.config.hidden_dropout > 0.0 {
            input.dropout()
        } else {
            input
        }
    }

    /// The output, and the weights of eager attention if they stay.
    fn attention(
        &self,
        block: &Block<'t>,
        hidden: &Tensor<'t>,
        mask: Option<&Tensor<'t>>,
    ) -> (Tensor<'t>, Option<Tensor<'t>>) {
        let &[batch, length, width] = hidden.dims() else {
            return (hidden.clone(), None);
        };
        let heads = self.config.num_attention_heads as u32;
        let [mut query, key, value] = block.projections.each_ref().map(|linear| {
            let states = linear.forward(hidden);
            states.reshape(&[batch, length, heads, width / heads]).transpose(1, 2)
        });
        let dropout = self.config.attention_dropout > 0.0;
        let (mut weights, mut scores) = (None, None);
        let attended = match (self.attention.implementation, hidden.tape.backend) {
            (Attention::Eager, _) => {
                if self.attention.fills_scores {
                    query = query.scale();
                }
                let masked = query.encoder_scores(&key, mask, self.attention.fills_scores);
                let mut softmax = masked.encoder_softmax();
                scores = Some(masked).filter(|_| self.attention.has_own_encoders);
                if dropout {
                    softmax = softmax.dropout();
                }
                let output = softmax.matmul(&value).transpose(1, 2).contiguous();
                weights = Some(softmax);
                output
            }
            (_, Backend::Cpu) if dropout => query
                .composed_attention(&key, &value, mask, dropout)
                .transpose(1, 2)
                .contiguous(),
            _ => query
                .scaled_dot_product_attention(&key, &value, mask, self.config.attention_dropout)
                .transpose(1, 2)
                .contiguous(),
        };
        let merged = attended.reshape(&[batch, length, width]);
        drop(attended);
        let output = match self.has_output_modules {
            true => merged,
            false => block.output.forward(&merged),
        };
        drop(scores);
        let stays = self.attention.weights != AttentionWeights::Dropped;
        (output, weights.filter(|_| stays))
    }

    /// The output, and the weights of eager attention if they are returned.
    fn block(&self, index: usize, hidden: &Tensor<'t>, mask: Option<&Tensor<'t>>) -> BlockOutputs<Tensor<'t>> {
        let block = &self.blocks[index];
        let enter = |name| {
            let layer = Some(index as u16);
            hidden.tape.enter(Module { name, layer });
        };
        enter("attention");
        let (merged, weights) = self.attention(block, hidden, mask);
        let attended = if self.has_output_modules {
            self.dropout(block.output.forward(&merged))
        } else {
            merged.clone()
        };
        let attention_output = {
            let sum = attended.add(hidden);
            let normed = block.attention_norm.forward(&sum);
            drop(sum);
            drop(attended);
            drop(merged);
            normed
        };
        enter("ffn");
        let mut inner = block.inner.forward(&attention_output);
        inner = inner.gelu();
        let mut outer = block.outer.forward(&inner);
        if !self.has_output_modules {
            // Where the second layer is in a module of its own, what goes into it has a name.
            drop(std::mem::replace(&mut inner, outer.clone()));
        }
        outer = self.dropout(outer);
        if !self.has_output_modules {
            inner = outer.clone();
        }
        let sum = outer.add(&attention_output);
        let output = block.output_norm.forward(&sum);
        drop((sum, outer, inner));
        let returned = weights.filter(|_| self.attention.weights == AttentionWeights::Returned);
        (output, returned)
    }

    /// Runs a checkpointed block again.
    pub(crate) fn recompute(&self, tape: &'t Tape, frame: &Frame) -> Option<BlockOutputs<Tensor<'t>>> {
        let hidden = tape.tensor(frame.inputs[0]?).clone_kept();
        let mask = frame.inputs[2].map(|mask| tape.tensor(mask).clone_kept());
        Some(self.block(frame.block, &hidden, mask.as_ref()))
    }

    fn embed(&self, ids: &Tensor<'t>, configuration: &Configuration) -> Tensor<'t> {
        let tape = ids.tape;
        let length = ids.dim_from_last(0);
        let segment_ids = self
            .segment_ids
            .as_ref()
            .map(|buffer| match self.attention.has_own_encoders {
                // A view of it.
                true => buffer.clone().with_layout(buffer.view.layout.narrow(1, length)),
                false => tape.empty(&[1, length], Dtype::Int64),
            });
        let mut words = self.words.embedding(ids);
        if configuration.enable_input_require_grads && !words.requires_grad() {
            words = tape.require_grad(words);
        }
        let position_ids = tape.empty_as(Layout::contiguous(&[1, length]), Dtype::Int64, Category::Input);
        let sum = match (&self.segments, &segment_ids) {
            (Some(table), Some(segment_ids)) => {
                let segments = table.embedding_broadcast(segment_ids, ids.dims());
                let sum = words.add(&segments);
                let positions = self.positions.embedding(&position_ids);
                let all = sum.add(&positions);
                drop(sum);
                let normed = self.embedding_norm.forward(&all);
                drop(all);
                let output = self.dropout(normed);
                drop((words, segments, positions));
                return output;
            }
            _ => {
                let positions = self.positions.embedding(&position_ids);
                (words.add(&positions), positions)
            }
        };
        let (sum, positions) = sum;
        let normed = self.embedding_norm.forward(&sum);
        drop(sum);
        let output = self.dropout(normed);
        drop((words, positions));
        output
    }

    /// The mask that blocks are given.
    fn mask(&self, micro: &MicroBatchShape, hidden: &Tensor<'t>) -> Option<Tensor<'t>> {
        let (tape, MicroBatchShape { batch, len, padded, .. }) = (hidden.tape, *micro);
        match (self.attention.has_own_encoders, self.attention.implementation) {
            // Each block makes one of its own.
            (true, Attention::Eager) if self.attention.fills_scores => None,
            // Also where there is no padding.
            (true, Attention::Eager) => Some(tape.added_mask(&[batch, 1, 1, len], self.words.dtype())),
            (true, Attention::Sdpa) => padded.then(|| tape.expanded_mask(&[batch, 1, len, len], hidden.dtype())),
            (_, implementation) => padded.then(|| {
                let is_eager = implementation == Attention::Eager;
                tape.padding_mask(batch, len, is_eager.then(|| hidden.dtype()))
            }),
        }
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
        let labels = tape.empty_as(Layout::contiguous(&[micro.batch]), Dtype::Int64, Category::Input);
        part("embeddings");
        let embedded = self.embed(ids, configuration);
        let mut hidden = embedded.clone();
        let mask = self.mask(micro, &hidden);
        let mut returned = None;
        for index in 0..self.blocks.len() {
            (hidden, returned) = if configuration.gradient_checkpointing.recomputes(index) {
                // By position, so that a reentrant checkpoint frees it with the hidden states.
                let inputs = [Some(&hidden), None, mask.as_ref(), None, None, None, None];
                let use_reentrant = configuration.transformers.use_reentrant;
                tape.checkpoint_with_weights(use_reentrant, index, inputs, || {
                    self.block(index, &hidden, mask.as_ref())
                })
            } else {
                self.block(index, &hidden, mask.as_ref())
            };
        }
        drop(returned);
        part("classifier");
        let first = hidden.first_position();
        let mut pooled = self.pooler.forward(&first);
        drop(embedded);
        pooled = pooled.activation_of_result();
        pooled = self.dropout(pooled);
        let logits = self.classifier.forward(&pooled);
        part("loss");
        let loss = logits.cross_entropy(&labels);
        drop((pooled, first, hidden, mask));
        Output {
            loss,
            logits: Some(logits),
            cache: Vec::new(),
        }
    }
}
