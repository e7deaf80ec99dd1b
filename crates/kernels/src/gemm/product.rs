//! Matrix products on all threads.
//!
//! A thread takes some columns of the output (or, where there are few, some rows). It packs the right operands of these
//! columns into its second-level cache, dequantising them on the way (unless few rows can take them as they lie), and
//! then walks down the rows: a block of 32 rows of the left operand is packed into the first-level cache, unless it can
//! be read where it lies, and multiplied with each panel. A thread that is done takes rows of those that are not, if
//! all of the depth is packed at once. Every element of the output is summed over the depth in one order, independent
//! of the number of threads.

use std::{
    mem::take,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::{
    block::{Block, TILE},
    blocking::{Blocking, Chunk, KBlock, Part, packed_parts, stage_len},
    epilogue::Epilogue,
    factors::{Factors, Left, Right},
    multiply::{Multiply, Session},
    operand::{Operand, Order},
    pack::{pack_left, pack_panels},
    scratch::{self, Buffer, Scratch},
};
use crate::Dispatch as _;
use crate::InstructionSet;

/// Rows at most for which a right operand is not packed where it can be multiplied as it lies.
const FEW_ROWS: usize = 64;
/// Columns at most of a panel that is packed along the depth where it can be multiplied so.
const FEW_COLUMNS: usize = 16;
/// A summand of a segment: `left [rows, depth] · right [depth, cols]`.
#[derive(Clone, Copy)]
pub struct Term<'a, P> {
    /// The left operand, `[rows, depth]`.
    pub left: Operand<'a, P>,
    /// The right operand, `[depth, cols]`.
    pub right: Operand<'a, P>,
    /// Length of the dimension that is summed over.
    pub depth: usize,
}

/// Columns of the output with one destination: the sum of the terms.
pub struct Segment<'a, P> {
    /// Columns of the segment.
    pub cols: usize,
    /// The summands.
    pub terms: Vec<Term<'a, P>>,
    /// The destination of the sums.
    pub epilogue: &'a dyn Epilogue,
}

/// A panel's worth of columns of a segment.
struct Panel {
    segment: usize,
    cols: Range<usize>,
}

/// How a panel's part of a right operand is held.
enum Layout<'a, P> {
    /// Packed as a panel.
    Panel,
    /// Packed along the depth, as left operands are.
    Columns,
    /// Not packed: its rows, and elements from one to the next.
    Rows(&'a [P], usize),
}

impl<'a, P: Multiply> Layout<'a, P> {
    /// Whether a panel of so many columns is packed along the depth. Its products ask for the next left rows
    /// themselves.
    fn is_columns(level: InstructionSet, cols: usize) -> bool {
        cols <= FEW_COLUMNS && P::takes_columns(level)
    }

    /// The layout of some columns and places of a right operand that so many rows are multiplied with.
    fn of(
        level: InstructionSet,
        right: Operand<'a, P>,
        rows: usize,
        cols: &Range<usize>,
        depth: &Range<usize>,
    ) -> Self {
        if Self::is_columns(level, cols.len()) {
            return Self::Columns;
        }
        let is_lent = right.order == Order::DepthFirst
            && rows <= FEW_ROWS
            && cols.len() == TILE
            && !depth.is_empty()
            && depth.len().is_multiple_of(P::STEP)
            && P::takes_rows(level);
        match right.source.lend().filter(|_| is_lent) {
            Some((values, stride)) => Self::Rows(&values[depth.start * stride + cols.start..], stride),
            None => Self::Panel,
        }
    }
}

/// Computes the segments' sums, `rows` rows each. All segments have the same number of terms, of the same depths; what
/// they have in common on the left is packed once.
///
/// # Panics
/// Where the segments differ in their terms' depths, or an operand is smaller than it says.
pub fn product<P: Multiply>(rows: usize, segments: &[Segment<P>]) {
    gemm_grouped(rows, segments, 1);
}

/// [`product`] where each `grain` panels of 32 columns, counted from the first, are given to one thread for a block of
/// rows.
///
/// # Panics
/// As [`product`].
pub fn gemm_grouped<P: Multiply>(rows: usize, segments: &[Segment<P>], grain: usize) {
    let Some(first) = segments.first() else { return };
    let depths = |segment: &Segment<P>| segment.terms.iter().map(|term| term.depth).collect::<Vec<_>>();
    assert!(segments.iter().all(|segment| depths(segment) == depths(first)));
    let level = InstructionSet::current();
    let panels: Vec<Panel> = segments
        .iter()
        .enumerate()
        .flat_map(|(at, segment)| panels(at, segment.cols))
        .collect();
    let threads = rayon::current_num_threads();
    let Blocking { parts, k_blocks } = Blocking::new::<P>(rows, panels.len(), grain, &depths(first), threads);
    let next = AtomicUsize::new(0);
    (0..parts.len().min(threads))
        .into_par_iter()
        .with_max_len(1)
        .for_each(|_| {
            scratch::with(|scratch| {
                let mut worker = Worker {
                    session: Session::new(level),
                    segments,
                    panels: &panels,
                    k_blocks: &k_blocks,
                    scratch,
                    row: Vec::new(),
                };
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    worker.run(part);
                }
                for part in &parts {
                    worker.share(part);
                }
            });
        });
}

