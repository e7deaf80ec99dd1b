//! With `p = exp(logit - base)` for any base, a row's loss is `ln Σ p + base - logit[next]`, and the gradient in the
//! head's input is `Σ p W / Σ p - W[next]`. The base is the next token's own logit, which is known beforehand.

use std::{
    cell::UnsafeCell,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::prelude::*;

use super::super::{
    Element, InstructionSet,
    exp::exp,
    gemm::{
        OperandReader,
        block::{Block, Combination, TILE},
        epilogue::{Epilogue, Output},
        operand::Number,
        scratch,
    },
    reduce,
    rows::for_rows,
    softcap::SoftCap,
};
#[cfg(target_arch = "x86_64")]
use super::avx512;
use memory::Buffer;

use super::cap::cap_block;
use crate::Dispatch as _;

/// Columns of the logits whose exponentials are summed together.
const SLOT: usize = 512;
/// A logit this far above its base has an exponential whose products might leave the range of the numbers.
const HEADROOM: f32 = 60.0;

/// Writes `exp(logit - base)` and takes its sums by row.
pub struct Exponentials<'a, E> {
    out: Output<'a, E>,
    bases: &'a [f32],
    cap: Option<SoftCap>,
    /// By slot, then by row.
    sums: Buffer<UnsafeCell<f64>>,
    is_too_high: AtomicBool,
}

// SAFETY: an element of the cells belongs to one row and one slot, and threads have no row and slot in common: a
// product of grain `Exponentials::GRAIN` keeps a slot's columns of a row on one thread.
unsafe impl<E: Send> Sync for Exponentials<'_, E> {}

impl<'a, E: Element> Exponentials<'a, E> {
    /// Panels that a product must keep together.
    pub const GRAIN: usize = SLOT / TILE;

    /// For `cols` columns of rows with these bases; with a cap, what is written is multiplied by its slope.
    pub fn new(out: Output<'a, E>, bases: &'a Buffer<f32>, cols: usize, cap: Option<SoftCap>) -> Self {
        Self {
            out,
            bases: bases.values(),
            cap,
            sums: Buffer::from_fn(bases.len() * cols.div_ceil(SLOT), |_| UnsafeCell::new(0.0)),
            is_too_high: AtomicBool::new(false),
        }
    }

    /// Adds the rows' sums to the totals, after the product. False where a logit lay too far above its base: then what
    /// was written is of no use.
    pub fn finish(mut self, totals: &mut [f64]) -> bool {
        let rows = self.bases.len();
        for (at, sum) in self.sums.values_mut().iter_mut().enumerate() {
            totals[at % rows] += *sum.get_mut();
        }
        !self.is_too_high.into_inner()
    }
}

impl<E: Element> Epilogue for Exponentials<'_, E> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let (mut exps, mut sums) = (Block::ZERO, [0f32; TILE]);
        let bases = &self.bases[rows.clone()];
        if exponentials(block, (bases, self.cap), cols.len(), &mut exps, &mut sums) {
            self.is_too_high.store(true, Ordering::Relaxed);
        }
        let slot = cols.start / SLOT * self.bases.len();
        for (sum, row) in sums.iter().zip(rows.clone()) {
            // SAFETY: the caller's promise, for the row and the slot these columns are of.
            unsafe { *self.sums.values()[slot + row].get() += f64::from(*sum) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.out.put_sums(rows, cols, &exps, &Combination::SUMS) };
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.out.prefetch(rows, cols);
    }
}

