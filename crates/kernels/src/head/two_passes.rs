//! Log-sum-exps of rows of logits, and then the gradient of their losses in the logits.

use std::{cell::UnsafeCell, ops::Range};

use memory::Buffer;

use super::super::{
    Element, InstructionSet,
    exp::exp,
    gemm::{
        block::{BLOCK, Block, TILE},
        epilogue::{Epilogue, Output},
    },
    softcap::SoftCap,
};
use super::cap::cap_block;
use crate::Dispatch as _;

/// Columns of the logits whose exponentials are summed together.
const SLOT: usize = 2048;
/// Sums that a row's exponentials are spread over.
const LANES: usize = 16;
/// A logit this far above the base of its row's sums makes a new base; `e` to twice as much is still a number.
const HEADROOM: f32 = 40.0;
/// The least base, so that a row of negative infinities has a difference from it.
const LEAST: f32 = -1e30;

/// Sums of `exp(logit - base)` of a row over one slot's columns.
#[derive(Clone, Copy)]
struct Sums {
    base: f32,
    lanes: [f32; LANES],
}

/// Takes the log-sum-exp of each row, and picks the logit of its next token.
pub struct LogSumExps<'a> {
    rows: usize,
    next: &'a [u32],
    cap: Option<SoftCap>,
    /// By slot, then by row; none as long as no block came.
    sums: Buffer<UnsafeCell<Option<Sums>>>,
    chosen: Buffer<UnsafeCell<f32>>,
}

// SAFETY: an element of the cells belongs to one row and one slot, and threads have no row and slot in common: a
// product of grain `LogSumExps::GRAIN` keeps a slot's columns of a row on one thread.
unsafe impl Sync for LogSumExps<'_> {}

impl<'a> LogSumExps<'a> {
    /// Columns whose exponentials are summed together. A product of some columns begins with a multiple of it.
    pub const SLOT: usize = SLOT;
    /// Panels that a product must keep together.
    pub const GRAIN: usize = SLOT / TILE;

    /// For a product whose first column is the logit `first`, a multiple of [`Self::SLOT`].
    pub fn from_column(&self, first: usize) -> impl Epilogue + '_ {
        Part { whole: self, first }
    }

    /// For rows with these next tokens, and logits with this cap.
    pub fn new(next: &'a Buffer<u32>, vocabulary: usize, cap: Option<SoftCap>) -> Self {
        let rows = next.len();
        Self {
            rows,
            next: next.values(),
            cap,
            sums: Buffer::from_fn(rows * vocabulary.div_ceil(SLOT), |_| UnsafeCell::new(None)),
            chosen: Buffer::from_fn(rows, |_| UnsafeCell::new(f32::NAN)),
        }
    }

    /// The sum of the losses `logsumexp - logit of the next token`, and the log-sum-exps, after the product.
    pub fn finish(mut self) -> (f64, Buffer<f32>) {
        let rows = self.rows;
        let sums = self.sums.values_mut();
        let chosen = self.chosen.values_mut();
        let mut loss = 0.0;
        let log_sum_exps = Buffer::from_fn(rows, |row| {
            let mut base = LEAST;
            for cell in sums.iter_mut().skip(row).step_by(rows) {
                if let Some(sums) = cell.get_mut() {
                    base = if sums.base > base { sums.base } else { base };
                }
            }
            let total: f64 = (sums.iter_mut().skip(row).step_by(rows))
                .filter_map(|cell| cell.get_mut().as_ref())
                .map(|sums| {
                    let total: f64 = sums.lanes.iter().map(|&lane| f64::from(lane)).sum();
                    total * (f64::from(sums.base) - f64::from(base)).exp()
                })
                .sum();
            let lse = f64::from(base) + total.ln();
            loss += lse - f64::from(*chosen[row].get_mut());
            lse as f32
        });
        (loss, log_sum_exps)
    }
}

/// Log-sum-exps of which a product has the columns from `first` on.
struct Part<'a, 'b> {
    whole: &'a LogSumExps<'b>,
    first: usize,
}

impl Epilogue for Part<'_, '_> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        // SAFETY: the caller's promise, for other columns.
        unsafe {
            self.whole
                .store(rows, self.first + cols.start..self.first + cols.end, block);
        }
    }
}

