//! Eager attention by candle's ops, on any device, one sequence after the other.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor as Candle};
use kernels::attention::{Pattern, Shape};

use super::parts::parts;
use crate::tensor::Tensor;

pub(super) fn scores(q: &Tensor, k: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    let (q32, k32) = (q.to_candle_f32()?, k.to_candle_f32()?);
    let scores = parts(shape).map(|(tokens, _)| {
        let (q, k) = (heads_first(&q32, &tokens, shape)?, heads_first(&k32, &tokens, shape)?);
        (q.matmul(&k.t()?)? * f64::from(scale))?.flatten_all()
    });
    joined(scores, q.dtype())
}

pub(super) fn over_keys(s: &Tensor, v: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    let (s32, v32) = (s.to_candle_f32()?, v.to_candle_f32()?);
    let outputs = parts(shape).map(|(tokens, part)| {
        let out = matrix(&s32, &tokens, part, shape)?.matmul(&heads_first(&v32, &tokens, shape)?)?;
        interleaved(&(out * f64::from(scale))?)
    });
    joined(outputs, v.dtype())
}

pub(super) fn over_queries(s: &Tensor, q: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    let Shape {
        heads,
        kv_heads,
        head_dim,
        ..
    } = shape;
    let (s32, q32) = (s.to_candle_f32()?, q.to_candle_f32()?);
    let outputs = parts(shape).map(|(tokens, part)| {
        let transposed = matrix(&s32, &tokens, part, shape)?.t()?.contiguous()?;
        let out = (transposed.matmul(&heads_first(&q32, &tokens, shape)?)? * f64::from(scale))?;
        let sum = out
            .reshape((kv_heads, heads / kv_heads, tokens.len() * head_dim))?
            .sum(1)?;
        interleaved(&sum.reshape((kv_heads, tokens.len(), head_dim))?)
    });
    joined(outputs, q.dtype())
}

pub(super) fn softmax(scores: &Tensor, shape: Shape, pattern: Pattern) -> Result<Tensor> {
    let hidden = |sequence, (_, query): (usize, usize), key: usize| match pattern.seen(sequence, query).contains(&key) {
        true => 0.0,
        false => f32::NEG_INFINITY,
    };
    let scores = scores.to_candle_f32()?;
    let masked = (&scores + of_weights(shape, &scores, hidden)?)?;
    let softmax = parts(shape).map(|(tokens, part)| {
        let scores = matrix(&masked, &tokens, part, shape)?;
        let exponentials = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        exponentials
            .broadcast_div(&exponentials.sum_keepdim(D::Minus1)?)?
            .flatten_all()
    });
    joined(softmax, DType::F32)
}

pub(super) fn dropped(softmax: &Tensor, shape: Shape, pattern: Pattern, dtype: DType) -> Result<Tensor> {
    let softmax = drop_weights(softmax.to_candle()?, shape, pattern)?;
    Tensor::from_candle(softmax.to_dtype(dtype)?)
}

pub(super) fn softmax_backward(softmax: &Tensor, gradient: &Tensor, shape: Shape, pattern: Pattern) -> Result<Tensor> {
    let (dtype, softmax) = (gradient.dtype(), softmax.to_candle()?);
    let gradient = drop_weights(gradient.to_candle_f32()?, shape, pattern)?;
    let d_scores = parts(shape).map(|(tokens, part)| {
        let softmax = matrix(&softmax, &tokens, part.clone(), shape)?;
        let gradient = matrix(&gradient, &tokens, part, shape)?;
        let delta = (&gradient * &softmax)?.sum_keepdim(D::Minus1)?;
        (softmax * gradient.broadcast_sub(&delta)?)?.flatten_all()
    });
    joined(d_scores, dtype)
}

fn drop_weights(weights: Candle, shape: Shape, pattern: Pattern) -> Result<Candle> {
    let Some(masks) = pattern.dropout else {
        return Ok(weights);
    };
    let factor = |sequence: usize, (head, query), key| masks[sequence].factor(Pattern::index(head, query, key));
    &weights * of_weights(shape, &weights, factor)?
}

/// A number for each score, from its sequence, its head and query, and its key.
fn of_weights(shape: Shape, like: &Candle, value: impl Fn(usize, (usize, usize), usize) -> f32) -> Result<Candle> {
    let mut values = Vec::with_capacity(like.elem_count());
    for (sequence, (tokens, _)) in parts(shape).enumerate() {
        for row in 0..shape.heads * tokens.len() {
            let place = (row / tokens.len(), row % tokens.len());
            values.extend((0..tokens.len()).map(|key| value(sequence, place, key)));
        }
    }
    Candle::from_vec(values, like.elem_count(), like.device())
}

/// `[heads, len, len]` of a sequence's scores.
fn matrix(s: &Candle, tokens: &Range<usize>, part: Range<usize>, shape: Shape) -> Result<Candle> {
    let s = s.narrow(0, part.start, part.len())?;
    s.reshape((shape.heads, tokens.len(), tokens.len()))
}

/// `[heads, len, head_dim]` of a sequence: keys and values once for each of the heads that share them.
fn heads_first(x: &Candle, tokens: &Range<usize>, shape: Shape) -> Result<Candle> {
    let Shape { heads, head_dim, .. } = shape;
    let (own, len) = (x.dim(1)? / head_dim, tokens.len());
    let x = x.narrow(0, tokens.start, len)?.reshape((len, own, head_dim))?;
    let x = x.transpose(0, 1)?.unsqueeze(1)?;
    let x = x.broadcast_as((own, heads / own, len, head_dim))?.contiguous()?;
    x.reshape((heads, len, head_dim))
}

/// `[heads, len, head_dim]` as `[len, heads · head_dim]`.
fn interleaved(x: &Candle) -> Result<Candle> {
    let (heads, len, head_dim) = x.dims3()?;
    x.transpose(0, 1)?.contiguous()?.reshape((len, heads * head_dim))
}

/// The parts of all sequences, in `dtype`.
fn joined(parts: impl Iterator<Item = Result<Candle>>, dtype: DType) -> Result<Tensor> {
    let parts = parts.collect::<Result<Vec<_>>>()?;
    Tensor::from_candle(Candle::cat(&parts, 0)?.to_dtype(dtype)?)
}
