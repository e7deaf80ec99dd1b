//! Scaled-dot-product attention with grouped key-value heads: the CPU's kernel, and the same in plain candle ops.
//!
//! The score matrix is never held: queries are taken in chunks, keys that no query of a chunk sees are skipped, and the
//! backward pass computes the probabilities again from the rows' log-sum-exp (Dao et al. 2022, arXiv:2205.14135). Where
//! it is causal, padding needs no mask of its own: it stands right of every counted token, which causality hides.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor as Candle};
use kernels::attention::{self, Gradients, Keys, Pattern, Saved, Scores, Shape};

use super::tensor::{Tensor, for_format, for_number};

/// Queries a chunk: its scores are `heads × QUERIES × keys` float32 at most.
const QUERIES: usize = 128;

/// `q [tokens, heads · head_dim]`, `k` and `v` `[tokens, kv_heads · head_dim]` to the output (shape and dtype of `q`)
/// and the rows' log-sum-exps (float32, `heads` a token, for [`backward`] alone to read).
pub(super) fn forward(q: &Tensor, k: &Tensor, v: &Tensor, shape: Shape, pattern: Pattern) -> Result<(Tensor, Tensor)> {
    if !q.has_kernels() {
        let [q4, k4, v4] = [q, k, v].map(|x| heads_of(x, shape));
        let (out, lse) = forward_plain(&q4?, &k4?, &v4?, shape, pattern)?;
        let out = out.to_dtype(q.dtype())?.reshape(q.dims())?;
        return Ok((Tensor::from_candle(out)?, Tensor::from_candle(lse)?));
    }
    let mut lse = Tensor::zeros(shape.sequences.tokens() * shape.heads, DType::F32, q.device())?;
    let out = for_format!(q.dtype(), E => {
        let (q_values, k, v) = (q.values::<E>()?, k.values::<E>()?, v.values::<E>()?);
        let lse = lse.values_mut::<f32>()?;
        Ok(Tensor::written(q.shape(), |out: &mut [E]| {
            for_number!(q.dtype(), P => attention::forward::<P, E>(q_values, k, v, shape, pattern, out, lse));
        }))
    })?;
    Ok((out, lse))
}

/// The gradients of q, k and v from that of the output, all in the dtype of `q`, and what the forward pass gave.
pub(super) fn backward(
    [q, k, v]: [&Tensor; 3],
    (out, lse): (&Tensor, &Tensor),
    d_out: &Tensor,
    shape: Shape,
    pattern: Pattern,
) -> Result<[Tensor; 3]> {
    let dtype = q.dtype();
    if !q.has_kernels() {
        let [q4, k4, v4, out4] = [q, k, v, out].map(|x| heads_of(x, shape));
        let d_out = heads_of(d_out, shape)?.to_dtype(DType::F32)?;
        let saved = [&q4?, &k4?, &v4?, &out4?, &lse.to_candle()?];
        let (dq, dk, dv) = backward_plain(saved, &d_out, shape, pattern)?;
        let back = |gradient: Candle, of: &Tensor| Tensor::from_candle(gradient.to_dtype(dtype)?.reshape(of.dims())?);
        return Ok([back(dq, q)?, back(dk, k)?, back(dv, v)?]);
    }
    let mut dq = Tensor::unwritten(q.shape(), dtype)?;
    let mut dk = Tensor::unwritten(k.shape(), dtype)?;
    let mut dv = Tensor::unwritten(v.shape(), dtype)?;
    if !memory::is_dry_run() {
        for_format!(dtype, E => {
            let saved = Saved {
                q: q.values::<E>()?,
                k: k.values()?,
                v: v.values()?,
                out: out.values()?,
                lse: lse.values()?,
            };
            let gradients = Gradients { q: dq.values_mut()?, k: dk.values_mut()?, v: dv.values_mut()? };
            let d_out = d_out.values::<E>()?;
            for_number!(dtype, P => attention::backward::<P, E>(&saved, d_out, shape, pattern, gradients));
            Ok(())
        })?;
    }
    Ok([dq, dk, dv])
}