impl Epilogue for LogSumExps<'_> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        InstructionSet::current().compute(
            #[inline(always)]
            |arithmetic| {
                let mut capped = None;
                let block = cap_block(arithmetic, self.cap, block, &mut capped);
                let count = rows.len() * TILE;
                let mut bases = [0f32; BLOCK];
                for (at, row) in rows.clone().enumerate() {
                    let logits = &block.row(at)[..cols.len()];
                    // SAFETY: the caller's promise, for the row and the slot these columns are of.
                    let (sums, chosen) =
                        unsafe { (&mut *self.sums_of(row, &cols), &mut *self.chosen.values()[row].get()) };
                    let next = self.next[row] as usize;
                    if cols.contains(&next) {
                        *chosen = logits[next - cols.start];
                    }
                    let sums = sums.get_or_insert_with(|| Sums {
                        base: maximum(logits),
                        lanes: [0.0; LANES],
                    });
                    bases[at * TILE..][..TILE].fill(sums.base);
                }
                let above = block.0[..count]
                    .iter()
                    .zip(&bases)
                    .map(|(logit, base)| u32::from(*logit > base + HEADROOM));
                if above.sum::<u32>() > 0 {
                    for (at, row) in rows.clone().enumerate() {
                        // SAFETY: as above.
                        let sums = unsafe { &mut *self.sums_of(row, &cols) };
                        if let Some(sums) = sums {
                            rebase(sums, &block.row(at)[..cols.len()]);
                            bases[at * TILE..][..TILE].fill(sums.base);
                        }
                    }
                }
                for (base, logit) in bases[..count].iter_mut().zip(&block.0) {
                    *base = exp(logit - *base);
                }
                for (exps, row) in bases.as_chunks_mut::<TILE>().0.iter_mut().zip(rows) {
                    exps[cols.len()..].fill(0.0);
                    // SAFETY: as above.
                    if let Some(sums) = unsafe { &mut *self.sums_of(row, &cols) } {
                        for lane in 0..LANES {
                            sums.lanes[lane] += exps[lane] + exps[lane + LANES];
                        }
                    }
                }
            },
        );
    }
}

impl LogSumExps<'_> {
    /// A row's sums over the slot of these columns.
    fn sums_of(&self, row: usize, cols: &Range<usize>) -> *mut Option<Sums> {
        self.sums.values()[cols.start / SLOT * self.rows + row].get()
    }
}

/// The largest logit, or the least base.
#[inline(always)]
fn maximum(logits: &[f32]) -> f32 {
    logits
        .iter()
        .fold(LEAST, |max, &logit| if logit > max { logit } else { max })
}

/// Makes the largest logit the base of a row's sums where it is far above it.
fn rebase(sums: &mut Sums, logits: &[f32]) {
    let base = maximum(logits);
    if base > sums.base + HEADROOM {
        let factor = exp(sums.base - base);
        sums.lanes.iter_mut().for_each(|lane| *lane *= factor);
        sums.base = base;
    }
}

/// Writes `softmax - one_hot(next)`: the gradient of a row's loss in its logits.
pub struct SoftmaxGradient<'a, E> {
    /// The gradient, `[rows, columns of the product]`.
    pub out: Output<'a, E>,
    /// The logit that column 0 of the product is.
    pub first: usize,
    /// The next token of each row.
    pub next: &'a [u32],
    /// The log-sum-exp of each row.
    pub log_sum_exps: &'a [f32],
    /// The cap of the logits, if there is one; the gradient is that of the logits before it.
    pub cap: Option<SoftCap>,
}

