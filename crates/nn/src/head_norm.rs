//! The norm of each head's queries or keys and their rotation, in one pass where nothing between them is needed.

use candle_core::Result;
use kernels::{
    head_norm::{self, Norm},
    rope::Heads,
};

use super::{
    norm::RmsNorm,
    rope::Rope,
    tensor::{Tensor, for_format},
};

/// The heads of `x`, `[tokens, heads · head_dim]`, normalised and rotated.
pub(super) fn forward(norm: &RmsNorm, rope: Option<&Rope>, x: &Tensor, shape: Heads) -> Result<Tensor> {
    let is_of_one_format = norm.output.is_none_or(|output| output == x.dtype());
    let Some(rope) = rope.filter(|_| x.has_kernels() && is_of_one_format) else {
        let normed = norm.forward(x)?;
        return match rope {
            Some(rope) => rope.forward(normed, shape),
            None => Ok(normed),
        };
    };
    let weight = norm.factors()?;
    let angles = rope.angles(shape)?;
    for_format!(x.dtype(), E => {
        let values = x.values::<E>()?;
        let norm = Norm { weight: weight.values::<f32>()?, eps: norm.eps as f32 };
        Ok(Tensor::written(x.shape(), |out: &mut [E]| head_norm::forward(values, norm, angles, shape, out)))
    })
}

/// The gradient of `x` from that of the output, in its memory and dtype, which is that of `x`. Adds the weight's
/// gradient if it is trained.
pub(super) fn backward(
    norm: &mut RmsNorm,
    rope: Option<&Rope>,
    x: &Tensor,
    mut dy: Tensor,
    shape: Heads,
) -> Result<Tensor> {
    // The weight's gradient needs what lies between.
    let Some(rope) = rope.filter(|_| x.has_kernels() && !norm.weight.trainable) else {
        let d_normed = match rope {
            Some(rope) => rope.backward(dy, shape)?,
            None => dy,
        };
        return norm.backward_parts(x, d_normed);
    };
    let weight = norm.factors()?;
    if !memory::is_dry_run() {
        let angles = rope.angles(shape)?;
        for_format!(x.dtype(), E => {
            let values = x.values::<E>()?;
            let norm = Norm { weight: weight.values::<f32>()?, eps: norm.eps as f32 };
            head_norm::backward_in_place(values, norm, angles, shape, dy.values_mut::<E>()?);
            Ok(())
        })?;
    }
    Ok(dy)
}
