//! The last segment: final norm, head, and cross-entropy. In chunks, the head's product is taken some rows at a time,
//! so that the logits of the whole batch are never held, and only for rows that count.

mod full;
mod products;
mod targets;

pub use targets::Targets;

use candle_core::{D, DType, Result, Tensor as Candle};
use kernels::{
    gemm::{
        Operand, Segment, Term,
        block::TILE,
        epilogue::{AddScaled, Output, Replace},
        multiply::Multiply,
        product,
    },
    head::{Exponentials, LogSumExps, SoftmaxGradient, next_logits, subtract_next},
    softcap::SoftCap,
};
use memory::Buffer;
use options::Loss;
use trace::Phase;

use self::products::{head_backward_plain, head_product, logits_plain};
use super::{
    convert,
    embedding::rows,
    head::Head,
    head_rows::HeadRows,
    norm::RmsNorm,
    operand::Matrix,
    param::Param,
    pass::Pass,
    softcap,
    tensor::{Float, Tensor, for_format, for_number},
};

/// Logits, or gradients of logits, that are held at a time are at most about this many (16 MiB in a 16-bit format).
const CHUNK_ELEMENTS: usize = if cfg!(test) { 2048 } else { 8 << 20 };
/// Columns of the gradients that are held are a multiple of this.
const SLOT: usize = if cfg!(test) { 32 } else { 512 };
/// Rows whose losses are computed at a time.
const ROWS: usize = if cfg!(test) { 32 } else { 4096 };

/// The loss of the next tokens, from the hidden states.
#[derive(Debug, Clone, Copy)]
pub struct CausalLoss {
    /// How it is computed in training.
    pub way: Loss,
    /// Soft cap of the logits.
    pub cap: Option<SoftCap>,
}

impl CausalLoss {
    /// The sum of the losses over the counted rows of `x [tokens, hidden]`.
    pub fn evaluate(self, x: &Tensor, norm: &RmsNorm, head: &Head, targets: &Targets, pass: &Pass) -> Result<f64> {
        let mut sum = 0.0;
        for chunk in targets.chunks(rows_at_a_time(x, head)?) {
            let normed = norm.forward(&rows(x, &chunk.rows, x.dtype())?)?;
            sum += match head {
                Head::Adapted(head) => {
                    full::evaluate(self.cap, &normed, head, &chunk.next, &pass.of_rows(&chunk.rows))?
                }
                Head::Plain(head) if x.has_kernels() => log_sum_exps(&normed, head, &chunk, self.cap)?.0,
                Head::Plain(head) => {
                    losses_plain(&logits_plain(&normed, head, self.cap)?, &chunk.next_plain(x.device())?)?.0
                }
            };
        }
        Ok(sum)
    }

    /// The sum of the losses, and the gradient of `scale · sum` in `x` (float32, shape of `x`); adds the gradients of
    /// norm and head if they are trained. `on_checkpoint` is called while logits, or their gradients, are held.
    pub fn forward_backward(
        self,
        x: &Tensor,
        (norm, head): (&mut RmsNorm, &mut Head),
        targets: &Targets,
        scale: f64,
        pass: &Pass,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        match self.way {
            Loss::Chunked | Loss::Tiled | Loss::Liger | Loss::CutCrossEntropy => {
                self.in_chunks(x, (norm, head), targets, scale, pass, on_checkpoint)
            }
            Loss::Full => full::forward_backward(self.cap, x, (norm, head), targets, scale, pass, on_checkpoint),
        }
    }

    /// `[rows, hidden] → [rows, vocabulary]`, float32.
    pub fn logits(self, x: &Tensor, head: &Head, pass: &Pass) -> Result<Tensor> {
        match head {
            Head::Adapted(head) => {
                let [logits] = head.forward(x, pass)?;
                let logits = convert::widen(&logits)?.copy().unwrap_or(logits);
                softcap::forward(logits, self.cap)
            }
            Head::Plain(head) if x.has_kernels() => softcap::forward(product_with_head(x, head)?, self.cap),
            Head::Plain(head) => Tensor::from_candle(logits_plain(x, head, self.cap)?),
        }
    }