impl<E: Element> Epilogue for SoftmaxGradient<'_, E> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let mut values = [E::narrow(0.0); BLOCK];
        InstructionSet::current().compute(
            #[inline(always)]
            |arithmetic| {
                let mut capped = None;
                let block = cap_block(arithmetic, self.cap, block, &mut capped);
                let mut sums = [0f32; BLOCK];
                for (sums, row) in sums.as_chunks_mut::<TILE>().0.iter_mut().zip(rows.clone()) {
                    sums.fill(self.log_sum_exps[row]);
                }
                let values = &mut values[..rows.len() * TILE];
                // Two loops, so that neither asks at each element.
                match self.cap {
                    None => {
                        for ((value, logit), sum) in values.iter_mut().zip(&block.0).zip(&sums) {
                            *value = E::narrow(exp(logit - sum));
                        }
                    }
                    Some(cap) => {
                        for ((value, logit), sum) in values.iter_mut().zip(&block.0).zip(&sums) {
                            *value = E::narrow(exp(logit - sum) * cap.slope(*logit));
                        }
                    }
                }
                for (at, row) in rows.clone().enumerate() {
                    if let Some(col) = (self.next[row] as usize).checked_sub(self.first + cols.start)
                        && col < cols.len()
                    {
                        let logit = block.row(at)[col];
                        let softmax = exp(logit - self.log_sum_exps[row]);
                        let slope = self.cap.map_or(1.0, |cap| cap.slope(logit));
                        values[at * TILE + col] = E::narrow((softmax - 1.0) * slope);
                    }
                }
                // SAFETY: the caller's promise.
                unsafe { self.out.put(rows, cols, values) };
            },
        );
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.out.prefetch(rows, cols);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gemm::{Dense, Operand, Segment, Term, gemm_grouped, multiply::Multiply},
        instruction_set::forced::at_each_level,
    };

    /// The head's rows are the logits over `x`, which is 1.
    fn run<P: Multiply>(
        logits: &[f32],
        vocabulary: usize,
        next: &[u32],
        cap: Option<SoftCap>,
    ) -> (f64, Vec<f32>, Vec<f32>)
    where
        for<'a> Dense<'a, f32>: crate::gemm::OperandReader<P>,
    {
        let rows = next.len();
        let eye: Vec<f32> = (0..rows * rows)
            .map(|at| f32::from(u8::from(at / rows == at % rows)))
            .collect();
        let (x, head) = (Dense::new(&eye, rows), Dense::new(logits, vocabulary));
        let term = Term::<P> {
            left: Operand::depth_last(&x),
            right: Operand::depth_first(&head),
            depth: rows,
        };
        let next = Buffer::from(next.to_vec());
        let sums = LogSumExps::new(&next, vocabulary, cap);
        let segment = Segment {
            cols: vocabulary,
            terms: vec![term],
            epilogue: &sums,
        };
        gemm_grouped(rows, &[segment], LogSumExps::GRAIN);
        let (loss, log_sum_exps) = sums.finish();
        let mut gradient = vec![f32::NAN; rows * vocabulary];
        let out = Output::new(&mut gradient, vocabulary);
        let store = SoftmaxGradient {
            out,
            first: 0,
            next: next.values(),
            log_sum_exps: log_sum_exps.values(),
            cap,
        };
        gemm_grouped(
            rows,
            &[Segment {
                cols: vocabulary,
                terms: vec![term],
                epilogue: &store,
            }],
            1,
        );
        (loss, log_sum_exps.values().to_vec(), gradient)
    }

    #[test]
    fn losses_and_gradients_agree_with_plain_sums() {
        check_plain_sums(None);
        check_plain_sums(Some(SoftCap(7.0)));
    }

    fn check_plain_sums(cap: Option<SoftCap>) {
        let capped = |logit: f32| {
            let logit = f64::from(logit);
            cap.map_or(logit, |SoftCap(cap)| f64::from(cap) * (logit / f64::from(cap)).tanh())
        };
        let slope = |capped: f64| cap.map_or(1.0, |SoftCap(cap)| 1.0 - (capped / f64::from(cap)).powi(2));
        at_each_level(|level| {
            for (rows, vocabulary) in [(1, 1), (3, 31), (33, 65), (2, 5000)] {
                let logits: Vec<f32> = (0..rows * vocabulary)
                    .map(|at| (at as f32 * 0.7).sin() * 5.0 + if at % 97 == 90 { 90.0 } else { 0.0 })
                    .collect();
                let next: Vec<u32> = (0..rows).map(|row| (row * 37 % vocabulary) as u32).collect();
                let (loss, sums, gradient) = run::<f32>(&logits, vocabulary, &next, cap);
                let mut want_loss = 0.0;
                for row in 0..rows {
                    let logits = &logits[row * vocabulary..][..vocabulary];
                    let logits: Vec<f64> = logits.iter().map(|&logit| capped(logit)).collect();
                    let want = logits.iter().map(|logit| logit.exp()).sum::<f64>().ln();
                    want_loss += want - logits[next[row] as usize];
                    assert!(
                        (f64::from(sums[row]) - want).abs() < 1e-5 * want.abs().max(1.0),
                        "{level:?}: {}",
                        sums[row]
                    );
                    for (col, got) in gradient[row * vocabulary..][..vocabulary].iter().enumerate() {
                        let one = f64::from(u8::from(col == next[row] as usize));
                        let want = ((logits[col] - want).exp() - one) * slope(logits[col]);
                        assert!(
                            (f64::from(*got) - want).abs() < 2e-5,
                            "{level:?}, {row}, {col}: {got}, {want}"
                        );
                    }
                }
                assert!(
                    (loss - want_loss).abs() < 1e-5 * want_loss.abs().max(1.0),
                    "{loss}, {want_loss}"
                );
            }
        });
    }

    #[test]
    fn what_is_not_a_number_shows_in_the_loss() {
        at_each_level(|_| {
            let mut logits = vec![0.5f32; 2 * 100];
            logits[70] = f32::NAN;
            // Of the identity's products, NaN · 0 is one too: every row of that column.
            let (loss, sums, _) = run::<f32>(&logits, 100, &[1, 2], None);
            assert!(loss.is_nan() && sums.iter().all(|sum| sum.is_nan()));
            let infinite = vec![f32::NEG_INFINITY; 100];
            assert_eq!(run::<f32>(&infinite, 100, &[1], None).1, [f32::NEG_INFINITY]);
        });
    }
}
