//! The output, by a running softmax over the keys (Milakov and Gimelshein 2018, arXiv:1805.02867).

use std::{cell::RefCell, cmp::Reverse, ops::Range};

use rayon::prelude::*;
use trace::Category;

use super::{
    destination::Destination,
    head::Head,
    masked::{Masked, is_finite, multiply_masked},
    number::Number,
    pattern::{Hidden, Pattern, SequencePattern},
    shape::{SequenceShape, Shape},
    stats::{ForwardStats, RowPartials},
    weights::{larger, largest, totals, update_max},
};
use crate::Dispatch as _;
use crate::{
    Element, InstructionSet,
    gemm::{
        Operand,
        block::{BLOCK, Block, TILE},
        epilogue::Output,
        factors::{Factors, Left, Right},
        multiply::Session,
        operand::FromFormat,
        pack::{pack_left, pack_right},
        scratch::Buffer,
    },
};

/// Keys of a round: their scores with a block of queries and their packed operands stay in the second-level cache.
const KEYS: usize = 512;
/// Sums that an item holds, in bytes.
const SUMS: usize = 512 * 1024;
/// Items a thread, where there are so many: they are not of one size.
const ITEMS: usize = 4;

/// Writes the output (shape of `q`) and, sequence after sequence, the log-sum-exps `[heads, len]`.
///
/// # Panics
/// Where a slice is not of the shape's size, or the pattern is not for these sequences.
pub fn forward<P, E>(q: &[E], k: &[E], v: &[E], shape: Shape, pattern: Pattern, out: &mut [E], lse: &mut [f32])
where
    P: Number + FromFormat<E>,
    E: Element,
{
    assert!(q.len() == shape.queries() && out.len() == q.len());
    assert!(k.len() == shape.keys() && v.len() == k.len());
    assert_eq!(lse.len(), shape.sequences.tokens() * shape.heads);
    assert!(pattern.fits(shape.sequences), "{pattern:?}");
    if q.is_empty() {
        return;
    }
    let outs = shape.sequences.split_mut(out, shape.query_width());
    let lses = shape.sequences.split_mut(lse, shape.heads);
    let outputs = shape.sequences.iter().zip(outs.into_iter().zip(lses)).enumerate();
    let sequences: Vec<Sequence<E>> = outputs
        .map(|(index, (tokens, (out, lse)))| {
            let keys = tokens.start * shape.key_width()..tokens.end * shape.key_width();
            Sequence {
                shape: shape.of_sequence(tokens.len()),
                pattern: pattern.of_sequence(index),
                q: &q[tokens.start * shape.query_width()..tokens.end * shape.query_width()],
                k: &k[keys.clone()],
                v: &v[keys],
                out: Output::new(out, shape.query_width()),
                lse: Output::new(lse, tokens.len()),
            }
        })
        .collect();
    let level = InstructionSet::current();
    let items = items(shape);
    items.par_iter().with_max_len(1).for_each(|item| {
        let _scope = memory::scope(Category::Host);
        SCRATCH.with_borrow_mut(|scratch| {
            let sequence = &sequences[item.sequence];
            let Sequence { shape, pattern, .. } = *sequence;
            let of_keys = |values| {
                let head = Head::new(values, shape, shape.kv_heads, item.kv_head);
                head.first(pattern.key_positions(shape.len))
            };
            let mut worker = Worker::<P, E> {
                k: of_keys(sequence.k),
                v: of_keys(sequence.v),
                sequence,
                shape,
                pattern,
                item,
                session: Session::new(level),
                scratch,
                row: Vec::new(),
                checks_finite: false,
            };
            if !worker.run() {
                worker.checks_finite = true;
                worker.run();
            }
        });
    });
}

/// The inputs and outputs of a sequence.
struct Sequence<'a, E> {
    shape: SequenceShape,
    pattern: SequencePattern,
    q: &'a [E],
    k: &'a [E],
    v: &'a [E],
    out: Output<'a, E>,
    lse: Output<'a, f32>,
}

/// What a thread computes at a time: some queries of all heads that share a head of keys and values.
struct Item {
    sequence: usize,
    kv_head: usize,
    /// From a block's first on.
    queries: Range<usize>,
}

/// The longest first. How queries are cut up does not change what is computed for each.
fn items(shape: Shape) -> Vec<Item> {
    let heads = shape.sequences.count() * shape.kv_heads;
    let wanted = (ITEMS * rayon::current_num_threads()).div_ceil(heads);
    let of_sequence = |(sequence, tokens): (usize, Range<usize>)| {
        let of_one = shape.of_sequence(tokens.len());
        let fitting = SUMS / (of_one.group() * of_one.panels() * size_of::<Block>());
        let blocks = of_one.len.div_ceil(TILE).div_ceil(wanted).clamp(1, fitting.max(1));
        (0..of_one.kv_heads).flat_map(move |kv_head| {
            (0..of_one.len).step_by(blocks * TILE).map(move |start| Item {
                sequence,
                kv_head,
                queries: start..of_one.len.min(start + blocks * TILE),
            })
        })
    };
    let mut items: Vec<Item> = shape.sequences.iter().enumerate().flat_map(of_sequence).collect();
    items.sort_by_key(|item| Reverse(item.queries.end));
    items
}