/// Writes `exp(logit - base)` of the first `cols` columns, times the cap's slope if there is a cap, and the rows' sums
/// without slopes. True if a logit lies too far above its base.
fn exponentials(
    block: &Block,
    (bases, cap): (&[f32], Option<SoftCap>),
    cols: usize,
    exps: &mut Block,
    sums: &mut [f32; TILE],
) -> bool {
    let level = InstructionSet::current();
    #[cfg(target_arch = "x86_64")]
    if level >= InstructionSet::Avx512 && cap.is_none() && cols == TILE {
        // SAFETY: the level is only in use where the CPU has its instructions.
        return unsafe { avx512::exponentials(block, bases, HEADROOM, exps, sums) };
    }
    let above = &mut exps.0;
    let count = bases.len() * TILE;
    level.compute(
        #[inline(always)]
        |arithmetic| {
            let mut capped = None;
            let block = cap_block(arithmetic, cap, block, &mut capped);
            for (above, &base) in above.as_chunks_mut::<TILE>().0.iter_mut().zip(bases) {
                above.fill(base);
            }
            for (above, logit) in above[..count].iter_mut().zip(&block.0) {
                *above = logit - *above;
            }
            for above in above.as_chunks_mut::<TILE>().0 {
                above[cols..].fill(f32::NEG_INFINITY);
            }
            let too_high = above[..count]
                .iter()
                .map(|above| u32::from(*above > HEADROOM))
                .sum::<u32>();
            for above in &mut above[..count] {
                *above = exp(*above);
            }
            for (exps, sum_of_row) in above.as_chunks::<TILE>().0.iter().zip(sums).take(bases.len()) {
                *sum_of_row = sum(exps);
            }
            if let Some(cap) = cap {
                for (exp, logit) in above[..count].iter_mut().zip(&block.0) {
                    *exp *= cap.slope(*logit);
                }
            }
            too_high > 0
        },
    )
}

