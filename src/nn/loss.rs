//! The last segment: final norm, head, and cross-entropy, with the head's product taken in chunks of rows so that the
//! logits of the whole batch are never held, and only for rows that count.

use candle_core::{D, DType, Device, Result, Tensor};

use super::{
    host::{self, for_format, for_number, values},
    norm::RmsNorm,
    param::Param,
};
use crate::{
    kernels::{
        gemm::{
            Operand, Segment, Term, product, product_of_grain,
            store::{AddScaled, Output, Replace},
        },
        head::{Exponentials, LogSumExps, SoftmaxGradient, next_logits, subtract_next},
    },
    memory::{self, Phase},
};

/// Logits, or gradients of logits, that are held at a time are at most about this many (16 MiB in a 16-bit format).
pub(crate) const CHUNK_ELEMENTS: usize = if cfg!(test) { 2048 } else { 8 << 20 };
/// Columns of the gradients that are held are a multiple of this.
const SLOT: usize = if cfg!(test) { 32 } else { 512 };
/// Rows whose losses are computed at a time.
pub(crate) const ROWS: usize = if cfg!(test) { 32 } else { 4096 };
/// Rows of the head that plain ops hold in float32 at a time, in elements (16 MiB).
const PANEL_ELEMENTS: usize = if cfg!(test) { 2048 } else { 4 << 20 };

/// The rows whose next token counts: their index among the micro-batch's tokens, and that next token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Indices of the rows among the micro-batch's tokens.
    pub rows: Vec<u32>,
    /// The next token of each row.
    pub next: Vec<u32>,
}

impl Targets {
    /// Every token but a sample's last is followed by one that counts; padding (right of a sample) is not.
    pub fn new(ids: &[u32], lengths: &[u32], len: usize) -> Self {
        let mut targets = Self::default();
        for (sample, &length) in lengths.iter().enumerate() {
            for position in 0..(length as usize).saturating_sub(1) {
                let row = sample * len + position;
                targets.rows.push(row as u32);
                targets.next.push(ids[row + 1]);
            }
        }
        targets
    }
}

/// The sum of the losses over the counted rows of `x [tokens, hidden]`.
pub fn evaluate(x: &Tensor, norm: &RmsNorm, head: &Param, targets: &Targets) -> Result<f64> {
    let mut sum = 0.0;
    for chunk in targets.chunks(rows_at_a_time(head)?) {
        let normed = norm.forward(&rows_of(x, &chunk)?)?;
        sum += if host::has_kernels(x.device()) {
            log_sum_exps(&normed, head, &chunk)?.0
        } else {
            losses_plain(&logits_plain(&normed, head)?, &chunk.next_tensor(x.device())?)?.0
        };
    }
    Ok(sum)
}

/// The sum of the losses, and the gradient of `scale · sum` in `x` (float32, shape of `x`); adds the gradients of norm
/// and head where they are trained. `between` is called while logits, or their gradients, are held.
pub fn forward_backward(
    x: &Tensor,
    norm: &mut RmsNorm,
    head: &mut Param,
    targets: &Targets,
    scale: f64,
    between: &mut dyn FnMut(),
) -> Result<(f64, Tensor)> {
    let mut sum = 0.0;
    let mut dx = Tensor::zeros(x.shape(), DType::F32, x.device())?;
    for chunk in targets.chunks(rows_at_a_time(head)?) {
        memory::set_phase(Phase::Forward);
        let rows = rows_of(x, &chunk)?;
        let normed = norm.forward(&rows)?;
        let (loss, d_normed) = if host::has_kernels(x.device()) {
            loss_and_gradient(&normed, head, &chunk, scale as f32, between)?
        } else {
            let logits = logits_plain(&normed, head)?;
            between();
            memory::set_phase(Phase::Backward);
            backward_plain(logits, &normed, head, &chunk.next_tensor(x.device())?, scale)?
        };
        sum += loss;
        drop(normed);
        let d_rows = norm.backward(&rows, &d_normed, Tensor::zeros(rows.shape(), DType::F32, x.device())?)?;
        dx = put_rows(dx, &d_rows, &chunk)?;
    }
    memory::set_phase(Phase::Backward);
    Ok((sum, dx))
}

/// `[rows, hidden] → [rows, vocabulary]`, float32.
pub fn logits(x: &Tensor, head: &Param) -> Result<Tensor> {
    if host::has_kernels(x.device()) {
        product_with_head(x, head)
    } else {
        logits_plain(x, head)
    }
}

