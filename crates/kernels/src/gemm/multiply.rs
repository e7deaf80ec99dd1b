//! Products of left blocks and right panels, packed or as they lie: 32 x 32 float32, for each instruction set.

use half::{bf16, f16};

use super::block::{Block, GROUP, TILE};
use super::factors::{Factors, Left, Right};
use super::operand::{FromFormat, Number};
use super::pack::Packed;
use super::transpose::transpose;
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512, avx512_bf16};
use crate::InstructionSet;

/// A format whose packed blocks can be multiplied.
pub trait Multiply: Packed + FromFormat<f32> + FromFormat<f16> + FromFormat<bf16> {
    /// Whether the instruction set multiplies in this format without going through another.
    fn is_native(level: InstructionSet) -> bool;

    /// Whether the instruction set multiplies [`Right::Rows`].
    fn takes_rows(level: InstructionSet) -> bool;

    /// Whether the instruction set multiplies [`Right::Columns`].
    fn takes_columns(level: InstructionSet) -> bool;

    /// `out` becomes the sum of the products, of which there is one at least, or has it added where it is to
    /// `accumulate`; only as many rows and columns of `out` as `shape` says need be right.
    ///
    /// On an AMX thread the tiles must be configured ([`Session`]).
    ///
    /// # Panics
    /// Where an operand is too small, or the instruction set does not take it.
    fn multiply_all(
        session: &Session,
        factors: &[Factors<Self>],
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    );

    /// [`Self::multiply_all`] of a packed block and a panel.
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
        Self::multiply_all(session, &[Factors { left, right, depth }], shape, out, accumulate);
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
            // SAFETY: the level is only in use where the CPU has tiles and the system permits them, or where tests
            // emulate them.
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

    #[inline]
    fn multiply_all(
        session: &Session,
        factors: &[Factors<Self>],
        (rows, cols): (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        assert!(rows <= TILE);
        #[cfg(target_arch = "x86_64")]
        if Self::uses_tiles(session.level) {
            // SAFETY: the session has configured the tiles.
            unsafe { amx::multiply(factors, (rows, cols), out, accumulate) };
            return;
        }
        for (at, factors) in factors.iter().enumerate() {
            multiply_pairs(session, *factors, (rows, cols), out, accumulate || at > 0);
        }
    }
}

/// The product of bfloat16 operands, without tiles.
#[inline]
fn multiply_pairs(
    session: &Session,
    Factors { left, right, depth }: Factors<bf16>,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    let len = bf16::packed_len(depth);
    let steps = depth.div_ceil(bf16::STEP);
    left.check(TILE, steps);
    #[cfg(target_arch = "x86_64")]
    let strided = (left.values.as_ptr(), left.row, left.step);
    // SAFETY of the calls: the session's level is one that the CPU has, and both operands have the elements of `steps`
    // steps.
    match (right, session.level) {
        #[cfg(target_arch = "x86_64")]
        (Right::Panel(right), InstructionSet::Avx512Bf16) => {
            assert!(right.len() >= len);
            // SAFETY: above.
            unsafe { avx512_bf16::multiply(strided, right.as_ptr(), depth, (rows, cols), out, accumulate) };
        }
        #[cfg(target_arch = "x86_64")]
        (Right::Rows(right, stride), InstructionSet::Avx512Bf16) => {
            assert!(depth.is_multiple_of(bf16::STEP) && has_rows(right, stride, depth));
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

    #[inline]
    fn multiply_all(
        session: &Session,
        factors: &[Factors<Self>],
        shape: (usize, usize),
        out: &mut Block,
        accumulate: bool,
    ) {
        for (at, factors) in factors.iter().enumerate() {
            multiply_floats(session, *factors, shape, out, accumulate || at > 0);
        }
    }
}

/// The product of float32 operands.
#[inline]
fn multiply_floats(
    session: &Session,
    Factors { left, right, depth }: Factors<f32>,
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