/// The sum of a block's row, in pairs.
#[inline(always)]
fn sum(values: &[f32; TILE]) -> f32 {
    let mut sums = *values;
    let mut width = TILE / 2;
    while width > 0 {
        for at in 0..width {
            sums[at] += sums[at + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Each row's logit of its next token: `x[row] · head[next[row]]`, over `hidden` elements; capped if there is a cap.
pub fn next_logits<P: Number>(
    x: &dyn OperandReader<P>,
    head: &dyn OperandReader<P>,
    hidden: usize,
    next: &Buffer<u32>,
    cap: Option<SoftCap>,
) -> Buffer<f32> {
    let level = InstructionSet::current();
    let mut logits = Buffer::<f32>::unwritten(next.len());
    let rows = logits.values_mut().par_iter_mut().zip(next.values()).enumerate();
    rows.with_min_len(64).for_each(|(row, (logit, &next))| {
        *logit = scratch::with(|scratch| {
            let x = x.row(row, 0..hidden, scratch.left.of(hidden));
            let weight = head.row(next as usize, 0..hidden, scratch.right.of(hidden));
            level.compute(
                #[inline(always)]
                |arithmetic| {
                    let logit = reduce::products(x, weight);
                    match cap {
                        Some(cap) => cap.apply(arithmetic, logit),
                        None => logit,
                    }
                },
            )
        });
    });
    logits
}

/// From rows `Σ p W` to the gradients of `scale · loss`: `scale · (Σ p W / Σ p - W[next])`. With a cap, whose slope is
/// in `p` already, `W[next]` is multiplied by the slope at the next token's logit.
pub fn subtract_next<P: Number>(
    rows: &mut [f32],
    hidden: usize,
    totals: &[f64],
    head: &dyn OperandReader<P>,
    next: &[u32],
    scale: f32,
    capped: Option<(SoftCap, &[f32])>,
) {
    for_rows(
        rows,
        hidden,
        #[inline(always)]
        |first, part| {
            scratch::with(
                #[inline(always)]
                |scratch| {
                    for (row, values) in (first / hidden..).zip(part.chunks_exact_mut(hidden)) {
                        let weight = head.row(next[row] as usize, 0..hidden, scratch.left.of(hidden));
                        let factor = (f64::from(scale) / totals[row]) as f32;
                        let scale = scale * capped.map_or(1.0, |(cap, logits)| cap.slope(logits[row]));
                        for (value, weight) in values.iter_mut().zip(weight) {
                            *value = *value * factor - weight.widen() * scale;
                        }
                    }
                },
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gemm::{Dense, Operand, Segment, Term, gemm_grouped},
        instruction_set::forced::at_each_level,
        testing::values,
    };

    /// Exponentials of `logits [rows, cols]`, their sums, and whether they are of use.
    fn exponentials(logits: &[f32], bases: &[f32], cols: usize, cap: Option<SoftCap>) -> (Vec<f32>, Vec<f64>, bool) {
        let (rows, bases) = (bases.len(), Buffer::from(bases.to_vec()));
        let eye: Vec<f32> = (0..rows * rows)
            .map(|at| f32::from(u8::from(at / rows == at % rows)))
            .collect();
        let (x, head) = (Dense::new(&eye, rows), Dense::new(logits, cols));
        let mut out = vec![f32::NAN; rows * cols];
        let mut totals = vec![1.0; rows];
        let store = Exponentials::new(Output::new(&mut out, cols), &bases, cols, cap);
        let term = Term::<f32> {
            left: Operand::depth_last(&x),
            right: Operand::depth_first(&head),
            depth: rows,
        };
        let terms = vec![term];
        gemm_grouped(
            rows,
            &[Segment {
                cols,
                terms,
                epilogue: &store,
            }],
            Exponentials::<f32>::GRAIN,
        );
        let fits = store.finish(&mut totals);
        (out, totals, fits)
    }

    #[test]
    fn exponentials_and_their_sums_are_those_of_plain_loops() {
        check_plain_loops(None);
        check_plain_loops(Some(SoftCap(7.0)));
    }

    fn check_plain_loops(cap: Option<SoftCap>) {
        let capped = |logit: f32| {
            let logit = f64::from(logit);
            cap.map_or(logit, |SoftCap(cap)| f64::from(cap) * (logit / f64::from(cap)).tanh())
        };
        let slope = |capped: f64| cap.map_or(1.0, |SoftCap(cap)| 1.0 - (capped / f64::from(cap)).powi(2));
        at_each_level(|level| {
            for (rows, cols) in [(1, 1), (3, 31), (33, 65), (2, 1300)] {
                let logits: Vec<f32> = values(rows * cols, 1).iter().map(|value| value * 8.0).collect();
                let bases: Vec<f32> = values(rows, 2);
                let (out, totals, fits) = exponentials(&logits, &bases, cols, cap);
                assert!(fits);
                for (row, total) in totals.iter().enumerate() {
                    let logit = |col: usize| capped(logits[row * cols + col]);
                    let exact = |col: usize| (logit(col) - f64::from(bases[row])).exp();
                    let want = 1.0 + (0..cols).map(exact).sum::<f64>();
                    assert!(
                        (total - want).abs() < 1e-5 * want,
                        "{level:?}, {rows} x {cols}: {total}, {want}"
                    );
                    for col in 0..cols {
                        let got = f64::from(out[row * cols + col]);
                        let want = exact(col) * slope(logit(col));
                        assert!((got - want).abs() < 1e-5 * exact(col), "{level:?}, {row}, {col}");
                    }
                }
            }
        });
    }

    #[test]
    fn a_logit_far_above_its_base_is_told() {
        at_each_level(|_| {
            let mut logits = vec![0.0; 2 * 70];
            assert!(exponentials(&logits, &[-59.0, 0.0], 70, None).2);
            assert!(!exponentials(&logits, &[-61.0, 0.0], 70, None).2);
            logits[69] = 100.0;
            assert!(!exponentials(&logits, &[0.0, 0.0], 70, None).2);
        });
    }

    #[test]
    fn what_is_not_a_number_is_one_in_the_sum() {
        at_each_level(|_| {
            let (_, totals, fits) = exponentials(&[f32::NAN; 40], &[0.0], 40, None);
            assert!(fits && totals[0].is_nan());
        });
    }
}
