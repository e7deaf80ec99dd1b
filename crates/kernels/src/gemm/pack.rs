//! Operands in the order in which a block's product reads them.
//!
//! A left block is 32 rows of the left operand, a right panel 32 columns of the right one; both are filled up with
//! zeros. In bfloat16 a *step* is 32 places of the depth:
//! * left `[step][32 rows][32 places]`, so that a tile of 16 rows is 1 KiB without gaps;
//! * right `[step][2 tiles][16 pairs of places][16 columns][2 places]`, as `TDPBF16PS` and `VDPBF16PS` want pairs.
//!
//! In float32 a step is one place: left `[32 rows][place]`, right `[place][32 columns]`.

use std::ops::Range;

use half::bf16;

use crate::Dispatch as _;

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::block::TILE;
use super::operand::{Number, Operand, Order};
use super::transpose::transpose;
use crate::InstructionSet;

/// A format with its packed order.
pub trait Packed: Number {
    /// Whether blocks of the format are multiplied in tiles.
    fn uses_tiles(level: InstructionSet) -> bool;

    /// Elements of a packed block or panel.
    fn packed_len(depth: usize) -> usize {
        depth.next_multiple_of(Self::STEP) * TILE
    }

    /// Where element (row, place) of a left block lies.
    fn left_at(row: usize, place: usize, depth: usize) -> usize;

    /// Elements of a left block from one row to the next, and from one step to the next.
    fn left_strides(depth: usize) -> (usize, usize);

    /// Where element (place, column) of a right panel lies.
    fn right_at(place: usize, column: usize) -> usize;

    /// Writes the stored row of a left block's row.
    fn put_left_row(out: &mut [Self], row: usize, values: &[Self], depth: usize);

    /// Writes up to [`TILE`] places of a left block, from `place` (a multiple of it) on, each stored across the rows.
    fn put_left_places(level: InstructionSet, out: &mut [Self], place: usize, places: &[&[Self]], depth: usize);

    /// Writes up to `COLUMNS` columns of a right panel, from `column` (a multiple of it) on, each stored along the
    /// depth. What a column has not got stays as it is.
    fn put_right_columns(level: InstructionSet, out: &mut [Self], column: usize, columns: &[&[Self]]);

    /// Writes consecutive places of a right panel, `place` (even) and the next, from rows stored across the depth; the
    /// second may be missing.
    fn put_right_places(level: InstructionSet, out: &mut [Self], place: usize, first: &[Self], second: &[Self]);
}

/// Columns that [`Packed::put_right_columns`] takes at a time.
pub(super) const COLUMNS: usize = 16;

impl Packed for bf16 {
    fn uses_tiles(level: InstructionSet) -> bool {
        level == InstructionSet::Amx
    }

    #[inline(always)]
    fn left_at(row: usize, place: usize, _: usize) -> usize {
        place / 32 * (TILE * 32) + row * 32 + place % 32
    }

    #[inline(always)]
    fn left_strides(_: usize) -> (usize, usize) {
        (32, TILE * 32)
    }

    #[inline(always)]
    fn right_at(place: usize, column: usize) -> usize {
        place / 32 * (TILE * 32) + column / 16 * 512 + place % 32 / 2 * 32 + column % 16 * 2 + place % 2
    }

    #[inline(always)]
    fn put_left_row(out: &mut [Self], row: usize, values: &[Self], _: usize) {
        let (whole, rest) = values.as_chunks::<32>();
        let mut steps = out.chunks_exact_mut(TILE * 32);
        for (values, step) in whole.iter().zip(&mut steps) {
            step[row * 32..][..32].copy_from_slice(values);
        }
        if let Some(last) = steps.next().filter(|_| !rest.is_empty()) {
            let last = &mut last[row * 32..][..32];
            last.fill(bf16::ZERO);
            last[..rest.len()].copy_from_slice(rest);
        }
    }

    #[inline(always)]
    fn put_left_places(level: InstructionSet, out: &mut [Self], place: usize, places: &[&[Self]], _: usize) {
        let out = &mut out[place / 32 * (TILE * 32)..][..TILE * 32];
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512
            && let Ok(places) = <[&[bf16]; TILE]>::try_from(places)
            && places.iter().all(|place| place.len() == TILE)
        {
            // SAFETY: the CPU has AVX-512; there are 32 places of 32 elements, and as many in `out`.
            unsafe { avx512::transpose_words(places.map(<[bf16]>::as_ptr), out.as_mut_ptr()) };
            return;
        }
        for (place, values) in places.iter().enumerate() {
            for (row, value) in values.iter().enumerate() {
                out[row * 32 + place] = *value;
            }
        }
        let _ = level;
    }

