//! The product of a left block and a right panel, packed or as they lie: 32 x 32 float32, for each instruction set.

use std::ops::Range;

use half::{bf16, f16};

use super::block::{Block, GROUP, TILE};
use super::operand::{FromFormat, Number, Operand, Order};
use super::pack::Packed;
use super::transpose::transpose;
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512, avx512_bf16};
use crate::kernels::InstructionSet;

/// Panels for which a left block is not worth packing with AMX: more of them read it faster from the first-level cache.
const FEW: usize = 4;

/// 32 rows of a left operand: a packed block, or rows that lie in their matrix as the products can take them.
#[derive(Debug, Clone, Copy)]
pub struct Left<'a, P> {
    values: &'a [P],
    /// Elements from one row to the next.
    row: usize,
    /// Elements from one step of the depth to the next.
    step: usize,
}

impl<'a, P: Packed> Left<'a, P> {
    /// A block as `pack_left` makes it.
    pub fn packed(values: &'a [P], depth: usize) -> Self {
        let (row, step) = P::left_strides(depth);
        Self { values, row, step }
    }

    /// Rows `stride` elements apart, from the front of `values`, whose depth is a multiple of the format's step.
    pub fn rows(values: &'a [P], stride: usize) -> Self {
        Self {
            values,
            row: stride,
            step: P::STEP,
        }
    }

    /// A block of a left operand where it lies, if the instruction set takes it from there to multiply it with so many panels.
    pub fn lent(
        level: InstructionSet,
        operand: Operand<'a, P>,
        rows: Range<usize>,
        depth: Range<usize>,
        panels: usize,
    ) -> Option<Self> {
        let is_packed = level == InstructionSet::Amx && panels > FEW;
        let is_whole = rows.len() == TILE && depth.len().is_multiple_of(P::STEP);
        if is_packed || !is_whole || operand.order != Order::DepthLast {
            return None;
        }
        let (values, stride) = operand.source.lend()?;
        Some(Self::rows(&values[rows.start * stride + depth.start..], stride))
    }

    /// Panics where the first `rows` rows have no `steps` steps.
    fn check(&self, rows: usize, steps: usize) {
        if rows > 0 && steps > 0 {
            assert!((rows - 1) * self.row + (steps - 1) * self.step + P::STEP <= self.values.len());
        }
    }
}