    fn in_chunks(
        self,
        x: &Tensor,
        (norm, head): (&mut RmsNorm, &mut Head),
        targets: &Targets,
        scale: f64,
        pass: &Pass,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let mut sum = 0.0;
        let mut dx = Tensor::zeros(x.shape(), DType::F32, x.device())?;
        for chunk in targets.chunks(rows_at_a_time(x, head)?) {
            memory::set_phase(Phase::Forward);
            let chunk_x = rows(x, &chunk.rows, x.dtype())?;
            let normed = norm.forward(&chunk_x)?;
            let (loss, d_normed) = match head {
                Head::Adapted(_) => {
                    let pass = pass.of_rows(&chunk.rows);
                    full::loss_and_gradient(self.cap, normed, head, &chunk.next, scale, &pass, on_checkpoint)?
                }
                Head::Plain(head) if x.has_kernels() => {
                    loss_and_gradient(self.cap, &normed, head, &chunk, scale as f32, on_checkpoint)?
                }
                Head::Plain(head) => {
                    let logits = logits_plain(&normed, head, self.cap)?;
                    on_checkpoint();
                    memory::set_phase(Phase::Backward);
                    backward_plain(self.cap, logits, &normed, head, &chunk.next_plain(x.device())?, scale)?
                }
            };
            sum += loss;
            let zeros = Tensor::zeros(chunk_x.shape(), DType::F32, x.device())?;
            let d_rows = norm.backward(&chunk_x, &d_normed, zeros)?;
            dx = put_rows(dx, &d_rows, &chunk)?;
        }
        memory::set_phase(Phase::Backward);
        Ok((sum, dx))
    }
}

/// Rows of a chunk: on the CPU the columns are cut too, so that only the sums of the rows limit it; plain ops, and a
/// head with an adapter, hold the logits of a chunk.
fn rows_at_a_time(x: &Tensor, head: &Head) -> Result<usize> {
    Ok(match head {
        Head::Plain(_) if x.has_kernels() => ROWS,
        _ => (CHUNK_ELEMENTS / head.weight()?.value.rows()).max(1),
    })
}

/// `dx` with `d_rows` in the place of the chunk's rows, which nobody has written yet.
fn put_rows(mut dx: Tensor, d_rows: &Tensor, chunk: &Targets) -> Result<Tensor> {
    if !dx.has_kernels() {
        let rows = Candle::from_slice(chunk.rows.values(), chunk.rows.len(), dx.device())?;
        return Tensor::from_candle(dx.to_candle()?.index_add(&rows, &d_rows.to_candle()?, 0)?);
    }
    let hidden = dx.cols();
    let (dx_values, values) = (dx.values_mut::<f32>()?, d_rows.values::<f32>()?);
    for (&row, values) in chunk.rows.values().iter().zip(values.chunks_exact(hidden)) {
        dx_values[row as usize * hidden..][..hidden].copy_from_slice(values);
    }
    Ok(dx)
}

fn product_with_head(x: &Tensor, head: &Param) -> Result<Tensor> {
    let (rows, hidden, vocabulary) = (x.rows(), x.cols(), head.value.rows());
    for_number!(x.dtype(), P => {
        let (x, head) = (Matrix::new(x)?, HeadRows::new(head, 0..vocabulary)?);
        let head = head.matrix()?;
        Ok(Tensor::written((rows, vocabulary), |out: &mut [f32]| {
            let out = Output::new(out, vocabulary);
            head_product::<P>(rows, vocabulary, hidden, &x, &head, &Replace { out, scale: 1.0 }, 1);
        }))
    })
}

/// The sum of the losses of normed rows, and the gradient of `scale · sum` in them, float32; adds the head's gradient
/// if it is trained. A frozen head is multiplied once, unless a logit lies far above that of its next token. A dry run
/// takes it for granted that none does.
fn loss_and_gradient(
    cap: Option<SoftCap>,
    normed: &Tensor,
    head: &mut Param,
    chunk: &Targets,
    scale: f32,
    on_checkpoint: &mut dyn FnMut(),
) -> Result<(f64, Tensor)> {
    if !head.trainable
        && let Some(done) = in_one_pass(cap, normed, head, chunk, scale, on_checkpoint)?
    {
        return Ok(done);
    }
    let (loss, lse) = log_sum_exps(normed, head, chunk, cap)?;
    memory::set_phase(Phase::Backward);
    for_format!(normed.dtype(), E => for_number!(normed.dtype(), P => {
        Ok((loss, backward::<E, P>(cap, normed, head, chunk, (&lse, scale), on_checkpoint)?))
    }))
}