/// Counted rows that are taken at a time.
struct Chunk<'a> {
    rows: &'a [u32],
    next: &'a [u32],
}

impl Targets {
    fn chunks(&self, rows: usize) -> impl Iterator<Item = Chunk<'_>> {
        let chunks = self.rows.chunks(rows).zip(self.next.chunks(rows));
        chunks.map(|(rows, next)| Chunk { rows, next })
    }
}

/// How many rows a chunk has: on the CPU the columns are cut too, so that only the sums of the rows limit it; plain ops
/// hold the logits of a chunk.
fn rows_at_a_time(head: &Param) -> Result<usize> {
    Ok(if host::has_kernels(head.value.device()) {
        ROWS
    } else {
        (CHUNK_ELEMENTS / head.value.dim(0)?).max(1)
    })
}

impl Chunk<'_> {
    fn next_tensor(&self, device: &Device) -> Result<Tensor> {
        Tensor::from_slice(self.next, self.next.len(), device)
    }
}

/// The chunk's rows of `x`.
fn rows_of(x: &Tensor, chunk: &Chunk) -> Result<Tensor> {
    x.index_select(&Tensor::from_slice(chunk.rows, chunk.rows.len(), x.device())?, 0)
}

/// `dx` with `d_rows` in the place of the chunk's rows, which nobody has written yet.
fn put_rows(dx: Tensor, d_rows: &Tensor, chunk: &Chunk) -> Result<Tensor> {
    if !host::has_kernels(dx.device()) {
        let rows = Tensor::from_slice(chunk.rows, chunk.rows.len(), dx.device())?;
        return dx.index_add(&rows, d_rows, 0);
    }
    let (hidden, values) = (dx.dim(1)?, values::<f32>(d_rows)?);
    host::change(&dx, |dx: &mut [f32]| {
        for (&row, values) in chunk.rows.iter().zip(values.chunks_exact(hidden)) {
            dx[row as usize * hidden..][..hidden].copy_from_slice(values);
        }
    })?;
    Ok(dx)
}

/// `x · headᵀ`: `[rows, hidden] → [rows, vocabulary]`, float32.
fn product_with_head(x: &Tensor, head: &Param) -> Result<Tensor> {
    let ((rows, hidden), vocabulary) = (x.dims2()?, head.value.dim(0)?);
    for_number!(x.dtype(), P => {
        let (x, head) = (host::matrix(x)?, host::matrix(&head.value)?);
        host::tensor((rows, vocabulary), |out: &mut [f32]| {
            let store = Replace { out: Output::new(out, vocabulary), scale: 1.0 };
            let terms = vec![Term::<P> { left: Operand::depth_last(&x), right: Operand::depth_last(&head), depth: hidden }];
            product(rows, &[Segment { cols: vocabulary, terms, store: &store }]);
        })
    })
}

/// The sum of the losses, and the gradient of `scale · sum` in the head's input, float32; adds the head's gradient where
/// it is trained.
fn loss_and_gradient(
    normed: &Tensor,
    head: &mut Param,
    chunk: &Chunk,
    scale: f32,
    between: &mut dyn FnMut(),
) -> Result<(f64, Tensor)> {
    if !head.trainable
        && let Some(done) = in_one_pass(normed, head, chunk, scale, between)?
    {
        return Ok(done);
    }
    let (loss, sums) = log_sum_exps(normed, head, chunk)?;
    memory::set_phase(Phase::Backward);
    Ok((loss, backward(normed, head, chunk, &sums, scale, between)?))
}