/// The running softmax of a block of queries: of the scaled scores so far the largest, and the sum of what they exceed
/// it by, exponentiated.
#[derive(Clone, Copy)]
struct Running {
    max: [f32; TILE],
    sum: [f32; TILE],
}

impl Running {
    const NOTHING: Self = Self {
        max: [f32::NEG_INFINITY; TILE],
        sum: [0.0; TILE],
    };
}

/// A thread's memory, kept from call to call.
#[derive(Default)]
struct Scratch {
    /// Packed: keys as right panels, values as right panels, a block of queries and one of weights on the left.
    keys: Buffer,
    values: Buffer,
    queries: Buffer,
    weights: Buffer,
    scores: Vec<Block>,
    /// Of each head and block of queries: a block a panel.
    sums: Vec<Block>,
    running: Vec<Running>,
}

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());

/// A thread with an item.
struct Worker<'a, P, E> {
    k: Head<'a, E>,
    v: Head<'a, E>,
    sequence: &'a Sequence<'a, E>,
    shape: SequenceShape,
    pattern: SequencePattern,
    item: &'a Item,
    session: Session,
    scratch: &'a mut Scratch,
    row: Vec<P>,
    /// Whether to look for what is not finite.
    checks_finite: bool,
}

impl<P: Number + FromFormat<E>, E: Element> Worker<'_, P, E> {
    /// True if all sums of the output are finite.
    fn run(&mut self) -> bool {
        let blocks = self.item.queries.len().div_ceil(TILE);
        let heads = self.item.kv_head * self.shape.group()..(self.item.kv_head + 1) * self.shape.group();
        let blocks_of_heads = heads.len() * blocks;
        self.scratch.running.clear();
        self.scratch.running.resize(blocks_of_heads, Running::NOTHING);
        let sums = (blocks_of_heads * self.shape.panels()).max(self.scratch.sums.len());
        self.scratch.sums.resize(sums, Block::ZERO);
        self.scratch.scores.resize(KEYS / TILE, Block::ZERO);

        let last = self.item.queries.start + (blocks - 1) * TILE;
        let end = self.pattern.end(last);
        let mut finite = true;
        for start in (self.pattern.start(self.item.queries.start)..end).step_by(KEYS) {
            let keys = start..end.min(start + KEYS);
            self.pack_keys(keys.clone());
            let queries = heads
                .clone()
                .flat_map(|head| (0..blocks).map(move |block| (head, block)));
            for (index, (head, block)) in queries.enumerate() {
                let first = self.item.queries.start + block * TILE;
                if self.pattern.end(first) > start && self.pattern.start(first) < keys.end {
                    finite &= self.attend(keys.clone(), index, head, first);
                }
            }
        }
        finite
    }

    fn pack_keys(&mut self, keys: Range<usize>) {
        let (level, row) = (self.session.level(), &mut self.row);
        let SequenceShape { head_dim, .. } = self.shape;
        let out = self.scratch.keys.of(keys.len() / TILE * P::packed_len(head_dim));
        pack_right(level, Operand::depth_last(&self.k), keys.clone(), 0..head_dim, out, row);
        let out = self.scratch.values.of(self.shape.panels() * keys.len() * TILE);
        pack_right(level, Operand::depth_first(&self.v), 0..head_dim, keys, out, row);
    }

    /// Adds the values of some keys to the sums of a head's queries from `first` on, which are block `index` of the
    /// item's. Writes their output after the last key. Returns true if its sums are finite.
    fn attend(&mut self, keys: Range<usize>, index: usize, head: usize, first: usize) -> bool {
        let level = self.session.level();
        let (first_seen, end) = (self.pattern.start(first), self.pattern.end(first));
        let left_out = first_seen.saturating_sub(keys.start) / TILE;
        let seen = left_out..(keys.end.min(end) - keys.start) / TILE;
        // Sums have something of keys before these.
        let accumulates = keys.start > first_seen;
        let last = keys.end >= end;
        let dropped = self.pattern.dropped(head);
        let destination = Destination {
            out: &self.sequence.out,
            head,
            shape: self.shape,
        };
        if last {
            destination.prefetch(first..first + TILE);
        }
        let maxima = self.score(head, first, keys.start, seen.clone());
        let running = &mut self.scratch.running[index];
        let (mut round, factors) = begin(level, running, &maxima, self.shape.scores.scale);
        let weights = self.scratch.weights.of::<P>(KEYS * TILE);
        let blocks = weights.as_chunks_mut().0;
        for (scores, weights) in self.scratch.scores[seen.clone()].iter().zip(&mut blocks[seen.clone()]) {
            P::softmax_block(level, scores, &mut round, weights);
        }
        if let Some(dropped) = dropped {
            for (at, weights) in seen.clone().zip(&mut blocks[seen.clone()]) {
                dropped.drop_weights(level, first, keys.start + at * TILE, weights);
            }
        }
        for ((sum, total), factor) in running.sum.iter_mut().zip(totals(level, &round.sums)).zip(&factors) {
            *sum = *sum * factor + total;
        }

        let sums = &mut self.scratch.sums[index * self.shape.panels()..][..self.shape.panels()];
        let values = self.scratch.values.get::<P>().chunks_exact(keys.len() * TILE);
        let weights = &weights[seen.start * BLOCK..];
        // The block on the diagonal is the last.
        let is_causal = last && self.pattern.hidden(first, end - TILE).hides_later();
        for (panel, (sum, values)) in sums.iter_mut().zip(values).enumerate() {
            let values = &values[seen.start * BLOCK..];
            if accumulates && factors != [1.0; TILE] {
                multiply_rows(level, sum, &factors);
            }
            let on_diagonal = &values[(seen.len() - 1) * BLOCK..][..BLOCK];
            let masked = (self.checks_finite && is_causal && !is_finite(on_diagonal)).then_some(Masked {
                block: seen.len() - 1,
                counts: |row, place, _| place <= row,
            });
            let size = (TILE, self.shape.panel(panel).len());
            multiply_masked(
                &self.session,
                (weights, values, seen.len()),
                masked,
                size,
                sum,
                accumulates,
            );
        }
        if !last {
            return true;
        }
        // SAFETY: items have no head and queries in common, and these have seen all keys once.
        unsafe {
            let lse = self.sequence.lse.row(head, first..self.shape.len.min(first + TILE));
            for ((to, max), sum) in lse.iter_mut().zip(running.max).zip(running.sum) {
                *to = max + sum.ln();
            }
            let keep = dropped.map_or(1.0, |dropped| dropped.keep());
            destination.write(level, first, sums, &running.sum.map(|sum| keep / sum))
        }
    }

    /// Scores a head's queries from `first` on with the blocks `seen` of the packed keys, which begin at `start`.
    /// Returns their maxima.
    fn score(&mut self, head: usize, first: usize, start: usize, seen: Range<usize>) -> [f32; TILE] {
        let level = self.session.level();
        let SequenceShape { heads, head_dim, .. } = self.shape;
        let len = P::packed_len(head_dim);
        let q = Head::new(self.sequence.q, self.shape, heads, head);
        let (operand, block) = (Operand::depth_last(&q), first..self.shape.len.min(first + TILE));
        let lent = Left::lent(level, operand, block.clone(), 0..head_dim, seen.len());
        let queries = lent.unwrap_or_else(|| {
            let queries = self.scratch.queries.of::<P>(len);
            pack_left(level, operand, block, 0..head_dim, queries, &mut self.row);
            Left::packed(queries, head_dim)
        });
        q.prefetch_rows(first + TILE..first + 2 * TILE);
        let mut maxima: RowPartials = [[f32::NEG_INFINITY; 16]; TILE];
        let keys = self.scratch.keys.get::<P>().chunks_exact(len);
        let blocks = self.scratch.scores.iter_mut().zip(keys).enumerate();
        for (at, (scores, keys)) in blocks.take(seen.end).skip(seen.start) {
            let factors = Factors {
                left: queries,
                right: Right::Panel(keys),
                depth: head_dim,
            };
            P::multiply_all(&self.session, &[factors], (TILE, TILE), scores, false);
            self.shape.scores.cap(level, scores);
            hide(scores, self.pattern.hidden(first, start + at * TILE));
            update_max(level, &mut maxima, scores);
        }
        largest(level, &maxima)
    }
}