fn panels(segment: usize, cols: usize) -> impl Iterator<Item = Panel> {
    (0..cols).step_by(TILE).map(move |start| Panel {
        segment,
        cols: start..cols.min(start + TILE),
    })
}

/// A thread that computes a product.
struct Worker<'a, P> {
    session: Session,
    segments: &'a [Segment<'a, P>],
    panels: &'a [Panel],
    k_blocks: &'a [KBlock],
    scratch: &'a mut Scratch,
    row: Vec<P>,
}

impl<P: Multiply> Worker<'_, P> {
    /// Computes a part, with other threads' help if all of its right operands are packed at once.
    fn run(&mut self, part: &Part) {
        let mut right = take(&mut self.scratch.right);
        if let [k_block] = self.k_blocks {
            self.pack_right(part, k_block, &mut right);
            part.publish(right);
            self.share(part);
            right = part.withdraw();
        } else {
            let held = part.panels.len();
            self.reserve_sums(held * part.rows.len().div_ceil(TILE));
            for (at, k_block) in self.k_blocks.iter().enumerate() {
                self.pack_right(part, k_block, &mut right);
                for (index, start) in part.rows.clone().step_by(TILE).enumerate() {
                    let rows = start..part.rows.end.min(start + TILE);
                    self.multiply_stages(part, at, &right, rows, index * held);
                }
            }
        }
        self.scratch.right = right;
    }

    /// Computes rows of a part until all are taken, if its right operands are there.
    fn share(&mut self, part: &Part) {
        if let Some(right) = &*part.right() {
            // A single stage stores each block's sums before it computes the next one's.
            let held = if self.k_blocks[0].stages.len() > 1 {
                part.panels.len()
            } else {
                1
            };
            self.reserve_sums(held);
            while let Some(rows) = part.take_rows() {
                self.multiply_stages(part, 0, right, rows, 0);
            }
        }
    }

    fn reserve_sums(&mut self, blocks: usize) {
        if self.scratch.sums.len() < blocks {
            self.scratch.sums.resize(blocks, Block::ZERO);
        }
    }

    /// Adds what block `at` of the depth gives to the sums of a block of rows, which begin at block `sums` of the
    /// scratch.
    fn multiply_stages(&mut self, part: &Part, at: usize, right: &Buffer, rows: Range<usize>, sums: usize) {
        let stages = &self.k_blocks[at].stages;
        let mut start = 0;
        for (stage_at, stage) in stages.iter().enumerate() {
            let is_first = at == 0 && stage_at == 0;
            let is_last = at + 1 == self.k_blocks.len() && stage_at + 1 == stages.len();
            self.multiply(
                part,
                stage,
                &right.get()[start..],
                rows.clone(),
                sums,
                (is_first, is_last),
            );
            start += stage_len::<P>(stage) * part.panels.len();
        }
    }

    /// Packs the right operands of a block of the depth: stage by stage, within it panel by panel, within it chunk by
    /// chunk.
    fn pack_right(&mut self, part: &Part, k_block: &KBlock, out: &mut Buffer) {
        let all = &self.panels[part.panels.clone()];
        let lens = || k_block.stages.iter().map(|stage| stage_len::<P>(stage));
        let mut out = out.of::<P>(lens().sum::<usize>() * all.len());
        let (level, rows) = (self.session.level(), part.rows.len());
        for (stage, stride) in k_block.stages.iter().zip(lens()) {
            let of_stage;
            (of_stage, out) = out.split_at_mut(stride * all.len());
            for (chunk, place) in packed_parts::<P>(stage) {
                let mut panels = all;
                while let Some(first) = panels.first() {
                    // Only the last panel of a segment may be narrower, and so be held otherwise.
                    let is_alike =
                        |panel: &Panel| panel.segment == first.segment && panel.cols.len() == first.cols.len();
                    let count = panels.iter().take_while(|panel| is_alike(panel)).count();
                    let out = &mut of_stage[(all.len() - panels.len()) * stride + place.start..];
                    let right = self.segments[first.segment].terms[chunk.term].right;
                    let (cols, depth) = (first.cols.start..panels[count - 1].cols.end, chunk.depth.clone());
                    match Layout::of(level, right, rows, &first.cols, &depth) {
                        Layout::Panel => pack_panels(level, right, cols, depth, (out, stride), &mut self.row),
                        Layout::Columns => pack_left(level, right, cols, depth, out, &mut self.row),
                        Layout::Rows(..) => {}
                    }
                    panels = &panels[count..];
                }
            }
        }
    }

    /// Adds a stage's chunks to the sums of a block of rows, which begin at block `sums` of the scratch; after the last
    /// stage, the sums are stored.
    fn multiply(
        &mut self,
        part: &Part,
        stage: &[Chunk],
        packed_right: &[P],
        rows: Range<usize>,
        sums: usize,
        (is_first, is_last): (bool, bool),
    ) {
        let level = self.session.level();
        let Scratch { left, sums: blocks, .. } = &mut *self.scratch;
        let stride = stage_len::<P>(stage);
        let packed_left = left.of::<P>(stride);
        let panels = &self.panels[part.panels.clone()];
        let mut held: Vec<Option<Held<P>>> = vec![None; stage.len()];
        let mut at = 0;
        for panels_of_segment in panels.chunk_by(|a, b| a.segment == b.segment) {
            let segment = &self.segments[panels_of_segment[0].segment];
            for ((chunk, place), held) in packed_parts::<P>(stage).zip(&mut held) {
                let operand = segment.terms[chunk.term].left;
                if held.is_some_and(|(held, _)| held.is(operand)) {
                    continue;
                }
                let lent = Left::lent(level, operand, rows.clone(), chunk.depth.clone(), panels.len());
                if lent.is_none() {
                    let block = &mut packed_left[place];
                    pack_left(level, operand, rows.clone(), chunk.depth.clone(), block, &mut self.row);
                }
                *held = Some((operand, lent));
            }

            let mut factors = Vec::with_capacity(stage.len());
            for panel in panels_of_segment {
                let sums = &mut blocks[if is_first && is_last { sums } else { sums + at }];
                // The next block's rows are asked for beside the panels, some beside each. Tiles ask themselves, and
                // leave stores time enough.
                let next = |at: usize| (rows.end + TILE * at / panels.len()).min(part.rows.end);
                let next = next(at)..next(at + 1);
                if !P::uses_tiles(level) {
                    if !Layout::<P>::is_columns(level, panel.cols.len()) {
                        Self::prefetch(segment, stage, next.clone());
                    }
                    if is_last {
                        segment.epilogue.prepare(rows.clone(), panel.cols.clone());
                    }
                }
                let of_panel = &packed_right[at * stride..][..stride];
                factors.clear();
                for ((chunk, place), held) in packed_parts::<P>(stage).zip(&held) {
                    let right = segment.terms[chunk.term].right;
                    let lent = held.and_then(|(_, lent)| lent);
                    factors.push(Factors {
                        left: match lent {
                            Some(lent) => lent.asking_for(next.start - rows.start),
                            None => Left::packed(&packed_left[place.clone()], chunk.depth.len()),
                        },
                        right: match Layout::of(level, right, part.rows.len(), &panel.cols, &chunk.depth) {
                            Layout::Panel => Right::Panel(&of_panel[place]),
                            Layout::Columns => Right::Columns(&of_panel[place]),
                            Layout::Rows(values, stride) => Right::Rows(values, stride),
                        },
                        depth: chunk.depth.len(),
                    });
                }
                let shape = (rows.len(), panel.cols.len());
                P::multiply_all(&self.session, &factors, shape, sums, !is_first);
                if is_last {
                    // SAFETY: parts have no rows and panels in common, a block of rows is taken once, and no block is
                    // stored twice.
                    unsafe { segment.epilogue.store(rows.clone(), panel.cols.clone(), sums) };
                }
                at += 1;
            }
        }
    }

    /// Asks for rows of a stage's left operands, which the next block is packed from or read from.
    fn prefetch(segment: &Segment<P>, stage: &[Chunk], rows: Range<usize>) {
        for chunk in stage {
            let left = segment.terms[chunk.term].left;
            if left.order == Order::DepthLast {
                for row in rows.clone() {
                    left.source.prefetch(row, chunk.depth.clone());
                }
            }
        }
    }
}

/// A left operand whose block of rows is at hand: where it lies, or else packed.
type Held<'a, P> = (Operand<'a, P>, Option<Left<'a, P>>);
