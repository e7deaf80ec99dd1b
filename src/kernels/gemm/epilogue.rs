//! What becomes of a product's blocks.

use std::{marker::PhantomData, ops::Range};

use super::{
    block::{BLOCK, Block, TILE},
    operand::prefetch,
};
use crate::kernels::{Element, InstructionSet};

/// Takes the blocks of a product as they are done.
pub trait Epilogue: Sync {
    /// Takes the block of these rows and columns (at most 32 each), whose elements lie in its upper left corner.
    ///
    /// # Safety
    /// No two calls for the same element at the same time, and only for elements that the product has.
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block);

    /// Asks for the cache lines that a call of `store` with the same rows and columns will write.
    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        let _ = (rows, cols);
    }
}

/// A matrix that threads write blocks of.
pub struct Output<'a, E> {
    values: *mut E,
    stride: usize,
    rows: usize,
    /// The column of the slice that is column 0 here.
    first: usize,
    borrowed: PhantomData<&'a mut [E]>,
}

// SAFETY: threads write to different elements only (`Epilogue::store`'s condition).
unsafe impl<E: Send> Sync for Output<'_, E> {}

impl<'a, E> Output<'a, E> {
    /// Rows of `stride` elements.
    pub fn new(values: &'a mut [E], stride: usize) -> Self {
        Self {
            rows: values.len().checked_div(stride).unwrap_or(0),
            values: values.as_mut_ptr(),
            stride,
            first: 0,
            borrowed: PhantomData,
        }
    }

    /// The columns from `column` on of rows of `stride` elements.
    pub fn window(values: &'a mut [E], stride: usize, column: usize) -> Self {
        let mut out = Self::new(values, stride);
        assert!(column <= stride);
        out.first = column;
        out
    }

    /// Elements from one row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Asks for the cache lines of a block.
    pub fn prefetch(&self, rows: Range<usize>, cols: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        for row in rows {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            for col in cols.clone().step_by((64 / size_of::<E>()).max(1)) {
                // SAFETY: a prefetch reads and writes nothing, wherever it points.
                unsafe {
                    _mm_prefetch::<_MM_HINT_ET0>(self.values.wrapping_add(row * self.stride + self.first + col).cast())
                };
            }
        }
    }

    /// Writes a block: rows of 32 values, of which as many as there are columns count.
    ///
    /// # Safety
    /// Nobody else has any of these elements.
    #[inline(always)]
    pub unsafe fn put(&self, rows: Range<usize>, cols: Range<usize>, values: &[E])
    where
        E: Copy,
    {
        for (row, values) in rows.zip(values.as_chunks::<TILE>().0) {
            // SAFETY: the caller's promise.
            let out = unsafe { self.row(row, cols.clone()) };
            match out.as_mut_array::<TILE>() {
                Some(out) => *out = *values,
                None => out.copy_from_slice(&values[..cols.len()]),
            }
        }
    }

    /// Part of a row.
    ///
    /// # Safety
    /// Nobody else has any of these elements.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the elements are shared out by the caller")]
    pub unsafe fn row(&self, row: usize, cols: Range<usize>) -> &mut [E] {
        let cols = self.first + cols.start..self.first + cols.end;
        assert!(row < self.rows && cols.end <= self.stride);
        // SAFETY: the assertion keeps the part within the slice it was made of; the caller sees that parts are disjoint.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(row * self.stride + cols.start), cols.len()) }
    }
}

/// Copies up to a block's row of values.
#[inline(always)]
fn copy<E: Copy>(from: &[E], to: &mut [E; TILE]) {
    match from.as_array::<TILE>() {
        Some(from) => *to = *from,
        None => to[..from.len()].copy_from_slice(from),
    }
}

/// `out = scale · product`, rounded to the output's format.
pub struct Replace<'a, E> {
    /// The output.
    pub out: Output<'a, E>,
    /// Factor of every element.
    pub scale: f32,
}

