//! Products over the heads of interleaved tensors: `[tokens, heads · head_dim]` for queries, with `kv_heads` for keys.

use std::ops::Range;

use candle_core::Result;
use kernels::{
    attention::Shape,
    gemm::{
        Dense, Epilogue, Operand, Segment, Term,
        epilogue::{Output, Replace},
        multiply::Multiply,
        product,
    },
};

use super::{
    parts::{parts, size},
    plain,
};
use crate::tensor::{Tensor, for_format, for_number};

/// `scale · Q Kᵀ` of each head, in the dtype of `q`: a row for each query, a column for each key.
pub(super) fn scores(q: &Tensor, k: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    if !q.has_kernels() {
        return plain::scores(q, k, shape, scale);
    }
    for_format!(q.dtype(), E => for_number!(q.dtype(), P => {
        let (q, k) = (q.values::<E>()?, k.values::<E>()?);
        Ok(Tensor::written(size(shape), |out: &mut [E]| {
            for head in heads(shape) {
                let (q, k) = (head.queries(q), head.keys(k));
                let (left, right) = (Operand::depth_last(&q), Operand::depth_last(&k));
                let terms = vec![Term::<P> { left, right, depth: shape.head_dim }];
                let len = head.tokens.len();
                let out = Output::new(&mut out[head.scores..][..len * len], len);
                head.multiply(len, terms, &Replace { out, scale });
            }
        }))
    }))
}

/// `scale · S V` of each head, a row for each query: the shape of queries, the dtype of `v`.
pub(super) fn over_keys(s: &Tensor, v: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    if !s.has_kernels() {
        return plain::over_keys(s, v, shape, scale);
    }
    let width = shape.heads * shape.head_dim;
    for_format!(s.dtype(), E => for_number!(s.dtype(), P => {
        let (s, v) = (s.values::<E>()?, v.values::<E>()?);
        Ok(Tensor::written((shape.sequences.tokens(), width), |out: &mut [E]| {
            for head in heads(shape) {
                let (s, v) = (head.scores(s), head.keys(v));
                let (left, right) = (Operand::depth_last(&s), Operand::depth_first(&v));
                let terms = vec![Term::<P> { left, right, depth: head.tokens.len() }];
                let out = head.output(out, width, head.head);
                head.multiply(shape.head_dim, terms, &Replace { out, scale });
            }
        }))
    }))
}

/// `scale · Sᵀ Q`, summed over the heads that share a key: the shape of keys, the dtype of `q`.
pub(super) fn over_queries(s: &Tensor, q: &Tensor, shape: Shape, scale: f32) -> Result<Tensor> {
    if !s.has_kernels() {
        return plain::over_queries(s, q, shape, scale);
    }
    let (width, group) = (shape.kv_heads * shape.head_dim, shape.heads / shape.kv_heads);
    for_format!(s.dtype(), E => for_number!(s.dtype(), P => {
        let (s, q) = (s.values::<E>()?, q.values::<E>()?);
        Ok(Tensor::written((shape.sequences.tokens(), width), |out: &mut [E]| {
            let all: Vec<Head> = heads(shape).collect();
            for sharing in all.chunks(group) {
                let operands: Vec<_> = sharing.iter().map(|head| (head.scores(s), head.queries(q))).collect();
                let terms = operands.iter().map(|(s, q)| {
                    let (left, right) = (Operand::depth_first(s), Operand::depth_first(q));
                    Term::<P> { left, right, depth: sharing[0].tokens.len() }
                });
                let out = sharing[0].output(out, width, sharing[0].head / group);
                sharing[0].multiply(shape.head_dim, terms.collect(), &Replace { out, scale });
            }
        }))
    }))
}

/// A head of one sequence's queries.
struct Head<'a> {
    shape: Shape<'a>,
    tokens: Range<usize>,
    head: usize,
    /// The first element of its scores, `[len, len]`.
    scores: usize,
}

/// Every head of every sequence; those that share a head of keys stand together.
fn heads(shape: Shape<'_>) -> impl Iterator<Item = Head<'_>> {
    parts(shape).flat_map(move |(tokens, part)| {
        (0..shape.heads).map(move |head| Head {
            shape,
            head,
            scores: part.start + head * tokens.len() * tokens.len(),
            tokens: tokens.clone(),
        })
    })
}

impl Head<'_> {
    /// `[len, head_dim]` of a tensor of queries.
    fn queries<'v, E>(&self, values: &'v [E]) -> Dense<'v, E> {
        self.of(values, self.shape.heads, self.head)
    }

    /// `[len, head_dim]` of a tensor of keys or values.
    fn keys<'v, E>(&self, values: &'v [E]) -> Dense<'v, E> {
        let Shape { heads, kv_heads, .. } = self.shape;
        self.of(values, kv_heads, self.head * kv_heads / heads)
    }

    fn of<'v, E>(&self, values: &'v [E], heads: usize, head: usize) -> Dense<'v, E> {
        let Shape { head_dim, .. } = self.shape;
        let width = heads * head_dim;
        Dense::new(&values[self.tokens.start * width + head * head_dim..], width)
    }

    /// `[len, len]` of the scores.
    fn scores<'v, E>(&self, values: &'v [E]) -> Dense<'v, E> {
        Dense::new(&values[self.scores..], self.tokens.len())
    }

    /// The columns of a head in the sequence's rows, `width` elements each.
    fn output<'v, E>(&self, values: &'v mut [E], width: usize, head: usize) -> Output<'v, E> {
        let rows = self.tokens.start * width..self.tokens.end * width;
        Output::window(&mut values[rows], width, head * self.shape.head_dim)
    }

    /// The sum of the terms, `[len, cols]`.
    fn multiply<P: Multiply>(&self, cols: usize, terms: Vec<Term<P>>, epilogue: &dyn Epilogue) {
        product(self.tokens.len(), &[Segment { cols, terms, epilogue }]);
    }
}
