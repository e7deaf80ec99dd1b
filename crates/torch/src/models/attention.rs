//! Self-attention of the decoders.

use arch::ModelConfig;
use options::Attention;

use super::attention_options::AttentionOptions;
use super::cache::Cached;
use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::models::loader::Loader;
use crate::models::norm::Norm;
use crate::ops::attention::Scores;
use crate::ops::rotary::{Rotary, rotate};
use crate::peft::Linear;
use crate::tape::Tensor;

pub(crate) struct SelfAttention<'t> {
    /// Queries, keys and values; in Phi-3 the three in one.
    projections: Vec<Linear<'t>>,
    output: Linear<'t>,
    /// Norms of queries and keys, in some families.
    norms: Option<[Norm<'t>; 2]>,
    /// They come when all three are projected and lie by heads, and not each right behind its projection.
    norms_by_heads: bool,
    /// Divides scores, and then multiplies their hyperbolic tangents.
    has_softcap: bool,
    /// The layer's own embedding of positions, in older releases.
    rotary: Option<Rotary<'t>>,
    /// A share of each head may be turned by its position.
    rotates_shares: bool,
    heads: u32,
    shared: u32,
    head_dim: u32,
}

impl<'t> SelfAttention<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig) -> Self {
        let (projections, output) = if loader.has("self_attn.qkv_proj") {
            let output = loader.linear("self_attn.o_proj");
            (vec![loader.linear("self_attn.qkv_proj")], output)
        } else {
            let names = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
            let separate = names.map(|path| loader.linear(path));
            (separate.into(), loader.linear("self_attn.o_proj"))
        };
        let norms = ["self_attn.q_norm", "self_attn.k_norm"];
        Self {
            projections,
            output,
            norms: loader.has(norms[0]).then(|| norms.map(|path| Norm::load(loader, path))),
            norms_by_heads: config.family.description().norms_by_heads,
            has_softcap: config.attention_softcap.is_some(),
            rotary: loader.rotary(config),
            rotates_shares: config.family.description().rotates_shares
                && loader.configuration.transformers.rotates_shares,
            heads: config.num_attention_heads as u32,
            shared: config.num_key_value_heads as u32,
            head_dim: config.head_dim as u32,
        }
    }

    /// The layers that may get an adapter, in the order of the module's attributes.
    pub(crate) fn linears(&mut self) -> impl Iterator<Item = &mut Linear<'t>> {
        // Phi-3's output comes before the others.
        let (before, after) = match self.projections.len() {
            1 => (Some(&mut self.output), None),
            _ => (None, Some(&mut self.output)),
        };
        before.into_iter().chain(&mut self.projections).chain(after)
    }

    /// The norms of queries and keys.
    pub(crate) fn norms(&mut self) -> impl Iterator<Item = &mut Norm<'t>> {
        self.norms.iter_mut().flatten()
    }

    /// The tables of the layer's own embedding of positions.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Tensor<'t>> {
        self.rotary.iter().filter_map(|rotary| rotary.tables.as_ref()).flatten()
    }

    /// Queries, keys and values as (batch, heads, length, width).
    fn project(&self, hidden: &Tensor<'t>) -> [Tensor<'t>; 3] {
        let &[batch, length, _] = hidden.dims() else {
            return [0, 1, 2].map(|_| hidden.clone());
        };
        let by_head = |tensor: Tensor<'t>, heads: u32| tensor.reshape(&[batch, length, heads, self.head_dim]);
        let heads = [self.heads, self.shared, self.shared];
        match &self.projections[..] {
            linears @ [_, _, _] => {
                let norms = |by_heads: bool| self.norms.as_ref().filter(|_| self.norms_by_heads == by_heads);
                let norm_of = |which: usize, by_heads| norms(by_heads).and_then(|norms| norms.get(which));
                let [query, key, value] = [0, 1, 2].map(|which| {
                    let mut states = by_head(linears[which].forward(hidden), heads[which]);
                    if let Some(norm) = norm_of(which, false) {
                        states = norm.forward(&states);
                    }
                    states.transpose(1, 2)
                });
                let normed = |which, states: Tensor<'t>| match norm_of(which, true) {
                    Some(norm) => norm.forward(&states),
                    None => states,
                };
                [normed(0, query), normed(1, key), value]
            }
            fused => {
                let all = fused[0].forward(hidden);
                let parts = heads.map(|heads| all.slice_last(heads * self.head_dim));
                let mut heads = heads.into_iter();
                parts.map(|part| by_head(part, heads.next().unwrap_or(1)).transpose(1, 2))
            }
        }
    }

    /// The output, and the weights of eager attention, which the block holds on to.
    pub(crate) fn forward(
        &self,
        hidden: &Tensor<'t>,
        mask: Option<&Tensor<'t>>,
        angles: Option<[&Tensor<'t>; 2]>,
        cached: Option<&mut Cached<'t>>,
        window: Option<u32>,
        options: AttentionOptions,
    ) -> (Tensor<'t>, Option<Tensor<'t>>) {
        let [query, key, value] = self.project(hidden);
        let own = self.rotary.as_ref().map(|rotary| rotary.angles(hidden.tape, &value));
        let angles = own.as_ref().map(|[cos, sin]| [cos, sin]).or(angles);
        let turned = match angles {
            Some([cos, sin]) => rotate([&query, &key], cos, sin, self.rotates_shares),
            None => [query.clone(), key.clone()],
        };
        drop((query, key));
        let [query, mut key] = turned;
        let mut value = value;
        if let Some(cached) = cached {
            let behind = |past: Option<Tensor<'t>>, states: &Tensor<'t>| match past {
                Some(past) => past.cat(states, 2),
                None if options.copies_into_cache => states.cat_alone(),
                None => states.clone(),
            };
            let (past_keys, past_values) = cached.take().map(<(_, _)>::from).unzip();
            let keys = behind(past_keys, &key);
            let values = behind(past_values, &value);
            // Of a layer with a window the cache keeps what the next token sees (`DynamicSlidingWindowLayer.update`): a
            // view.
            let kept = |states: &Tensor<'t>| match window {
                Some(window) if states.dim_from_last(1) >= window => {
                    states.clone().with_layout(states.view.layout.narrow(2, window - 1))
                }
                _ => states.clone(),
            };
            *cached = Some([kept(&keys), kept(&values)]);
            (key, value) = (keys, values);
        }
        let mut weights = None;
        let attended = match options.implementation {
            Attention::Eager => {
                let scores = Scores {
                    has_softcap: self.has_softcap && options.caps_scores,
                    masks_in_place: options.masks_in_place,
                    clamps: options.clamps_scores,
                };
                let (output, all) = query.eager_attention(&key, &value, mask, scores);
                weights = Some(all);
                output
            }
            Attention::Sdpa => {
                let mut query = query.clone();
                let times = match mask {
                    None if options.grouped => 1,
                    Some(_) if options.packs_heads_of_one_token && query.dim_from_last(1) == 1 => {
                        let batch = query.dims()[0];
                        query = query.reshape(&[batch, self.shared, self.heads / self.shared, self.head_dim]);
                        1
                    }
                    _ => self.heads / self.shared,
                };
                let (keys, values) = (key.repeat_heads(times), value.repeat_heads(times));
                let copies_masked = options.copies_masked_heads && hidden.tape.backend == Backend::Cuda;
                let copies = options.copies_heads || copies_masked && mask.is_some();
                let [queries, keys, values] = match copies {
                    true => [query.contiguous(), keys.contiguous(), values.contiguous()],
                    false => [query.clone(), keys, values],
                };
                let output = queries.scaled_dot_product_attention(&keys, &values, mask, 0.0);
                let output = match output.dims() {
                    &[batch, heads, packed, width] if heads != self.heads => {
                        output.reshape(&[batch, heads * packed, 1, width])
                    }
                    _ => output,
                };
                let output = output.transpose(1, 2).contiguous();
                drop((queries, keys, values));
                output
            }
            Attention::FlashAttention2 => {
                let times = match options.repeats_flash_heads {
                    true => self.heads / self.shared,
                    false => 1,
                };
                let states = [query.clone(), key.repeat_heads(times), value.repeat_heads(times)];
                // It knows no float32, which k-bit preparation leads to.
                let states = states.map(|states| match states.dtype() {
                    Dtype::Float32 => states.to(options.flash_dtype),
                    _ => states,
                });
                let [queries, keys, values] = &states;
                let output = match mask {
                    None if hidden.tape.unpadded.get() > 0 => {
                        queries.flash_attention_unpadded(keys, values, hidden.tape.unpadded.get())
                    }
                    Some(starts) => queries.flash_attention_apart(keys, values, starts),
                    None => queries.flash_attention(keys, values),
                };
                output.transpose(1, 2)
            }
        };
        let &[batch, length, heads, width] = attended.dims() else {
            return (attended, weights);
        };
        let merged = attended.reshape(&[batch, length, heads * width]);
        drop(attended);
        let output = self.output.forward(&merged);
        drop((merged, query, key, value));
        (output, weights)
    }
}
