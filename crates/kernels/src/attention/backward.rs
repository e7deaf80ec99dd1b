//! The gradients: those of keys and values are sums over the queries, those of queries over the keys.

use std::{cell::RefCell, cmp::Reverse, ops::Range};

use rayon::prelude::*;
use trace::Category;

use super::{
    destination::Destination,
    head::Head,
    number::Number,
    pattern::{Pattern, SequencePattern},
    query_block::{Both, KEYS, QUERIES, QueryBlock, Scratch},
    shape::{SequenceShape, Shape},
    stats::RowPartials,
    weights::totals,
};
use crate::Dispatch as _;
use crate::{
    Element, InstructionSet,
    gemm::{
        Operand, OperandReader,
        block::{BLOCK, Block, TILE},
        epilogue::Output,
        multiply::Session,
        operand::FromFormat,
        pack::{pack_left, pack_right},
    },
};

/// The inputs and outputs of the forward pass, in the hidden format.
#[derive(Debug)]
pub struct Saved<'a, E> {
    /// Queries, `[tokens, heads, head_dim]`.
    pub q: &'a [E],
    /// Keys, `[tokens, kv_heads, head_dim]`.
    pub k: &'a [E],
    /// Values, in the shape of the keys.
    pub v: &'a [E],
    /// The output, in the shape of the queries.
    pub out: &'a [E],
    /// Log-sum-exps of the scaled scores, sequence after sequence `[heads, len]`.
    pub lse: &'a [f32],
}

/// The gradients of q, k and v, in their shapes.
#[derive(Debug)]
pub struct Gradients<'a, E> {
    /// Gradient of the queries.
    pub q: &'a mut [E],
    /// Gradient of the keys.
    pub k: &'a mut [E],
    /// Gradient of the values.
    pub v: &'a mut [E],
}

/// Writes the gradients, given that of the output.
///
/// # Panics
/// Where a slice is not of the shape's size, or the pattern is not for these sequences.
pub fn backward<P, E>(saved: &Saved<E>, d_out: &[E], shape: Shape, pattern: Pattern, gradients: Gradients<E>)
where
    P: Number + FromFormat<E>,
    E: Element,
{
    assert!(saved.q.len() == shape.queries() && saved.out.len() == saved.q.len() && d_out.len() == saved.q.len());
    assert!(saved.k.len() == shape.keys() && saved.v.len() == saved.k.len());
    assert_eq!(saved.lse.len(), shape.sequences.tokens() * shape.heads);
    assert!(pattern.fits(shape.sequences), "{pattern:?}");
    assert!(gradients.q.len() == saved.q.len());
    assert!(gradients.k.len() == saved.k.len() && gradients.v.len() == saved.k.len());
    if saved.q.is_empty() {
        return;
    }
    let (query_width, key_width) = (shape.query_width(), shape.key_width());
    let split = |values, width| shape.sequences.split_mut(values, width).into_iter();
    let (q, k, v) = (
        split(gradients.q, query_width),
        split(gradients.k, key_width),
        split(gradients.v, key_width),
    );
    let outputs: Vec<Outputs<E>> = q
        .zip(k.zip(v))
        .map(|(q, (k, v))| Outputs {
            q: Output::new(q, query_width),
            k: Output::new(k, key_width),
            v: Output::new(v, key_width),
        })
        .collect();
    let sequences = shape.sequences.iter().zip(&outputs).enumerate();
    let mut items: Vec<Item<E>> = sequences
        .flat_map(|(index, (tokens, outputs))| {
            let queries = tokens.start * query_width..tokens.end * query_width;
            let keys = tokens.start * key_width..tokens.end * key_width;
            (0..shape.kv_heads).map(move |kv_head| Item {
                saved: Saved {
                    q: &saved.q[queries.clone()],
                    k: &saved.k[keys.clone()],
                    v: &saved.v[keys.clone()],
                    out: &saved.out[queries.clone()],
                    lse: &saved.lse[tokens.start * shape.heads..tokens.end * shape.heads],
                },
                d_out: &d_out[queries.clone()],
                shape: shape.of_sequence(tokens.len()),
                pattern: pattern.of_sequence(index),
                kv_head,
                outputs,
            })
        })
        .collect();
    // The longest first.
    items.sort_by_key(|item| Reverse(item.shape.len));
    let level = InstructionSet::current();
    items.par_iter().with_max_len(1).for_each(|item| {
        let _scope = memory::scope(Category::Host);
        SCRATCH.with_borrow_mut(|scratch| {
            let session = Session::new(level);
            if !item.compute::<P>(&session, scratch, false) {
                item.compute::<P>(&session, scratch, true);
            }
        });
    });
}

struct Outputs<'a, E> {
    q: Output<'a, E>,
    k: Output<'a, E>,
    v: Output<'a, E>,
}

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());