/// [`loss_and_gradient`] with a head that is not trained; none if a logit is too far above that of the next token.
fn in_one_pass(
    cap: Option<SoftCap>,
    normed: &Tensor,
    head: &Param,
    chunk: &Targets,
    scale: f32,
    on_checkpoint: &mut dyn FnMut(),
) -> Result<Option<(f64, Tensor)>> {
    memory::set_phase(Phase::Backward);
    let (rows, hidden, vocabulary) = (normed.rows(), normed.cols(), head.value.rows());
    let mut d_normed = Tensor::zeros((rows, hidden), DType::F32, normed.device())?;
    let mut totals = Buffer::<f64>::zeros(rows);
    for_number!(normed.dtype(), P => {
        let x = Matrix::new(normed)?;
        let (next_rows, next) = HeadRows::chosen(head, &chunk.next)?;
        let bases = next_logits::<P>(&x, &next_rows.matrix()?, hidden, next.buffer(), cap);
        let at_a_time = columns_at_a_time(exponentials(size_of::<P>()), rows, vocabulary);
        for start in (0..vocabulary).step_by(at_a_time) {
            let cols = at_a_time.min(vocabulary - start);
            let weight = HeadRows::new(head, start..start + cols)?;
            let mut exponentials = Tensor::new(Buffer::<P>::unwritten(rows * cols), (rows, cols));
            let epilogue = Exponentials::new(Output::new(exponentials.values_mut::<P>()?, cols), &bases, cols, cap);
            if memory::is_dry_run() {
                continue;
            }
            let weight = weight.matrix()?;
            head_product::<P>(rows, cols, hidden, &x, &weight, &epilogue, Exponentials::<P>::GRAIN);
            if !epilogue.finish(totals.values_mut()) {
                return Ok(None);
            }
            on_checkpoint();
            let exponentials = Matrix::new(&exponentials)?;
            let out = Output::new(d_normed.values_mut::<f32>()?, hidden);
            let epilogue = AddScaled { out, factors: |_, _| [1.0; TILE] };
            let (left, right) = (Operand::depth_last(&exponentials), Operand::depth_first(&weight));
            let terms = vec![Term::<P> { left, right, depth: cols }];
            product(rows, &[Segment { cols: hidden, terms, epilogue: &epilogue }]);
        }
        if !memory::is_dry_run() {
            let d_normed = d_normed.values_mut::<f32>()?;
            let (next_rows, next) = (next_rows.matrix()?, next.buffer());
            let capped = cap.map(|cap| (cap, bases.values()));
            subtract_next::<P>(d_normed, hidden, totals.values(), &next_rows, next.values(), scale, capped);
        }
    });
    // The base is the next token's logit, so nothing is left of it in the loss.
    Ok(Some((totals.values().iter().map(|total| total.ln()).sum(), d_normed)))
}

/// Exponentials of logits that are held at a time, of so many bytes each.
fn exponentials(bytes: usize) -> usize {
    CHUNK_ELEMENTS * 2 / bytes
}

/// Logits, or what becomes of them, that the chunked loss of so many rows holds at a time: of a trained head, and of a
/// frozen one in formats of 2 and 4 bytes. They do not always grow with the rows, since columns are cut at multiples
/// of 512.
pub fn logits_held(rows: usize, vocabulary: usize) -> [usize; 3] {
    let rows = rows.clamp(1, ROWS);
    let most = [CHUNK_ELEMENTS, exponentials(2), exponentials(4)];
    most.map(|most| rows * columns_at_a_time(most, rows, vocabulary).min(vocabulary))
}

/// Columns of logits, or of what becomes of them, that are held at a time, given the most elements.
fn columns_at_a_time(most: usize, rows: usize, vocabulary: usize) -> usize {
    (most / rows / SLOT * SLOT).clamp(SLOT, vocabulary.next_multiple_of(SLOT))
}

/// The sum of the losses, and the log-sum-exp of each row's logits, of which none is kept.
fn log_sum_exps(normed: &Tensor, head: &Param, chunk: &Targets, cap: Option<SoftCap>) -> Result<(f64, Buffer<f32>)> {
    let (rows, hidden, vocabulary) = (normed.rows(), normed.cols(), head.value.rows());
    for_number!(normed.dtype(), P => {
        let x = Matrix::new(normed)?;
        let epilogue = LogSumExps::new(&chunk.next, vocabulary, cap);
        let at_a_time = if head.is_offloaded() {
            (CHUNK_ELEMENTS / hidden / LogSumExps::SLOT).max(1) * LogSumExps::SLOT
        } else {
            vocabulary
        };
        for start in (0..vocabulary).step_by(at_a_time) {
            let cols = at_a_time.min(vocabulary - start);
            let weight = HeadRows::new(head, start..start + cols)?;
            if !memory::is_dry_run() {
                let part = epilogue.from_column(start);
                head_product::<P>(rows, cols, hidden, &x, &weight.matrix()?, &part, LogSumExps::GRAIN);
            }
        }
        Ok(epilogue.finish())
    })
}