fn hide(scores: &mut Block, hidden: Hidden) {
    if hidden == Hidden::Nothing {
        return;
    }
    for row in 0..TILE {
        let seen = hidden.seen_keys(row);
        let scores = scores.row_mut(row);
        scores[..seen.start].fill(f32::NEG_INFINITY);
        scores[seen.end..].fill(f32::NEG_INFINITY);
    }
}

/// Takes the largest products of a round into the running softmax. Returns the round, and what the sums so far are to
/// be multiplied by.
fn begin(
    level: InstructionSet,
    running: &mut Running,
    maxima: &[f32; TILE],
    scale: f32,
) -> (ForwardStats, [f32; TILE]) {
    level.compute(
        #[inline(always)]
        |arithmetic| {
            let (mut shifts, mut factors) = ([0f32; TILE], [0f32; TILE]);
            for row in 0..TILE {
                let max = larger(maxima[row] * scale, running.max[row]);
                // Without any weight yet, everything stays at zero.
                shifts[row] = if max == f32::NEG_INFINITY { 0.0 } else { max };
                factors[row] = arithmetic.exp(running.max[row] - shifts[row]);
                running.max[row] = max;
            }
            let sums = [[0.0; 16]; TILE];
            (ForwardStats { scale, shifts, sums }, factors)
        },
    )
}

fn multiply_rows(level: InstructionSet, block: &mut Block, factors: &[f32; TILE]) {
    level.run(
        #[inline(always)]
        || {
            for (row, factor) in factors.iter().enumerate() {
                block.row_mut(row).iter_mut().for_each(|value| *value *= factor);
            }
        },
    );
}