/// `[tokens, heads, head_dim]` for plain ops.
fn heads_of(x: &Tensor, Shape { head_dim, .. }: Shape) -> Result<Candle> {
    x.to_candle()?.reshape((x.rows(), x.cols() / head_dim, head_dim))
}

/// The output in float32, and the log-sum-exps by sequence and in the order of the chunks.
fn forward_plain(q: &Candle, k: &Candle, v: &Candle, shape: Shape, pattern: Pattern) -> Result<(Candle, Candle)> {
    let sequences = shape.sequences;
    let mut outputs = Vec::with_capacity(sequences.count());
    let mut sums = Vec::with_capacity(sequences.count());
    for (index, tokens) in sequences.iter().enumerate() {
        let view = Grouped::new([q, k, v], &tokens, index, shape.scores, pattern)?;
        let mut chunks = Vec::new();
        let mut chunk_sums = Vec::new();
        for (start, count) in chunks_of(tokens.len()) {
            let (scores, _) = view.scores(start, count)?;
            let keys = scores.dim(2)?;
            let max = scores.max_keepdim(D::Minus1)?;
            let exps = scores.broadcast_sub(&max)?.exp()?;
            let total = exps.sum_keepdim(D::Minus1)?;
            let weights = match view.factors(start, count)? {
                None => exps,
                Some(factors) => (exps * factors)?,
            };
            let out = weights.matmul(&view.v.narrow(1, 0, keys)?)?.broadcast_div(&total)?;
            chunks.push(view.ungroup(&out, count)?);
            chunk_sums.push((max + total.log()?)?.squeeze(2)?);
        }
        outputs.push(Candle::cat(&chunks, 1)?.transpose(0, 1)?.contiguous()?);
        sums.push(Candle::cat(&chunk_sums, 1)?.flatten_all()?);
    }
    Ok((Candle::cat(&outputs, 0)?, Candle::cat(&sums, 0)?))
}

/// As [`backward`], with `sums` as [`forward_plain`] gives them.
fn backward_plain(
    [q, k, v, out, sums]: [&Candle; 5],
    d_out: &Candle,
    shape: Shape,
    pattern: Pattern,
) -> Result<(Candle, Candle, Candle)> {
    let (sequences, heads) = (shape.sequences, shape.heads);
    let scale = f64::from(shape.scores.scale);
    let (mut dqs, mut dks, mut dvs) = (Vec::new(), Vec::new(), Vec::new());
    for (index, tokens) in sequences.iter().enumerate() {
        let len = tokens.len();
        let view = Grouped::new([q, k, v], &tokens, index, shape.scores, pattern)?;
        let d_out = Grouped::heads_first(d_out, &tokens)?;
        let out = Grouped::heads_first(out, &tokens)?;
        let sums = sums.narrow(0, tokens.start * heads, len * heads)?;
        let sums = sums.reshape((heads / view.group, view.group * len))?;
        let mut dk = view.k.zeros_like()?;
        let mut dv = view.v.zeros_like()?;
        let mut chunks = Vec::new();
        let mut at = 0;
        for (start, count) in chunks_of(len) {
            let keys = view.seen(start, count);
            let rows = view.group * count;
            let (scores, slopes) = view.scores(start, count)?;
            let probabilities = scores.broadcast_sub(&sums.narrow(1, at, rows)?.unsqueeze(2)?)?.exp()?;
            at += rows;
            let d_out = view.group_rows(&d_out, start, count)?;
            let out = view.group_rows(&out, start, count)?;
            let mut dp = d_out.matmul(&view.v.narrow(1, 0, keys)?.t()?)?;
            let mut weights = probabilities.clone();
            if let Some(factors) = view.factors(start, count)? {
                dp = (dp * &factors)?;
                weights = (weights * factors)?;
            }
            dv = (dv + weights.t()?.matmul(&d_out)?.pad_with_zeros(1, 0, len - keys)?)?;
            let along = (&d_out * out)?.sum_keepdim(D::Minus1)?;
            let mut ds = (probabilities * dp.broadcast_sub(&along)?)?;
            if let Some(slopes) = slopes {
                ds = (ds * slopes)?;
            }
            chunks.push(view.ungroup(&(ds.matmul(&view.k.narrow(1, 0, keys)?)? * scale)?, count)?);
            let dk_part = (ds.t()?.matmul(&view.group_rows(&view.q, start, count)?)? * scale)?;
            dk = (dk + dk_part.pad_with_zeros(1, 0, len - keys)?)?;
        }
        dqs.push(Candle::cat(&chunks, 1)?.transpose(0, 1)?.contiguous()?);
        dks.push(dk.transpose(0, 1)?.contiguous()?);
        dvs.push(dv.transpose(0, 1)?.contiguous()?);
    }
    Ok((Candle::cat(&dqs, 0)?, Candle::cat(&dks, 0)?, Candle::cat(&dvs, 0)?))
}