    #[inline(always)]
    fn put_right_columns(level: InstructionSet, out: &mut [Self], column: usize, columns: &[&[Self]]) {
        let depth = columns[0].len();
        let tile = column / 16 * 512;
        for (step, out) in out.chunks_exact_mut(TILE * 32).enumerate() {
            let places = step * 32..depth.min(step * 32 + 32);
            let out = &mut out[tile..][..512];
            #[cfg(target_arch = "x86_64")]
            if level >= InstructionSet::Avx512 && places.len() == 32 && columns.len() == COLUMNS {
                // SAFETY: the CPU has AVX-512; 16 columns have 32 more places each, and `out` has 512 elements.
                unsafe {
                    let columns = std::array::from_fn(|at| columns[at].as_ptr().add(places.start).cast::<[bf16; 2]>());
                    avx512::transpose(columns, out.as_mut_ptr().cast(), 16);
                }
                continue;
            }
            for (column, values) in columns.iter().enumerate() {
                for (place, value) in values[places.clone()].iter().enumerate() {
                    out[place / 2 * 32 + column * 2 + place % 2] = *value;
                }
            }
        }
        let _ = level;
    }

    #[inline(always)]
    fn put_right_places(level: InstructionSet, out: &mut [Self], place: usize, first: &[Self], second: &[Self]) {
        let out = &mut out[place / 32 * (TILE * 32) + place % 32 / 2 * 32..];
        #[cfg(target_arch = "x86_64")]
        if level >= InstructionSet::Avx512 && first.len() == TILE {
            assert!(out.len() >= 512 + 32 && second.len() == TILE);
            // SAFETY: the CPU has AVX-512, and the assertion is what it needs.
            unsafe { avx512::interleave(first.as_ptr(), second.as_ptr(), out.as_mut_ptr()) };
            return;
        }
        for (tile, (first, second)) in first.chunks(16).zip(second.chunks(16)).enumerate() {
            let out = out[tile * 512..][..32].as_chunks_mut::<2>().0;
            for ((out, first), second) in out.iter_mut().zip(first).zip(second) {
                *out = [*first, *second];
            }
        }
        let _ = level;
    }
}

impl Packed for f32 {
    fn uses_tiles(_: InstructionSet) -> bool {
        false
    }

    #[inline(always)]
    fn left_at(row: usize, place: usize, depth: usize) -> usize {
        row * depth + place
    }

    #[inline(always)]
    fn left_strides(depth: usize) -> (usize, usize) {
        (depth, 1)
    }

    #[inline(always)]
    fn right_at(place: usize, column: usize) -> usize {
        place * TILE + column
    }

    #[inline(always)]
    fn put_left_row(out: &mut [Self], row: usize, values: &[Self], depth: usize) {
        out[row * depth..][..depth].copy_from_slice(values);
    }

    #[inline(always)]
    fn put_left_places(level: InstructionSet, out: &mut [Self], place: usize, places: &[&[Self]], depth: usize) {
        transpose(level, places, &mut out[place..], depth);
    }

    #[inline(always)]
    fn put_right_columns(level: InstructionSet, out: &mut [Self], column: usize, columns: &[&[Self]]) {
        transpose(level, columns, &mut out[column..], TILE);
    }

    #[inline(always)]
    fn put_right_places(_: InstructionSet, out: &mut [Self], place: usize, first: &[Self], second: &[Self]) {
        let (now, next) = out[place * TILE..].split_at_mut(TILE);
        now[..first.len()].copy_from_slice(first);
        if !next.is_empty() {
            next[..second.len()].copy_from_slice(second);
        }
    }
}

