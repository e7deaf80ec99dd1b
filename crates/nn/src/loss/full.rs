//! The loss of logits that are held, as transformers' `ForCausalLMLoss` computes it: the logits of every token, padding
//! included, in the format of products; their log-softmax in float32; and its gradient, in float32 and rounded.

use candle_core::{D, DType, Result, Tensor as Candle};
use kernels::{
    gemm::{
        Operand, Segment, Term,
        epilogue::{Output, Replace},
        multiply::Multiply,
        product,
    },
    log_softmax::{self, IGNORED},
    softcap::SoftCap,
};
use memory::Buffer;
use trace::Phase;

use super::{
    products::{head_backward_plain, head_product, logits_plain},
    targets::Targets,
};
use crate::{
    convert,
    head::Head,
    head_rows::HeadRows,
    linear::Projection,
    norm::RmsNorm,
    operand::Matrix,
    param::Param,
    pass::Pass,
    softcap,
    tensor::{Tensor, for_format, for_number},
};

/// The sum of the losses, and the gradient of `scale · sum` in `x` (float32, shape of `x`); adds the gradients of norm
/// and head if they are trained.
pub(super) fn forward_backward(
    cap: Option<SoftCap>,
    x: &Tensor,
    (norm, head): (&mut RmsNorm, &mut Head),
    targets: &Targets,
    scale: f64,
    pass: &Pass,
    on_checkpoint: &mut dyn FnMut(),
) -> Result<(f64, Tensor)> {
    memory::set_phase(Phase::Forward);
    let labels = labels(targets, x.rows());
    let normed = norm.forward(x)?;
    let (loss, d_normed) = loss_and_gradient(cap, normed, head, &labels, scale, pass, on_checkpoint)?;
    let zeros = Tensor::zeros(x.shape(), DType::F32, x.device())?;
    Ok((loss, norm.backward(x, &d_normed, zeros)?))
}

/// The sum of the losses of normed rows with these labels, and the gradient of `scale · sum` in them, float32; adds the
/// gradients of what is trained of the head.
pub(super) fn loss_and_gradient(
    cap: Option<SoftCap>,
    normed: Tensor,
    head: &mut Head,
    labels: &Buffer<u32>,
    scale: f64,
    pass: &Pass,
    on_checkpoint: &mut dyn FnMut(),
) -> Result<(f64, Tensor)> {
    let logits = match head {
        Head::Plain(head) => logits(&normed, head)?,
        Head::Adapted(head) => adapted_logits(&normed, head, pass)?,
    };
    let logits = kept("logits", softcap::forward(logits, cap)?);
    let log_softmax = kept("log_softmax", log_softmax(&logits)?);
    let loss = loss(&log_softmax, labels)?;
    on_checkpoint();
    memory::set_phase(Phase::Backward);
    let d_logits = gradient(&log_softmax, labels, scale)?;
    on_checkpoint();
    drop(log_softmax);
    let mut d_logits = convert::into_narrow(d_logits, logits.dtype())?;
    if let Some(cap) = cap {
        d_logits = softcap::backward(&logits, d_logits, cap)?;
    }
    on_checkpoint();
    // As in a training loop, the model's outputs live until the head's backward pass is done.
    let d_normed = match head {
        Head::Plain(head) => head_backward(&d_logits, &normed, head)?,
        Head::Adapted(head) => head.backward(&normed, [&d_logits], pass)?,
    };
    Ok((loss, d_normed))
}

/// The sum of the losses of normed rows with these labels.
pub(super) fn evaluate(
    cap: Option<SoftCap>,
    normed: &Tensor,
    head: &Projection<1>,
    labels: &Buffer<u32>,
    pass: &Pass,
) -> Result<f64> {
    let logits = softcap::forward(adapted_logits(normed, head, pass)?, cap)?;
    loss(&log_softmax(&logits)?, labels)
}

/// `[rows, vocabulary]` in the dtype of `x`.
fn adapted_logits(x: &Tensor, head: &Projection<1>, pass: &Pass) -> Result<Tensor> {
    let [logits] = head.forward(x, pass)?;
    Ok(logits)
}

/// The next token of each row, or [`IGNORED`].
fn labels(targets: &Targets, rows: usize) -> Buffer<u32> {
    let mut labels = Buffer::from_fn(rows, |_| IGNORED);
    for (&row, &next) in targets.rows.values().iter().zip(targets.next.values()) {
        labels.values_mut()[row as usize] = next;
    }
    labels
}

/// `[rows, vocabulary]` in the dtype of `x`.
fn logits(x: &Tensor, head: &Param) -> Result<Tensor> {
    if !x.has_kernels() {
        return Tensor::from_candle(logits_plain(x, head, None)?.to_dtype(x.dtype())?);
    }
    let (rows, hidden, vocabulary) = (x.rows(), x.cols(), head.value.rows());
    for_format!(x.dtype(), E => for_number!(x.dtype(), P => {
        let (x, head) = (Matrix::new(x)?, HeadRows::new(head, 0..vocabulary)?);
        let head = head.matrix()?;
        Ok(Tensor::written((rows, vocabulary), |out: &mut [E]| {
            let out = Output::new(out, vocabulary);
            head_product::<P>(rows, vocabulary, hidden, &x, &head, &Replace { out, scale: 1.0 }, 1);
        }))
    }))
}

fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    if !logits.has_kernels() {
        let logits = logits.to_candle_f32()?;
        let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
        let lse = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
        return Tensor::from_candle(shifted.broadcast_sub(&lse)?);
    }
    for_format!(logits.dtype(), E => {
        let (values, cols) = (logits.values::<E>()?, logits.cols());
        Ok(Tensor::written(logits.shape(), |out: &mut [f32]| log_softmax::forward(values, cols, out)))
    })
}

fn loss(log_softmax: &Tensor, labels: &Buffer<u32>) -> Result<f64> {
    if !log_softmax.has_kernels() {
        let (labels, weights) = labels_plain(log_softmax, labels)?;
        let chosen = log_softmax.to_candle()?.gather(&labels, 1)?.to_dtype(DType::F64)?;
        return Ok(-(chosen * weights.to_dtype(DType::F64)?)?
            .sum_all()?
            .to_scalar::<f64>()?);
    }
    Ok(log_softmax::loss(
        log_softmax.values()?,
        log_softmax.cols(),
        labels.values(),
    ))
}

fn gradient(log_softmax: &Tensor, labels: &Buffer<u32>, scale: f64) -> Result<Tensor> {
    if !log_softmax.has_kernels() {
        let (labels, weights) = labels_plain(log_softmax, labels)?;
        let softmax = log_softmax.to_candle()?.exp()?;
        let one = softmax.scatter_add(&labels, &weights.ones_like()?.neg()?, 1)?;
        return Tensor::from_candle(one.broadcast_mul(&(weights * scale)?)?);
    }
    let (values, cols) = (log_softmax.values::<f32>()?, log_softmax.cols());
    Ok(Tensor::written(log_softmax.shape(), |out: &mut [f32]| {
        log_softmax::backward(values, cols, labels.values(), scale as f32, out);
    }))
}

/// The label of each row, any where it does not count, and 1 or 0 for whether it does: `[rows, 1]` both.
fn labels_plain(like: &Tensor, labels: &Buffer<u32>) -> Result<(Candle, Candle)> {
    let counts = |&label: &u32| if label == IGNORED { (0, 0f32) } else { (label, 1.0) };
    let (labels, weights): (Vec<u32>, Vec<f32>) = labels.values().iter().map(counts).unzip();
    let shape = (labels.len(), 1);
    Ok((
        Candle::from_vec(labels, shape, like.device())?,
        Candle::from_vec(weights, shape, like.device())?,
    ))
}

/// The gradient of the head's input, float32; adds the head's if it is trained.
fn head_backward(d_logits: &Tensor, normed: &Tensor, head: &mut Param) -> Result<Tensor> {
    let (rows, hidden, vocabulary) = (normed.rows(), normed.cols(), head.value.rows());
    if !d_logits.has_kernels() {
        let d_logits = d_logits.to_candle_f32()?;
        if head.trainable {
            head.accumulate(Tensor::from_candle(d_logits.t()?.matmul(&normed.to_candle_f32()?)?)?)?;
        }
        return Tensor::from_candle(head_backward_plain(&d_logits, head)?);
    }
    for_number!(normed.dtype(), P => {
        let d_head = {
            let (d_logits, normed) = (Matrix::new(d_logits)?, Matrix::new(normed)?);
            head.trainable.then(|| {
                Tensor::written((vocabulary, hidden), |out: &mut [f32]| {
                    let (left, right) = (Operand::depth_first(&d_logits), Operand::depth_first(&normed));
                    one_product::<P>((vocabulary, hidden), Term { left, right, depth: rows }, out);
                })
            })
        };
        if let Some(d_head) = d_head {
            head.accumulate(d_head)?;
        }
        let (d_logits, weight) = (Matrix::new(d_logits)?, HeadRows::new(head, 0..vocabulary)?);
        let weight = weight.matrix()?;
        Ok(Tensor::written((rows, hidden), |out: &mut [f32]| {
            let (left, right) = (Operand::depth_last(&d_logits), Operand::depth_first(&weight));
            one_product::<P>((rows, hidden), Term { left, right, depth: vocabulary }, out);
        }))
    })
}

fn one_product<P: Multiply>((rows, cols): (usize, usize), term: Term<P>, out: &mut [f32]) {
    let epilogue = Replace {
        out: Output::new(out, cols),
        scale: 1.0,
    };
    let segment = Segment {
        cols,
        terms: vec![term],
        epilogue: &epilogue,
    };
    product(rows, &[segment]);
}

/// Labels what is held for the backward pass by its name.
fn kept(name: &str, tensor: Tensor) -> Tensor {
    let _part = memory::part(name);
    tensor.kept()
}