fn chunks_of(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(QUERIES)
        .map(move |start| (start, QUERIES.min(len - start)))
}

/// One sequence with heads first, in float32: q `[heads, len, head_dim]`, k and v `[kv_heads, len, head_dim]`.
struct Grouped<'a> {
    pattern: Pattern<'a>,
    /// The sequence's index.
    index: usize,
    q: Candle,
    k: Candle,
    v: Candle,
    /// Query heads that share a key-value head.
    group: usize,
    scores: Scores,
}

impl<'a> Grouped<'a> {
    fn new(
        [q, k, v]: [&Candle; 3],
        tokens: &Range<usize>,
        index: usize,
        scores: Scores,
        pattern: Pattern<'a>,
    ) -> Result<Self> {
        let group = q.dim(1)? / k.dim(1)?;
        Ok(Self {
            pattern,
            index,
            q: Self::heads_first(q, tokens)?,
            k: Self::heads_first(k, tokens)?,
            v: Self::heads_first(v, tokens)?,
            group,
            scores,
        })
    }

    fn heads_first(x: &Candle, tokens: &Range<usize>) -> Result<Candle> {
        let x = x.narrow(0, tokens.start, tokens.len())?;
        x.to_dtype(DType::F32)?.transpose(0, 1)?.contiguous()
    }

    /// Rows `start .. start + count` of `[heads, len, head_dim]` as `[kv_heads, group · count, head_dim]`.
    fn group_rows(&self, x: &Candle, start: usize, count: usize) -> Result<Candle> {
        let (heads, _, head_dim) = x.dims3()?;
        x.narrow(1, start, count)?
            .contiguous()?
            .reshape((heads / self.group, self.group * count, head_dim))
    }

    /// `[kv_heads, group · count, head_dim]` as `[heads, count, head_dim]`.
    fn ungroup(&self, x: &Candle, count: usize) -> Result<Candle> {
        let (kv_heads, _, head_dim) = x.dims3()?;
        x.reshape((kv_heads * self.group, count, head_dim))
    }

    /// How many keys the queries `start .. start + count` see among them.
    fn seen(&self, start: usize, count: usize) -> usize {
        match self.pattern.keys {
            Keys::Causal | Keys::Window(_) => start + count,
            Keys::First(lengths) => lengths[self.index] as usize,
        }
    }

    /// Scaled, capped and masked scores `[kv_heads, group · count, keys]`, and their slopes if there is a cap.
    fn scores(&self, start: usize, count: usize) -> Result<(Candle, Option<Candle>)> {
        let keys = self.seen(start, count);
        let kv_heads = self.k.dim(0)?;
        let q = (self.group_rows(&self.q, start, count)? * f64::from(self.scores.scale))?;
        let scores = q.matmul(&self.k.narrow(1, 0, keys)?.t()?)?;
        let (scores, slopes) = match self.scores.cap.map(|cap| f64::from(cap.0)) {
            Some(cap) => {
                let tanh = (scores / cap)?.tanh()?;
                let slopes = (tanh.sqr()?.neg()? + 1.0)?;
                ((tanh * cap)?, Some(slopes))
            }
            None => (scores, None),
        };
        if matches!(self.pattern.keys, Keys::First(_)) {
            return Ok((scores, slopes));
        }
        let scores = scores
            .reshape((kv_heads, self.group, count, keys))?
            .broadcast_add(&self.mask(start, count)?)?
            .reshape((kv_heads, self.group * count, keys))?;
        Ok((scores, slopes))
    }