/// A head of keys and values of a sequence with the heads of queries it serves.
struct Item<'a, E> {
    saved: Saved<'a, E>,
    d_out: &'a [E],
    shape: SequenceShape,
    pattern: SequencePattern,
    kv_head: usize,
    outputs: &'a Outputs<'a, E>,
}

impl<E: Element> Item<'_, E> {
    /// True if all sums of the gradients are finite. What is not is masked only with `checks_finite`.
    fn compute<P: Number + FromFormat<E>>(
        &self,
        session: &Session,
        scratch: &mut Scratch,
        checks_finite: bool,
    ) -> bool {
        let shape = self.shape;
        let row = &mut Vec::<P>::new();
        self.pack_keys(session.level(), scratch, row);
        for sums in [&mut scratch.dk, &mut scratch.dv] {
            sums.clear();
            sums.resize(shape.padded() / TILE * shape.panels(), Block::ZERO);
        }
        let mut finite = true;
        let mut rounds = self.rounds().peekable();
        while let Some((head, queries)) = rounds.next() {
            self.pack_queries(session.level(), head, queries.clone(), scratch, row);
            self.compute_delta(session.level(), head, queries.clone(), scratch, row);
            let mut ahead = self.ahead(head, queries.clone(), rounds.peek().cloned());
            let round = QueryBlock {
                session,
                shape,
                pattern: self.pattern,
                head,
                queries,
                checks_finite,
            };
            let end = self.pattern.end(round.queries.end - TILE);
            let start = self.pattern.start(round.queries.start);
            for start in (start..end).step_by(KEYS) {
                let keys = start..end.min(start + KEYS);
                round.take_keys::<P>(keys.clone(), scratch, || ahead.ask());
                round.finish_keys::<P>(keys, scratch);
            }
            finite &= self.write_queries(&round, head, scratch);
        }
        let level = session.level();
        let k_finite = self.write_keys(level, &self.outputs.k, shape.scores.scale, &scratch.dk);
        let keep = self.pattern.dropped(self.kv_head);
        let keep = keep.map_or(1.0, |dropped| dropped.keep());
        let v_finite = self.write_keys(level, &self.outputs.v, keep, &scratch.dv);
        finite && k_finite && v_finite
    }

    /// Heads and their queries, some at a time.
    fn rounds(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<E> {
        let (group, end) = (self.shape.group(), self.shape.padded());
        (self.kv_head * group..(self.kv_head + 1) * group).flat_map(move |head| {
            (0..end)
                .step_by(QUERIES)
                .map(move |start| (head, start..end.min(start + QUERIES)))
        })
    }

    fn ahead(&self, head: usize, queries: Range<usize>, next: Option<(usize, Range<usize>)>) -> Ahead<'_, E> {
        let (next_head, next) = next.unwrap_or((head, 0..0));
        let of_next = |values| Head::new(values, self.shape, self.shape.heads, next_head);
        Ahead {
            read: [self.saved.q, self.saved.out, self.d_out].map(of_next),
            next,
            written: self.destination(&self.outputs.q, head),
            queries,
        }
    }

    fn destination<'a>(&self, out: &'a Output<'a, E>, head: usize) -> Destination<'a, E> {
        Destination {
            out,
            head,
            shape: self.shape,
        }
    }

    fn pack_keys<P: Number + FromFormat<E>>(&self, level: InstructionSet, scratch: &mut Scratch, row: &mut Vec<P>) {
        let shape = self.shape;
        let blocks = shape.padded() / TILE;
        let positions = self.pattern.key_positions(shape.len);
        let of_keys = |values| Head::new(values, shape, shape.kv_heads, self.kv_head).first(positions);
        let (k, v) = (of_keys(self.saved.k), of_keys(self.saved.v));
        let len = P::packed_len(shape.head_dim);
        let k_rows = scratch.k_rows.of::<P>(blocks * len);
        let v_rows = scratch.v_rows.of::<P>(blocks * len);
        let k_columns = scratch.k_columns.of::<P>(shape.panels() * blocks * BLOCK);
        for block in 0..blocks {
            let keys = block * TILE..block * TILE + TILE;
            let dimensions = 0..shape.head_dim;
            k.prefetch_rows(keys.start + TILE..keys.end + TILE);
            v.prefetch_rows(keys.start + TILE..keys.end + TILE);
            let k_row = &mut k_rows[block * len..][..len];
            pack_left(
                level,
                Operand::depth_last(&k),
                keys.clone(),
                dimensions.clone(),
                k_row,
                row,
            );
            let v_row = &mut v_rows[block * len..][..len];
            pack_left(level, Operand::depth_last(&v), keys.clone(), dimensions, v_row, row);
            for panel in 0..shape.panels() {
                let out = &mut k_columns[(panel * blocks + block) * BLOCK..][..BLOCK];
                pack_left(
                    level,
                    Operand::depth_first(&k),
                    shape.panel(panel),
                    keys.clone(),
                    out,
                    row,
                );
            }
        }
    }

    fn pack_queries<P: Number + FromFormat<E>>(
        &self,
        level: InstructionSet,
        head: usize,
        queries: Range<usize>,
        scratch: &mut Scratch,
        row: &mut Vec<P>,
    ) {
        let shape = self.shape;
        let q = Head::new(self.saved.q, shape, shape.heads, head);
        let d_out = Head::new(self.d_out, shape, shape.heads, head);
        let mut pack = |source: &dyn OperandReader<P>, to: &mut Both| {
            let len = queries.len() / TILE * P::packed_len(shape.head_dim);
            let out = to.dimensions.of::<P>(len);
            pack_right(
                level,
                Operand::depth_last(source),
                queries.clone(),
                0..shape.head_dim,
                out,
                row,
            );
            let out = to.queries.of::<P>(shape.panels() * queries.len() * TILE);
            pack_right(
                level,
                Operand::depth_first(source),
                0..shape.head_dim,
                queries.clone(),
                out,
                row,
            );
        };
        pack(&q, &mut scratch.q);
        pack(&d_out, &mut scratch.d_out);
    }

    /// Each query's log-sum-exp and `d_out · out`; zeros below.
    fn compute_delta<P: Number + FromFormat<E>>(
        &self,
        level: InstructionSet,
        head: usize,
        queries: Range<usize>,
        scratch: &mut Scratch,
        row: &mut Vec<P>,
    ) {
        let SequenceShape {
            len, heads, head_dim, ..
        } = self.shape;
        let lse = &self.saved.lse[head * len..][..len];
        scratch.lse.clear();
        scratch.lse.extend_from_slice(&lse[queries.start..queries.end.min(len)]);
        scratch.lse.resize(queries.len(), 0.0);
        scratch.delta.resize(queries.len(), 0.0);
        row.resize(2 * head_dim, P::ZERO);
        let (row, d_row) = row.split_at_mut(head_dim);
        let [out, d_out] = [self.saved.out, self.d_out].map(|x| Head::new(x, self.shape, heads, head));
        for (block, delta) in scratch.delta.as_chunks_mut().0.iter_mut().enumerate() {
            let mut parts: RowPartials = [[0.0; 16]; TILE];
            for (query, parts) in (queries.start + block * TILE..).zip(&mut parts) {
                let (out, d_out) = (out.row(query, 0..head_dim, row), d_out.row(query, 0..head_dim, d_row));
                P::add_products(level, out, d_out, parts);
            }
            *delta = totals(level, &parts);
        }
    }

    fn write_queries(&self, round: &QueryBlock, head: usize, scratch: &mut Scratch) -> bool {
        let level = round.session.level();
        let destination = self.destination(&self.outputs.q, head);
        let blocks = round.queries.len() / TILE;
        scratch.transposed.resize(self.shape.panels(), Block::ZERO);
        let mut finite = true;
        for (at, first) in round.queries.clone().step_by(TILE).enumerate() {
            for (panel, transposed) in scratch.transposed.iter_mut().enumerate() {
                scratch.dq[panel * blocks + at].transpose_into(level, transposed);
            }
            // SAFETY: an item has these heads to itself, and a round these queries.
            finite &= unsafe { destination.write(level, first, &scratch.transposed, &[self.shape.scores.scale; TILE]) };
        }
        finite
    }

    fn write_keys(&self, level: InstructionSet, out: &Output<E>, scale: f32, sums: &[Block]) -> bool {
        let destination = self.destination(out, self.kv_head);
        let mut finite = true;
        for (block, sums) in sums.chunks_exact(self.shape.panels()).enumerate() {
            let first = block * TILE;
            destination.prefetch(first + TILE..first + 2 * TILE);
            // SAFETY: an item has this head to itself.
            finite &= unsafe { destination.write(level, first, sums, &[scale; TILE]) };
        }
        finite
    }
}

/// What is asked for while a round is computed: what the next one reads, and where this one's gradients go.
struct Ahead<'a, E> {
    read: [Head<'a, E>; 3],
    next: Range<usize>,
    written: Destination<'a, E>,
    queries: Range<usize>,
}

impl<E: Element> Ahead<'_, E> {
    /// Asks for some positions more: enough for a round that asks once a pair of blocks.
    fn ask(&mut self) {
        const POSITIONS: usize = 8;
        for head in &self.read {
            head.prefetch_rows(self.next.start..self.next.end.min(self.next.start + POSITIONS));
        }
        self.next.start = self.next.end.min(self.next.start + POSITIONS);
        let end = self.queries.end.min(self.queries.start + POSITIONS);
        self.written.prefetch(self.queries.start..end);
        self.queries.start = end;
    }
}