/// [`loss_and_gradient`] with a head that is not trained; none where a logit is too far above that of the next token.
fn in_one_pass(
    normed: &Tensor,
    head: &Param,
    chunk: &Chunk,
    scale: f32,
    between: &mut dyn FnMut(),
) -> Result<Option<(f64, Tensor)>> {
    memory::set_phase(Phase::Backward);
    let ((rows, hidden), vocabulary) = (normed.dims2()?, head.value.dim(0)?);
    let d_normed = Tensor::zeros((rows, hidden), DType::F32, normed.device())?;
    let mut totals = vec![0.0; rows];
    for_number!(normed.dtype(), P => {
        let (x, weight) = (host::matrix(normed)?, host::matrix(&head.value)?);
        let bases = next_logits::<P>(&x, &weight, hidden, chunk.next);
        let at_a_time = columns_at_a_time(exponentials(size_of::<P>()), rows, vocabulary);
        for start in (0..vocabulary).step_by(at_a_time) {
            let cols = at_a_time.min(vocabulary - start);
            let weight = host::matrix(&head.value)?.skip_rows(start);
            let mut fits = true;
            let exponentials = host::tensor((rows, cols), |out: &mut [P]| {
                let store = Exponentials::new(Output::new(out, cols), &bases, cols);
                let terms =
                    vec![Term::<P> { left: Operand::depth_last(&x), right: Operand::depth_last(&weight), depth: hidden }];
                product_of_grain(rows, &[Segment { cols, terms, store: &store }], Exponentials::<P>::GRAIN);
                fits = store.finish(&mut totals);
            })?;
            if !fits {
                return Ok(None);
            }
            between();
            let exponentials = host::matrix(&exponentials)?;
            host::change(&d_normed, |out: &mut [f32]| {
                let store = AddScaled { out: Output::new(out, hidden), factor: |_, _| 1.0 };
                let (left, right) = (Operand::depth_last(&exponentials), Operand::depth_first(&weight));
                let terms = vec![Term::<P> { left, right, depth: cols }];
                product(rows, &[Segment { cols: hidden, terms, store: &store }]);
            })?;
        }
        host::change(&d_normed, |out: &mut [f32]| {
            subtract_next::<P>(out, hidden, &totals, &weight, chunk.next, scale);
        })?;
    });
    // The base is the next token's logit, so nothing is left of it in the loss.
    Ok(Some((totals.iter().map(|total| total.ln()).sum(), d_normed)))
}

/// Exponentials of logits that are held at a time, of so many bytes each.
pub(crate) fn exponentials(bytes: usize) -> usize {
    CHUNK_ELEMENTS * 2 / bytes
}

/// How many columns of logits, or of what becomes of them, are held at a time, given how many elements at most.
pub(crate) fn columns_at_a_time(most: usize, rows: usize, vocabulary: usize) -> usize {
    (most / rows / SLOT * SLOT).clamp(SLOT, vocabulary.next_multiple_of(SLOT))
}

/// The sum of the losses, and the log-sum-exp of each row's logits, of which none is kept.
fn log_sum_exps(normed: &Tensor, head: &Param, chunk: &Chunk) -> Result<(f64, Vec<f32>)> {
    let ((rows, hidden), vocabulary) = (normed.dims2()?, head.value.dim(0)?);
    for_number!(normed.dtype(), P => {
        let (x, head) = (host::matrix(normed)?, host::matrix(&head.value)?);
        let store = LogSumExps::new(chunk.next, vocabulary);
        let terms = vec![Term::<P> { left: Operand::depth_last(&x), right: Operand::depth_last(&head), depth: hidden }];
        product_of_grain(rows, &[Segment { cols: vocabulary, terms, store: &store }], LogSumExps::GRAIN);
        Ok(store.finish())
    })
}

