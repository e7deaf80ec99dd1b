//! What becomes of a product's blocks.

use std::{marker::PhantomData, ops::Range};

use super::{
    block::{Block, Combination, TILE},
    operand::prefetch,
};
use crate::Dispatch as _;
use crate::{Element, InstructionSet};

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

    /// Writes a block's sums as the combination says.
    ///
    /// # Safety
    /// Nobody else has any of these elements.
    #[inline]
    pub unsafe fn put_sums(&self, rows: Range<usize>, cols: Range<usize>, block: &Block, combination: &Combination<E>)
    where
        E: Element,
    {
        let (count, width) = (rows.len(), cols.len());
        let cols = self.first + cols.start..self.first + cols.end;
        assert!(rows.end <= self.rows && cols.end <= self.stride && width <= TILE);
        let sums = &block.0.as_chunks().0[..count];
        // SAFETY: the assertion keeps the rows within the slice it was made of, the rest is the caller's promise.
        unsafe {
            let out = self.values.add(rows.start * self.stride + cols.start);
            E::write(sums, width, combination, out, self.stride);
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
        // SAFETY: the assertion keeps the part within the slice it was made of; the caller sees that parts are
        // disjoint.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(row * self.stride + cols.start), cols.len()) }
    }
}

/// Outputs that lie side by side in rows of `stride` elements, each `width` columns wide.
pub fn windows<E>(values: &mut [E], stride: usize, width: usize) -> Vec<Output<'_, E>> {
    let (rows, values) = (values.len().checked_div(stride).unwrap_or(0), values.as_mut_ptr());
    let window = |first| Output {
        values,
        stride,
        rows,
        first,
        borrowed: PhantomData,
    };
    (0..stride).step_by(width).map(window).collect()
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
        let combination = Combination {
            scale: (self.scale != 1.0).then_some([self.scale; TILE]),
            ..Combination::SUMS
        };
        // SAFETY: the caller's promise.
        unsafe { self.out.put_sums(rows, cols, block, &combination) };
    }

    fn prepare(&self, rows: Range<usize>, cols: Range<usize>) {
        self.out.prefetch(rows, cols);
    }
}

/// `out += product · factor`; the factor is an element's own.
pub struct AddScaled<'a, E, F> {
    /// The output.
    pub out: Output<'a, E>,
    /// Gives the factors of a row's columns, in the first places of the array.
    pub factors: F,
}

impl<E: Element, F: Fn(usize, Range<usize>) -> [f32; TILE] + Sync> Epilogue for AddScaled<'_, E, F> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        InstructionSet::current().run(
            #[inline(always)]
            || {
                for (at, row) in rows.enumerate() {
                    // SAFETY: the caller's promise.
                    let out = unsafe { self.out.row(row, cols.clone()) };
                    let factors = (self.factors)(row, cols.clone());
                    for ((out, value), factor) in out.iter_mut().zip(block.row(at)).zip(factors) {
                        *out = E::narrow(out.widen() + value * factor);
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
                let values = &values[cols.clone()];
                let mut part = [0f32; TILE];
                part[..values.len()].copy_from_slice(values);
                part
            })
        };
        let combination = Combination {
            row_scale: None,
            scale: columns(self.scale),
            bias: columns(self.bias),
            residual: self
                .residual
                .map(|residual| (&residual[rows.start * self.out.stride + cols.start..], self.out.stride)),
        };
        // SAFETY: the caller's promise.
        unsafe { self.out.put_sums(rows, cols, block, &combination) };
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