/// Columns of a right operand, at most 32.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a, P> {
    /// A panel as `pack_right` makes it.
    Panel(&'a [P]),
    /// 32 columns where they lie: rows from the front of the values, so many elements apart.
    Rows(&'a [P], usize),
    /// Columns as `pack_left` packs rows.
    Columns(&'a [P]),
}

/// A format whose packed blocks can be multiplied.
pub trait Multiply: Packed + FromFormat<f32> + FromFormat<f16> + FromFormat<bf16> {
    /// Whether the instruction set multiplies in this format without going through another.
    fn is_native(level: InstructionSet) -> bool;

    /// Whether the instruction set multiplies [`Right::Rows`].
    fn takes_rows(level: InstructionSet) -> bool;

    /// Whether the instruction set multiplies [`Right::Columns`].
    fn takes_columns(level: InstructionSet) -> bool;

    /// Whether packed operands whose chunks lie one after another are multiplied at once: nothing depends on the depth of a
    /// chunk but its number of steps. Only where the instruction set takes neither rows nor columns.
    fn joins_chunks(level: InstructionSet) -> bool;

    /// `out = left · right`, or `out += left · right` where it is to `accumulate`; only as many rows and columns of `out`
    /// as `shape` says need be right. Both sides have the same `depth`, a multiple of the format's step with
    /// [`Right::Rows`].
    ///
    /// On an AMX thread the tiles must be configured ([`Session`]).
    ///
    /// # Panics
    /// Where an operand is too small, or the instruction set does not take it.
    fn multiply_operands(
        session: &Session,
        left: Left<Self>,
        right: Right<Self>,
        depth: usize,
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    );

    /// [`Self::multiply_operands`] of a packed block and a panel.
    #[inline]
    fn multiply(
        session: &Session,
        left: &[Self],
        right: &[Self],
        depth: usize,
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        let (left, right) = (Left::packed(left, depth), Right::Panel(right));
        Self::multiply_operands(session, left, right, depth, shape, out, accumulate);
    }
}

/// A thread's readiness to multiply blocks. Holds the tile configuration, where there is one, until it is dropped.
#[derive(Debug)]
pub struct Session {
    level: InstructionSet,
    /// The configuration is the thread's: a session stays on it.
    thread: std::marker::PhantomData<*const ()>,
}

impl Session {
    /// Configures the tiles of this thread, if the level has them.
    pub fn new(level: InstructionSet) -> Self {
        #[cfg(target_arch = "x86_64")]
        if level == InstructionSet::Amx {
            // SAFETY: the level is only in use where the CPU has tiles and the system permits them, or where tests emulate them.
            unsafe { amx::configure() };
        }
        Self {
            level,
            thread: std::marker::PhantomData,
        }
    }

    /// The level that blocks are multiplied at.
    pub fn level(&self) -> InstructionSet {
        self.level
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.level == InstructionSet::Amx {
            // SAFETY: as in `new`.
            unsafe { amx::release() };
        }
    }
}

impl Multiply for bf16 {
    fn is_native(level: InstructionSet) -> bool {
        level >= InstructionSet::Avx512Bf16
    }

    fn takes_rows(level: InstructionSet) -> bool {
        level == InstructionSet::Avx512Bf16
    }

    fn takes_columns(level: InstructionSet) -> bool {
        level == InstructionSet::Avx512Bf16
    }

    /// Tiles keep their sums, which a call for each chunk would write and read again.
    fn joins_chunks(level: InstructionSet) -> bool {
        level == InstructionSet::Amx
    }

    #[inline]
    fn multiply_operands(
        session: &Session,
        left: Left<Self>,
        right: Right<Self>,
        depth: usize,
        (rows, cols): (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        let len = Self::packed_len(depth);
        let steps = len / (TILE * Self::STEP);
        assert!(rows <= TILE);
        left.check(TILE, steps);
        #[cfg(target_arch = "x86_64")]
        let strided = (left.values.as_ptr(), left.row, left.step);
        // SAFETY of the calls: the session's level is one that the CPU has, its tiles are configured, and both operands have the
        // elements of `steps` steps.
        match (right, session.level) {
            #[cfg(target_arch = "x86_64")]
            (Right::Panel(right), InstructionSet::Amx) => {
                assert!(right.len() >= len);
                let left = amx::Strided {
                    values: left.values.as_ptr(),
                    row: left.row,
                    step: left.step,
                };
                // SAFETY: above.
                unsafe { amx::multiply(left, right.as_ptr(), steps, (rows, cols), out, accumulate) };
            }
            #[cfg(target_arch = "x86_64")]
            (Right::Panel(right), InstructionSet::Avx512Bf16) => {
                assert!(right.len() >= len);
                // SAFETY: above.
                unsafe { avx512_bf16::multiply(strided, right.as_ptr(), depth, (rows, cols), out, accumulate) };
            }
            #[cfg(target_arch = "x86_64")]
            (Right::Rows(right, stride), InstructionSet::Avx512Bf16) => {
                assert!(depth.is_multiple_of(Self::STEP) && has_rows(right, stride, depth));
                // SAFETY: above.
                unsafe { avx512_bf16::multiply_rows(strided, (right.as_ptr(), stride), depth, rows, out, accumulate) };
            }
            #[cfg(target_arch = "x86_64")]
            (Right::Columns(right), InstructionSet::Avx512Bf16) => {
                assert!(right.len() >= len);
                // SAFETY: above.
                unsafe { avx512_bf16::dots(strided, right.as_ptr(), steps, (rows, cols), out, accumulate) };
            }
            (Right::Panel(right), _) => scalar_pairs(left, right, steps, (rows, cols), out, accumulate),
            (Right::Rows(..) | Right::Columns(_), level) => panic!("{level:?} multiplies panels only"),
        }
    }
}

/// Whether there are `rows` rows of 32 elements.
fn has_rows<P>(values: &[P], stride: usize, rows: usize) -> bool {
    rows == 0 || (rows - 1) * stride + TILE <= values.len()
}

/// Pairs as the dot products take them, for levels without: right, and not meant to be fast, as float32 is then.
fn scalar_pairs(
    left: Left<bf16>,
    right: &[bf16],
    steps: usize,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    for row in 0..rows {
        for col in 0..cols {
            let sum: f32 = (0..steps * bf16::STEP)
                .map(|place| {
                    left.values[row * left.row + place / 32 * left.step + place % 32].to_f32()
                        * right[bf16::right_at(place, col)].to_f32()
                })
                .sum();
            let out = &mut out.row_mut(row)[col];
            *out = if accumulate { *out + sum } else { sum };
        }
    }
}

impl Multiply for f32 {
    fn is_native(_: InstructionSet) -> bool {
        true
    }

    fn takes_rows(_: InstructionSet) -> bool {
        true
    }

    fn takes_columns(_: InstructionSet) -> bool {
        false
    }

    fn joins_chunks(_: InstructionSet) -> bool {
        false
    }

    #[inline]
    fn multiply_operands(
        session: &Session,
        left: Left<Self>,
        right: Right<Self>,
        depth: usize,
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        // A panel has its rows one after another.
        let (right, right_row) = match right {
            Right::Panel(right) => (right, TILE),
            Right::Rows(right, stride) => (right, stride),
            Right::Columns(_) => panic!("float32 multiplies panels and rows only"),
        };
        assert!(shape.0 <= TILE && has_rows(right, right_row, depth));
        left.check(TILE, depth);
        #[cfg(target_arch = "x86_64")]
        if session.level >= InstructionSet::Avx2 {
            let (left, right) = ((left.values.as_ptr(), left.row), (right.as_ptr(), right_row));
            // SAFETY: the session's level is one that the CPU has; 32 rows of the left operand have `depth` elements, and
            // so many rows of 32 are there on the right.
            unsafe {
                match session.level {
                    InstructionSet::Avx2 => avx2::multiply(left, right, depth, shape.0, out, accumulate),
                    _ => avx512::multiply(left, right, depth, shape, out, accumulate),
                }
            }
            return;
        }
        if !accumulate {
            *out = Block::ZERO;
        }
        let groups = out.0.as_chunks_mut::<{ GROUP * TILE }>().0;
        for (group, out) in groups.iter_mut().take(shape.0.div_ceil(GROUP)).enumerate() {
            let values = &left.values[(group * GROUP * left.row).min(left.values.len())..];
            portable((values, left.row), (right, right_row), depth, out);
        }
    }
}

/// 8 rows, in parts of 4 x 8 that fit the registers of any CPU.
fn portable(
    (left, left_row): (&[f32], usize),
    (right, right_row): (&[f32], usize),
    depth: usize,
    out: &mut [f32; GROUP * TILE],
) {
    const ROWS: usize = 4;
    const COLS: usize = 8;
    for row in (0..GROUP).step_by(ROWS) {
        for col in (0..TILE).step_by(COLS) {
            let mut sums = [[0f32; COLS]; ROWS];
            for (at, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(&out[(row + at) * TILE + col..][..COLS]);
            }
            for place in 0..depth {
                let right = &right[place * right_row + col..][..COLS];
                for (at, sums) in sums.iter_mut().enumerate() {
                    let left = left[(row + at) * left_row + place];
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum += left * right;
                    }
                }
            }
            for (at, sums) in sums.iter().enumerate() {
                out[(row + at) * TILE + col..][..COLS].copy_from_slice(sums);
            }
        }
    }
}

impl Block {
    /// Writes the transposed block.
    pub fn transpose_into(&self, level: InstructionSet, out: &mut Self) {
        let rows: [&[f32]; TILE] = std::array::from_fn(|row| &self.row(row)[..]);
        transpose(level, &rows, &mut out.0, TILE);
    }
}