/// The gradient of `scale · sum of the losses` in the head's input, float32; adds the head's gradient where it is trained.
/// Logits are computed a second time, some columns at once, to become their gradients, in the hidden dtype.
fn backward(
    normed: &Tensor,
    head: &mut Param,
    chunk: &Chunk,
    log_sum_exps: &[f32],
    scale: f32,
    between: &mut dyn FnMut(),
) -> Result<Tensor> {
    let ((rows, hidden), vocabulary) = (normed.dims2()?, head.value.dim(0)?);
    let cols = columns_at_a_time(CHUNK_ELEMENTS, rows, vocabulary);
    let d_normed = Tensor::zeros((rows, hidden), DType::F32, normed.device())?;
    let d_head = if head.trainable {
        Some(Tensor::zeros((vocabulary, hidden), DType::F32, normed.device())?)
    } else {
        None
    };
    for start in (0..vocabulary).step_by(cols) {
        let cols = cols.min(vocabulary - start);
        for_format!(normed.dtype(), E => for_number!(normed.dtype(), P => {
            let (x, weight) = (host::matrix(normed)?, host::matrix(&head.value)?.skip_rows(start));
            let d_logits = host::tensor((rows, cols), |out: &mut [E]| {
                let out = Output::new(out, cols);
                let store = SoftmaxGradient { out, first: start, next: chunk.next, log_sum_exps };
                let terms =
                    vec![Term::<P> { left: Operand::depth_last(&x), right: Operand::depth_last(&weight), depth: hidden }];
                product(rows, &[Segment { cols, terms, store: &store }]);
            })?;
            between();
            let d_logits = host::matrix(&d_logits)?;
            host::change(&d_normed, |out: &mut [f32]| {
                let store = AddScaled { out: Output::new(out, hidden), factor: |_, _| scale };
                let (left, right) = (Operand::depth_last(&d_logits), Operand::depth_first(&weight));
                let terms = vec![Term::<P> { left, right, depth: cols }];
                product(rows, &[Segment { cols: hidden, terms, store: &store }]);
            })?;
            match &d_head {
                None => Ok(()),
                Some(d_head) => host::change(d_head, |out: &mut [f32]| {
                    let out = Output::new(&mut out[start * hidden..][..cols * hidden], hidden);
                    let (left, right) = (Operand::depth_first(&d_logits), Operand::depth_first(&x));
                    let terms = vec![Term::<P> { left, right, depth: rows }];
                    product(cols, &[Segment { cols: hidden, terms, store: &Replace { out, scale } }]);
                }),
            }
        }))?;
    }
    if let Some(d_head) = d_head {
        head.accumulate(d_head)?;
    }
    Ok(d_normed)
}

fn backward_plain(
    logits: Tensor,
    normed: &Tensor,
    head: &mut Param,
    next: &Tensor,
    scale: f64,
) -> Result<(f64, Tensor)> {
    let (loss, sums) = losses_plain(&logits, next)?;
    let d_logits = d_logits_plain(logits, &sums, next, scale)?;
    if head.trainable {
        head.accumulate(d_logits.t()?.matmul(&normed.to_dtype(DType::F32)?)?)?;
    }
    Ok((loss, head_backward_plain(&d_logits, head)?))
}

fn logits_plain(x: &Tensor, head: &Param) -> Result<Tensor> {
    let x = x.to_dtype(DType::F32)?;
    let parts = panels(head)?
        .map(|(start, count)| x.matmul(&head.value.narrow(0, start, count)?.to_dtype(DType::F32)?.t()?))
        .collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts, 1)
}

fn head_backward_plain(d_logits: &Tensor, head: &Param) -> Result<Tensor> {
    let mut dx = Tensor::zeros((d_logits.dim(0)?, head.value.dim(1)?), DType::F32, d_logits.device())?;
    for (start, count) in panels(head)? {
        let weight = head.value.narrow(0, start, count)?.to_dtype(DType::F32)?;
        // cuBLAS takes no matrix with gaps between its rows.
        dx = (dx + d_logits.narrow(1, start, count)?.contiguous()?.matmul(&weight)?)?;
    }
    Ok(dx)
}

fn panels(head: &Param) -> Result<impl Iterator<Item = (usize, usize)> + use<>> {
    let (rows, cols) = head.value.dims2()?;
    let step = (PANEL_ELEMENTS / cols).max(1);
    Ok((0..rows)
        .step_by(step)
        .map(move |start| (start, step.min(rows - start))))
}

/// The sum of `logsumexp(row) - row[next]`, and the rows' log-sum-exps `[rows, 1]`.
fn losses_plain(logits: &Tensor, next: &Tensor) -> Result<(f64, Tensor)> {
    let max = logits.max_keepdim(D::Minus1)?;
    let sums = (logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?.log()? + max)?;
    let chosen = logits.gather(&next.unsqueeze(1)?, 1)?;
    let losses = (&sums - chosen)?.flatten_all()?.to_dtype(DType::F64)?;
    Ok((losses.sum_all()?.to_scalar::<f64>()?, sums))
}