/// Packs rows `edge` (at most [`TILE`]) of a left operand, places `depth`, into a block of
/// `P::packed_len(depth.len())`.
pub fn pack_left<P: Packed>(
    level: InstructionSet,
    operand: Operand<P>,
    edge: Range<usize>,
    depth: Range<usize>,
    out: &mut [P],
    row: &mut Vec<P>,
) {
    let out = &mut out[..P::packed_len(depth.len())];
    if edge.len() < TILE {
        out.fill(P::ZERO);
    }
    let places = depth.len();
    level.run(
        #[inline(always)]
        || match operand.order {
            Order::DepthLast => {
                row.resize(places, P::ZERO);
                for (at, edge) in edge.enumerate() {
                    let values = operand.source.row(edge, depth.clone(), row);
                    P::put_left_row(out, at, values, places);
                }
            }
            Order::DepthFirst => {
                if !places.is_multiple_of(P::STEP) {
                    out.fill(P::ZERO);
                }
                row.resize(edge.len() * TILE, P::ZERO);
                for start in (0..places).step_by(TILE) {
                    let mut values: [&[P]; TILE] = [&[]; TILE];
                    let count = TILE.min(places - start);
                    let buffers = row.chunks_exact_mut(edge.len().max(1));
                    for ((values, buffer), at) in values.iter_mut().zip(buffers).zip(0..count) {
                        *values = operand.source.row(depth.start + start + at, edge.clone(), buffer);
                    }
                    P::put_left_places(level, out, start, &values[..count], places);
                }
            }
        },
    );
}

/// Packs columns `edge` of a right operand, places `depth`, into panels of `P::packed_len(depth.len())` one after
/// another.
pub fn pack_right<P: Packed>(
    level: InstructionSet,
    operand: Operand<P>,
    edge: Range<usize>,
    depth: Range<usize>,
    out: &mut [P],
    rows: &mut Vec<P>,
) {
    let panel = P::packed_len(depth.len());
    pack_panels(level, operand, edge, depth, (out, panel), rows);
}

/// [`pack_right`] into panels that begin `stride` elements apart.
pub fn pack_panels<P: Packed>(
    level: InstructionSet,
    operand: Operand<P>,
    edge: Range<usize>,
    depth: Range<usize>,
    (out, stride): (&mut [P], usize),
    rows: &mut Vec<P>,
) {
    if depth.is_empty() {
        return;
    }
    let panel = P::packed_len(depth.len());
    for (at, out) in out.chunks_mut(stride).take(edge.len().div_ceil(TILE)).enumerate() {
        let is_whole = (at + 1) * TILE <= edge.len() && depth.len().is_multiple_of(P::STEP);
        if !is_whole {
            out[..panel].fill(P::ZERO);
        }
    }
    level.run(
        #[inline(always)]
        || match operand.order {
            Order::DepthLast => {
                rows.resize(depth.len() * COLUMNS, P::ZERO);
                for start in edge.clone().step_by(COLUMNS) {
                    let mut columns: [&[P]; COLUMNS] = [&[]; COLUMNS];
                    let count = COLUMNS.min(edge.end - start);
                    for ((column, buffer), at) in
                        columns.iter_mut().zip(rows.chunks_exact_mut(depth.len())).zip(0..count)
                    {
                        if start + at + COLUMNS < edge.end {
                            operand.source.prefetch(start + at + COLUMNS, depth.clone());
                        }
                        *column = operand.source.row(start + at, depth.clone(), buffer);
                    }
                    let at = start - edge.start;
                    let panel = &mut out[at / TILE * stride..][..panel];
                    P::put_right_columns(level, panel, at % TILE, &columns[..count]);
                }
            }
            Order::DepthFirst => {
                rows.resize(edge.len() * 2, P::ZERO);
                let (first, second) = rows.split_at_mut(edge.len());
                for place in (0..depth.len()).step_by(2) {
                    for ahead in depth.clone().skip(place + operand.source.rows_ahead()).take(2) {
                        operand.source.prefetch(ahead, edge.clone());
                    }
                    let first = operand.source.row(depth.start + place, edge.clone(), first);
                    let second: &[P] = if place + 1 < depth.len() {
                        operand.source.row(depth.start + place + 1, edge.clone(), &mut *second)
                    } else {
                        second.fill(P::ZERO);
                        &*second
                    };
                    let pairs = first.chunks(TILE).zip(second.chunks(TILE));
                    for (out, (first, second)) in out.chunks_mut(stride).zip(pairs) {
                        P::put_right_places(level, &mut out[..panel], place, first, second);
                    }
                }
            }
        },
    );
}