impl<E: Element> Epilogue for Replace<'_, E> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let mut values = [E::narrow(0.0); BLOCK];
        let values = &mut values[..rows.len() * TILE];
        E::narrow_products(&block.0[..values.len()], self.scale, values);
        InstructionSet::current().run(
            #[inline(always)]
            || {
                // SAFETY: the caller's promise.
                unsafe { self.out.put(rows, cols, values) };
            },
        );
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.out.prefetch(rows, cols);
    }
}

/// `out += product · factor`; the factor is an element's own.
pub struct AddScaled<'a, E, F> {
    /// The output.
    pub out: Output<'a, E>,
    /// Factor of the element at (row, column).
    pub factor: F,
}

impl<E: Element, F: Fn(usize, usize) -> f32 + Sync> Epilogue for AddScaled<'_, E, F> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        InstructionSet::current().run(
            #[inline(always)]
            || {
                for (at, row) in rows.enumerate() {
                    // SAFETY: the caller's promise.
                    let out = unsafe { self.out.row(row, cols.clone()) };
                    for ((out, value), col) in out.iter_mut().zip(block.row(at)).zip(cols.clone()) {
                        *out = E::narrow(out.widen() + value * (self.factor)(row, col));
                    }
                }
            },
        );
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.out.prefetch(rows, cols);
    }
}

/// `out = scale · product + bias + residual`, rounded once; any of the three may be missing.
pub struct LinearCombination<'a, E> {
    /// The output.
    pub out: Output<'a, E>,
    /// A factor for each column.
    pub scale: Option<&'a [f32]>,
    /// A summand for each column.
    pub bias: Option<&'a [f32]>,
    /// Rows of as many elements as the output's.
    pub residual: Option<&'a [E]>,
}

impl<E: Element> Epilogue for LinearCombination<'_, E> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        let columns = |values: Option<&[f32]>| {
            values.map(|values| {
                let mut part = [0f32; TILE];
                copy(&values[cols.clone()], &mut part);
                part
            })
        };
        let (scale, bias) = (columns(self.scale), columns(self.bias));
        let mut values = [E::narrow(0.0); BLOCK];
        InstructionSet::current().run(
            #[inline(always)]
            || {
                let values = &mut values[..rows.len() * TILE];
                if let (None, None, Some(residual)) = (&scale, &bias, self.residual) {
                    // One loop over the block is a few percent faster than a loop for each row.
                    for (row, values) in rows.clone().zip(values.as_chunks_mut::<TILE>().0) {
                        copy(&residual[row * self.out.stride..][cols.clone()], values);
                    }
                    for (value, sum) in values.iter_mut().zip(&block.0) {
                        *value = E::narrow(value.widen() + sum);
                    }
                } else {
                    for ((at, row), values) in rows.clone().enumerate().zip(values.as_chunks_mut::<TILE>().0) {
                        let mut sums = *block.row(at);
                        if let Some(scale) = &scale {
                            for (sum, scale) in sums.iter_mut().zip(scale) {
                                *sum *= scale;
                            }
                        }
                        if let Some(bias) = &bias {
                            for (sum, bias) in sums.iter_mut().zip(bias) {
                                *sum += bias;
                            }
                        }
                        if let Some(residual) = self.residual {
                            for (sum, residual) in sums.iter_mut().zip(&residual[row * self.out.stride..][cols.clone()])
                            {
                                *sum += residual.widen();
                            }
                        }
                        for (value, sum) in values.iter_mut().zip(&sums) {
                            *value = E::narrow(*sum);
                        }
                    }
                }
                // SAFETY: the caller's promise.
                unsafe { self.out.put(rows, cols.clone(), values) };
            },
        );
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        if let Some(residual) = self.residual {
            for row in rows.clone() {
                prefetch(&residual[row * self.out.stride..][cols.clone()]);
            }
        }
        self.out.prefetch(rows, cols);
    }
}

/// The transposed product, in float32.
pub struct Transposed<'a> {
    /// The transposed output.
    pub out: Output<'a, f32>,
}

impl Epilogue for Transposed<'_> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        for (at, col) in cols.enumerate() {
            // SAFETY: the caller's promise.
            let out = unsafe { self.out.row(col, rows.clone()) };
            for (row, out) in out.iter_mut().enumerate() {
                *out = block.row(row)[at];
            }
        }
    }
}