/// The gradient of `scale · sum of the losses` in the head's input, float32; adds the head's gradient if it is trained.
/// Logits are computed a second time, some columns at once, to become their gradients, in the hidden dtype.
fn backward<E: Float, P: Multiply>(
    cap: Option<SoftCap>,
    normed: &Tensor,
    head: &mut Param,
    chunk: &Targets,
    (lse, scale): (&Buffer<f32>, f32),
    on_checkpoint: &mut dyn FnMut(),
) -> Result<Tensor> {
    let (rows, hidden, vocabulary) = (normed.rows(), normed.cols(), head.value.rows());
    let at_a_time = columns_at_a_time(CHUNK_ELEMENTS, rows, vocabulary);
    let mut d_normed = Tensor::zeros((rows, hidden), DType::F32, normed.device())?;
    let mut d_head = if head.trainable {
        Some(Tensor::zeros((vocabulary, hidden), DType::F32, normed.device())?)
    } else {
        None
    };
    for start in (0..vocabulary).step_by(at_a_time) {
        let cols = at_a_time.min(vocabulary - start);
        let weight = HeadRows::new(head, start..start + cols)?;
        let mut d_logits = Tensor::new(Buffer::<E>::unwritten(rows * cols), (rows, cols));
        if memory::is_dry_run() {
            continue;
        }
        let (x, weight) = (Matrix::new(normed)?, weight.matrix()?);
        let out = Output::new(d_logits.values_mut::<E>()?, cols);
        let (next, log_sum_exps) = (chunk.next.values(), lse.values());
        let epilogue = SoftmaxGradient {
            out,
            first: start,
            next,
            log_sum_exps,
            cap,
        };
        head_product::<P>(rows, cols, hidden, &x, &weight, &epilogue, 1);
        on_checkpoint();
        let d_logits = Matrix::new(&d_logits)?;
        let out = Output::new(d_normed.values_mut::<f32>()?, hidden);
        let epilogue = AddScaled {
            out,
            factors: |_, _| [scale; TILE],
        };
        let (left, right) = (Operand::depth_last(&d_logits), Operand::depth_first(&weight));
        let terms = vec![Term::<P> {
            left,
            right,
            depth: cols,
        }];
        product(
            rows,
            &[Segment {
                cols: hidden,
                terms,
                epilogue: &epilogue,
            }],
        );
        if let Some(d_head) = &mut d_head {
            let out = &mut d_head.values_mut::<f32>()?[start * hidden..][..cols * hidden];
            let epilogue = Replace {
                out: Output::new(out, hidden),
                scale,
            };
            let (left, right) = (Operand::depth_first(&d_logits), Operand::depth_first(&x));
            let terms = vec![Term::<P> {
                left,
                right,
                depth: rows,
            }];
            product(
                cols,
                &[Segment {
                    cols: hidden,
                    terms,
                    epilogue: &epilogue,
                }],
            );
        }
    }
    if let Some(d_head) = d_head {
        head.accumulate(d_head)?;
    }
    Ok(d_normed)
}

fn backward_plain(
    cap: Option<SoftCap>,
    logits: Candle,
    normed: &Tensor,
    head: &mut Param,
    next: &Candle,
    scale: f64,
) -> Result<(f64, Tensor)> {
    let (loss, lse) = losses_plain(&logits, next)?;
    let slopes = cap.map(|cap| slopes_plain(&logits, cap)).transpose()?;
    let mut d_logits = d_logits_plain(logits, &lse, next, scale)?;
    if let Some(slopes) = slopes {
        d_logits = (d_logits * slopes)?;
    }
    if head.trainable {
        head.accumulate(Tensor::from_candle(d_logits.t()?.matmul(&normed.to_candle_f32()?)?)?)?;
    }
    Ok((loss, Tensor::from_candle(head_backward_plain(&d_logits, head)?)?))
}

/// The derivatives of capped logits.
fn slopes_plain(capped: &Candle, cap: SoftCap) -> Result<Candle> {
    (capped / f64::from(cap.0))?.sqr()?.neg()? + 1.0
}

/// The sum of `logsumexp(row) - row[next]`, and the rows' log-sum-exps `[rows, 1]`.
fn losses_plain(logits: &Candle, next: &Candle) -> Result<(f64, Candle)> {
    let max = logits.max_keepdim(D::Minus1)?;
    let lse = (logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?.log()? + max)?;
    let chosen = logits.gather(&next.unsqueeze(1)?, 1)?;
    let losses = (&lse - chosen)?.flatten_all()?.to_dtype(DType::F64)?;
    Ok((losses.sum_all()?.to_scalar::<f64>()?, lse))
}

/// `scale · (softmax(logits) - one_hot(next))`.
fn d_logits_plain(logits: Candle, lse: &Candle, next: &Candle, scale: f64) -> Result<Candle> {
    let probabilities = (logits.broadcast_sub(lse)?.exp()? * scale)?;
    drop(logits);
    let minus = (Candle::ones((next.dim(0)?, 1), DType::F32, next.device())? * -scale)?;
    probabilities.scatter_add(&next.unsqueeze(1)?, &minus, 1)
}

#[cfg(test)]
mod tests;