    /// `[count, start + count]`: 0 where the query sees the key, else minus infinity.
    fn mask(&self, start: usize, count: usize) -> Result<Candle> {
        let keys = start + count;
        let row = |query: usize| {
            let seen = self.pattern.seen(self.index, query);
            (0..keys).map(move |key| if seen.contains(&key) { 0.0 } else { f32::NEG_INFINITY })
        };
        let mask: Vec<f32> = (start..keys).flat_map(row).collect();
        Candle::from_vec(mask, (count, keys), self.k.device())
    }

    /// What dropout multiplies the weights of these queries by, `[kv_heads, group · count, keys]`.
    fn factors(&self, start: usize, count: usize) -> Result<Option<Candle>> {
        let Some(masks) = self.pattern.dropout else {
            return Ok(None);
        };
        let (mask, keys, kv_heads) = (masks[self.index], self.seen(start, count), self.k.dim(0)?);
        let weights = (0..kv_heads * self.group).flat_map(|head| {
            (start..start + count).flat_map(move |query| (0..keys).map(move |key| Pattern::index(head, query, key)))
        });
        let factors: Vec<f32> = weights.map(|index| mask.factor(index)).collect();
        let shape = (kv_heads, self.group * count, keys);
        Candle::from_vec(factors, shape, self.k.device()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use kernels::{Sequences, dropout::Mask, softcap::SoftCap};

    use super::*;
    use crate::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    /// `[tokens, heads, head_dim]` as `[tokens, heads · head_dim]`.
    fn flat(x: &Candle) -> Candle {
        x.flatten_from(1).unwrap()
    }

    /// Attention with the whole score matrix of each sequence, by ops that candle can differentiate.
    fn oracle(q: &Candle, k: &Candle, v: &Candle, shape: Shape, pattern: Pattern) -> Candle {
        let one = |(index, tokens): (usize, Range<usize>)| {
            let of = |x: &Candle| x.narrow(0, tokens.start, tokens.len()).unwrap();
            oracle_of_one(&of(q), &of(k), &of(v), shape.scores, index, pattern)
        };
        let outputs: Vec<Candle> = shape.sequences.iter().enumerate().map(one).collect();
        Candle::cat(&outputs, 0).unwrap()
    }

    fn oracle_of_one(q: &Candle, k: &Candle, v: &Candle, scores: Scores, index: usize, pattern: Pattern) -> Candle {
        let (len, heads, _) = q.dims3().unwrap();
        let group = heads / k.dim(1).unwrap();
        let heads_first = |x: &Candle, repeat: usize| {
            let x = x.transpose(0, 1).unwrap().contiguous().unwrap();
            let (heads, len, dim) = x.dims3().unwrap();
            let x = x.unsqueeze(1).unwrap().broadcast_as((heads, repeat, len, dim)).unwrap();
            x.contiguous().unwrap().reshape((heads * repeat, len, dim)).unwrap()
        };
        let (q, k, v) = (heads_first(q, 1), heads_first(k, group), heads_first(v, group));
        let Scores { scale, cap } = scores;
        let scores = (q.matmul(&k.t().unwrap()).unwrap() * f64::from(scale)).unwrap();
        let scores = match cap.map(|cap| f64::from(cap.0)) {
            Some(cap) => ((scores / cap).unwrap().tanh().unwrap() * cap).unwrap(),
            None => scores,
        };
        let mut mask = Vec::new();
        let mut factors = Vec::new();
        for (head, query) in (0..heads).flat_map(|head| (0..len).map(move |query| (head, query))) {
            for key in 0..len {
                let seen = match pattern.keys {
                    Keys::Causal => key <= query,
                    Keys::Window(window) => key <= query && query - key < window,
                    Keys::First(lengths) => key < lengths[index] as usize,
                };
                mask.push(if seen { 0.0 } else { f32::NEG_INFINITY });
                let of_sequence = |masks: &[Mask]| masks[index].factor(Pattern::index(head, query, key));
                factors.push(pattern.dropout.map_or(1.0, of_sequence));
            }
        }
        let whole = |values| Candle::from_vec(values, (heads, len, len), &Device::Cpu).unwrap();
        let scores = (scores + whole(mask)).unwrap();
        let exps = scores
            .broadcast_sub(&scores.max_keepdim(D::Minus1).unwrap().detach())
            .unwrap()
            .exp()
            .unwrap();
        let p = exps.broadcast_div(&exps.sum_keepdim(D::Minus1).unwrap()).unwrap();
        let p = (p * whole(factors)).unwrap();
        p.matmul(&v).unwrap().transpose(0, 1).unwrap().contiguous().unwrap()
    }

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (lengths, heads, kv_heads, dim) in [
            (&[1][..], 1, 1, 2),
            (&[15, 15], 4, 2, 6),
            (&[63], 3, 3, 5),
            (&[65, 65], 6, 2, 8),
            (&[131], 9, 3, 4),
            (&[3, 130, 1, 33], 4, 2, 6),
        ] {
            let sequences = Sequences::of(lengths.iter().copied());
            let (tokens, longest) = (sequences.tokens(), sequences.longest());
            let shape = Shape {
                sequences: &sequences,
                heads,
                kv_heads,
                head_dim: dim,
                scores: Scores::of(dim),
            };
            let capped = Shape {
                scores: Scores {
                    scale: 0.9,
                    cap: Some(SoftCap(1.5)),
                },
                ..shape
            };
            let q = uniform("q", &[tokens, heads, dim]);
            let k = uniform("k", &[tokens, kv_heads, dim]);
            let v = uniform("v", &[tokens, kv_heads, dim]);
            let dy = uniform("dy", &[tokens, heads, dim]);
            let lengths: Vec<u32> = (0..)
                .zip(lengths)
                .map(|(index, &len)| (len - index % 3 * len / 3) as u32)
                .collect();
            let masks: Vec<Mask> = (9..).take(lengths.len()).map(|key| Mask::new(key, 0.3)).collect();
            let (first, dropout) = (Keys::First(&lengths), Some(masks.as_slice()));
            for (shape, keys, dropout) in [
                (shape, Keys::Causal, None),
                (shape, Keys::Causal, dropout),
                (shape, first, None),
                (shape, first, dropout),
                (shape, Keys::Window(1000), None),
                (shape, Keys::Window(5), None),
                (shape, Keys::Window(33), dropout),
                (capped, Keys::Causal, None),
                (capped, Keys::Window(64), dropout),
            ] {
                let pattern = Pattern { keys, dropout };
                let want = flat(&oracle(&q, &k, &v, shape, pattern));
                let gradients = autograd(&[&q, &k, &v], &dy, |inputs| {
                    oracle(&inputs[0], &inputs[1], &inputs[2], shape, pattern)
                });
                let check = |what: &str| {
                    let qkv = [&q, &k, &v].map(|values| tensor(&flat(values)));
                    let (out, lse) = forward(&qkv[0], &qkv[1], &qkv[2], shape, pattern).unwrap();
                    assert_close(&out, &want, 1e-5, what);
                    let dy = tensor(&flat(&dy));
                    let got = backward(qkv.each_ref(), (&out, &lse), &dy, shape, pattern).unwrap();
                    for ((got, want), name) in got.iter().zip(&gradients).zip(["dq", "dk", "dv"]) {
                        // With one key, neither queries nor keys change anything.
                        if longest > 1 || name == "dv" {
                            let what = format!("{name} by {what}, {sequences:?}, {pattern:?}");
                            assert_close(got, &flat(want), 3e-5, &what);
                        }
                    }
                };
                check("kernel");
                with_plain_ops(|| check("plain ops"));
            }
        }
    }

    #[test]
    fn later_tokens_do_not_reach_earlier_ones() {
        let attend = |x: &Candle| {
            let x = tensor(x);
            let shape = Shape {
                sequences: &Sequences::even(1, x.rows()),
                heads: 2,
                kv_heads: 2,
                head_dim: 4,
                scores: Scores::of(4),
            };
            let (out, _) = forward(&x, &x, &x, shape, Pattern::CAUSAL).unwrap();
            out.to_candle().unwrap()
        };
        let x = uniform("x", &[20, 8]);
        let part = attend(&x.narrow(0, 0, 7).unwrap());
        assert_close(&part, &attend(&x).narrow(0, 0, 7).unwrap(), 1e-6, "prefix");
    }
}