/// `scale · (softmax(logits) - one_hot(next))`.
fn d_logits_plain(logits: Tensor, sums: &Tensor, next: &Tensor, scale: f64) -> Result<Tensor> {
    let probabilities = (logits.broadcast_sub(sums)?.exp()? * scale)?;
    drop(logits);
    let minus = (Tensor::ones((next.dim(0)?, 1), DType::F32, next.device())? * -scale)?;
    probabilities.scatter_add(&next.unsqueeze(1)?, &minus, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, uniform, with_plain_ops};

    #[test]
    fn targets_leave_out_padding_and_each_samples_last_token() {
        let targets = Targets::new(&[5, 6, 7, 8, 9, 0], &[3, 2], 3);
        assert_eq!(
            targets,
            Targets {
                rows: vec![0, 1, 3],
                next: vec![6, 7, 9]
            }
        );
    }

    #[test]
    fn loss_and_gradients_agree_with_autograd() {
        // Three panels of the head, three chunks of rows.
        let (tokens, hidden, vocabulary) = (80, 64, 70);
        let (x, w) = (uniform("x", &[tokens, hidden]), uniform("w", &[hidden]));
        let head = uniform("head", &[vocabulary, hidden]);
        let targets = Targets {
            rows: (3..73).collect(),
            next: (0..70).map(|i| i * 31 % 70).collect(),
        };
        let oracle = |inputs: &[Tensor]| {
            let rows = Tensor::new(targets.rows.as_slice(), &Device::Cpu).unwrap();
            let next = Tensor::new(targets.next.as_slice(), &Device::Cpu)
                .unwrap()
                .unsqueeze(1)
                .unwrap();
            let x = inputs[0].index_select(&rows, 0).unwrap();
            let inverse = (x.sqr().unwrap().mean_keepdim(1).unwrap() + 1e-5)
                .unwrap()
                .sqrt()
                .unwrap()
                .recip()
                .unwrap();
            let normed = x.broadcast_mul(&inverse).unwrap().broadcast_mul(&inputs[1]).unwrap();
            let logits = normed.matmul(&inputs[2].t().unwrap()).unwrap();
            let sums = logits.exp().unwrap().sum_keepdim(1).unwrap().log().unwrap();
            (sums - logits.gather(&next, 1).unwrap()).unwrap().sum_all().unwrap()
        };
        let scale = Tensor::new(0.2f32, &Device::Cpu).unwrap();
        let want = oracle(&[x.clone(), w.clone(), head.clone()])
            .to_scalar::<f32>()
            .unwrap();
        let gradients = autograd(&[&x, &w, &head], &scale, |inputs| oracle(inputs));

        let mut norm = RmsNorm {
            weight: Param::base("w", w, true),
            eps: 1e-5,
        };
        let mut head = Param::base("head", head, true);
        let (loss, dx) = forward_backward(&x, &mut norm, &mut head, &targets, 0.2, &mut || ()).unwrap();
        assert!((loss as f32 - want).abs() < 1e-4, "{loss} against {want}");
        assert!((evaluate(&x, &norm, &head, &targets).unwrap() - loss).abs() < 1e-4);
        assert_close(&dx, &gradients[0], 1e-5, "dx");
        assert_close(norm.weight.gradient().unwrap(), &gradients[1], 1e-5, "norm");
        assert_close(head.gradient().unwrap(), &gradients[2], 1e-5, "head");
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        // A head that is not trained takes one pass over the logits, unless they are too far apart.
        for (trainable, size) in [(true, 20.0), (false, 20.0), (false, 800.0)] {
            let targets = Targets {
                rows: (0..9).collect(),
                next: vec![0, 30, 1, 2, 3, 4, 5, 6, 7],
            };
            let x = uniform("x", &[9, 7]);
            let run = || {
                let mut norm = RmsNorm {
                    weight: Param::base("w", uniform("w", &[7]), false),
                    eps: 1e-5,
                };
                let mut head = Param::base("head", (uniform("head", &[31, 7]) * size).unwrap(), trainable);
                let (loss, dx) = forward_backward(&x, &mut norm, &mut head, &targets, 0.1, &mut || ()).unwrap();
                (loss, dx, head.gradient().cloned(), logits(&x, &head).unwrap())
            };
            let (kernels, plain) = (run(), with_plain_ops(run));
            assert!(
                (kernels.0 - plain.0).abs() < 1e-5 * plain.0.abs(),
                "{size}: {} by kernels, {} by plain ops",
                kernels.0,
                plain.0
            );
            let tolerance = 1e-5 * size as f32 / 20.0;
            assert_close(&kernels.1, &plain.1, tolerance, "dx");
            assert_close(&kernels.3, &plain.3, tolerance, "logits");
            assert_eq!(kernels.2.is_some(), trainable);
            if let (Some(kernels), Some(plain)) = (&kernels.2, &plain.2) {
                assert_close(kernels, plain, 1e-5, "head");
            }
        }
    }
}
