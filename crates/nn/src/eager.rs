//! Attention one operation after another, which holds the weights of every query and key for the backward pass, as
//! transformers' `eager_attention_forward` does: scores in the hidden dtype, their softmax in float32, and the weights
//! in the hidden dtype. Grouped heads share their keys and values without copies of them.

mod parts;
mod plain;
mod products;
#[cfg(test)]
mod tests;

use candle_core::{DType, Result};
use kernels::{
    attention::{Pattern, Scores, Shape},
    softmax,
};
use parts::{matrices, size};
use products::{over_keys, over_queries, scores};

use super::{
    softcap,
    tensor::{Tensor, for_format},
};

/// The weights of every query and key: of each sequence `[heads · len, len]`, one after the other.
#[derive(Debug)]
pub(super) struct Weights {
    /// The capped scores in the hidden dtype, if there is a cap.
    capped: Option<Tensor>,
    /// The softmax in float32; `None` if it is what the values are multiplied by.
    softmax: Option<Tensor>,
    /// The factors of the values, in the hidden dtype: after dropout, if there is any.
    factors: Tensor,
}

/// `q [tokens, heads · head_dim]`, `k` and `v` `[tokens, kv_heads · head_dim]` to the output (shape and dtype of `q`)
/// and the weights.
pub(super) fn forward([q, k, v]: [&Tensor; 3], shape: Shape, pattern: Pattern) -> Result<(Tensor, Weights)> {
    let Scores { scale, cap } = shape.scores;
    let scores = softcap::forward(scores(q, k, shape, scale)?, cap)?;
    let (softmax, capped) = match cap {
        Some(_) => {
            let scores = kept("scores", scores);
            (softmax_of(&scores, shape, pattern)?, Some(scores))
        }
        None => {
            let softmax = softmax_of(&scores, shape, pattern)?;
            drop(scores);
            (softmax, None)
        }
    };
    let weights = if q.dtype() == DType::F32 && pattern.dropout.is_none() {
        Weights {
            capped,
            softmax: None,
            factors: kept("weights", softmax),
        }
    } else {
        let factors = dropped(&softmax, shape, pattern, q.dtype())?;
        Weights {
            capped,
            softmax: Some(kept("softmax", softmax)),
            factors: kept("weights", factors),
        }
    };
    let out = over_keys(&weights.factors, v, shape, 1.0)?;
    Ok((out, weights))
}

/// The gradients of q, k and v from that of the output, all in the dtype of `q`. Frees the weights as it goes.
pub(super) fn backward(
    [q, k, v]: [&Tensor; 3],
    Weights {
        capped,
        softmax,
        factors,
    }: Weights,
    d_out: &Tensor,
    shape: Shape,
    pattern: Pattern,
) -> Result<[Tensor; 3]> {
    let d_factors = scores(d_out, v, shape, 1.0)?;
    let dv = over_queries(&factors, d_out, shape, 1.0)?;
    let softmax = match softmax {
        Some(softmax) => {
            drop(factors);
            softmax
        }
        None => factors,
    };
    let d_scores = softmax_backward(&softmax, d_factors, shape, pattern)?;
    drop(softmax);
    let Scores { scale, cap } = shape.scores;
    let d_scores = match (capped, cap) {
        (Some(capped), Some(cap)) => softcap::backward(&capped, d_scores, cap)?,
        _ => d_scores,
    };
    let dq = over_keys(&d_scores, k, shape, scale)?;
    let dk = over_queries(&d_scores, q, shape, scale)?;
    Ok([dq, dk, dv])
}

/// The softmax of the scores, float32.
fn softmax_of(scores: &Tensor, shape: Shape, pattern: Pattern) -> Result<Tensor> {
    if !scores.has_kernels() {
        return plain::softmax(scores, shape, pattern);
    }
    for_format!(scores.dtype(), E => {
        let scores = scores.values::<E>()?;
        Ok(Tensor::written(size(shape), |out: &mut [f32]| {
            for (part, matrix) in matrices(shape, pattern) {
                softmax::forward(&scores[part.clone()], &matrix, &mut out[part]);
            }
        }))
    })
}

/// The weights with their dropped elements, in `dtype`.
fn dropped(softmax: &Tensor, shape: Shape, pattern: Pattern, dtype: DType) -> Result<Tensor> {
    if !softmax.has_kernels() {
        return plain::dropped(softmax, shape, pattern, dtype);
    }
    let softmax = softmax.values::<f32>()?;
    for_format!(dtype, E => {
        Ok(Tensor::written(size(shape), |out: &mut [E]| {
            for (part, matrix) in matrices(shape, pattern) {
                softmax::dropped(&softmax[part.clone()], &matrix, &mut out[part]);
            }
        }))
    })
}

/// The gradient of the scores from that of the factors, in its memory.
fn softmax_backward(softmax: &Tensor, mut gradient: Tensor, shape: Shape, pattern: Pattern) -> Result<Tensor> {
    if !softmax.has_kernels() {
        return plain::softmax_backward(softmax, &gradient, shape, pattern);
    }
    if !memory::is_dry_run() {
        let softmax = softmax.values::<f32>()?;
        for_format!(gradient.dtype(), E => {
            let gradient = gradient.values_mut::<E>()?;
            for (part, matrix) in matrices(shape, pattern) {
                softmax::backward(&softmax[part.clone()], &matrix, &mut gradient[part]);
            }
            Ok(())
        })?;
    }
    Ok(gradient)
}

/// Labels what is held for the backward pass by its part of attention.
fn kept(part: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(part);
    tensor.kept()
}
