//! Memory of tensors and of kernels' scratch: counted by the ledger, or recorded by a dry run.

use std::ptr::NonNull;

use trace::Category;

use super::allocator;
use super::dry_run::{DryBlock, is_dry_run};
use super::scope;

/// Elements of a type that can be anything before they are written.
///
/// # Safety
/// Every pattern of bits is a value.
pub unsafe trait Plain: Copy + Send + Sync {}

// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for f64 {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for i8 {}
// SAFETY: a number in a transparent wrapper.
unsafe impl Plain for half::f16 {}
// SAFETY: a number in a transparent wrapper.
unsafe impl Plain for half::bf16 {}

/// A fixed number of elements on the heap. In a dry run it has a length, but no elements.
///
/// Its category is that of the thread's scope, or temporary outside the scopes of tensors. Nothing else that a thread
/// allocates counts as a tensor's memory.
#[derive(Debug)]
pub struct Buffer<T>(Memory<T>);

/// A vector, or a size alone. The two share their bytes: a dry run moves tensors more than anything else.
#[derive(Debug)]
enum Memory<T> {
    Heap(Vec<T>),
    Dry { len: usize, block: DryBlock },
}

impl<T> Buffer<T> {
    /// No elements and no memory.
    pub const fn empty() -> Self {
        Self(Memory::Heap(Vec::new()))
    }

    /// `len` elements that `make` allocates, unless this is a dry run.
    fn new(len: usize, make: impl FnOnce() -> Vec<T>) -> Self {
        if is_dry_run() {
            let block = DryBlock::new(len * size_of::<T>());
            return Self(Memory::Dry { len, block });
        }
        let _scope = scope::scope(scope::tensor());
        let values = make();
        debug_assert_eq!(values.len(), len);
        Self(Memory::Heap(values))
    }

    /// `len` elements, each made by `element`.
    pub fn from_fn(len: usize, element: impl FnMut(usize) -> T) -> Self {
        Self::new(len, || (0..len).map(element).collect())
    }

    /// Number of elements, also in a dry run.
    pub fn len(&self) -> usize {
        match &self.0 {
            Memory::Heap(values) => values.len(),
            Memory::Dry { len, .. } => *len,
        }
    }

    /// True if there are no elements, also in a dry run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// The elements; none in a dry run.
    pub fn values(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(values) => values,
            Memory::Dry { .. } => &[],
        }
    }

    /// The elements, to be changed; none in a dry run.
    pub fn values_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(values) => values,
            Memory::Dry { .. } => &mut [],
        }
    }

    /// Labels the memory with `category` from now on.
    pub fn label(&self, category: Category) {
        if let Memory::Dry { block, .. } = &self.0 {
            block.label(category);
        } else if let Some(start) = self.start() {
            // SAFETY: the global allocator allocated a vector with a capacity, which is borrowed here.
            unsafe { allocator::relabel(start, category) };
        }
    }

    /// The elements as bytes, in this machine's order, to be saved or restored; none in a dry run.
    pub fn as_bytes_mut(&mut self) -> &mut [u8]
    where
        T: Plain,
    {
        let values = self.values_mut();
        // SAFETY: numbers have no gaps between their bytes, and each pattern of bits is a value.
        unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
    }

    /// Records what the memory holds in the timeline: its format by one of the names that
    /// [`dtype_name`](super::dtype_name) returns, and its dimensions. Without a recording, this only reads a flag.
    #[inline]
    pub fn describe(&self, name: &str, dimensions: &[usize]) {
        if super::timeline::is_recording()
            && let (Some(start), Some(number)) = (self.start(), trace::recording::dtype_number(name))
        {
            // SAFETY: as in `label`; the global allocator keeps the ledger during a recording.
            unsafe { allocator::describe(start, self.bytes() as u64, number, dimensions) };
        }
    }

    /// The start of the allocation, if there is one.
    fn start(&self) -> Option<NonNull<u8>> {
        match &self.0 {
            Memory::Heap(values) if values.capacity() > 0 && size_of::<T>() > 0 => {
                NonNull::new(values.as_ptr().cast_mut().cast())
            }
            _ => None,
        }
    }
}

impl<T: Copy> Buffer<T> {
    /// `len` times the same element.
    pub fn filled(len: usize, element: T) -> Self {
        Self::new(len, || vec![element; len])
    }
}

impl<T: Plain> Buffer<T> {
    /// `len` elements that the caller must write before it reads them. The memory is not cleared first, which would
    /// cost as much as many a kernel.
    #[expect(clippy::uninit_vec, reason = "the caller writes every element before it reads one")]
    pub fn unwritten(len: usize) -> Self {
        Self::new(len, || {
            let mut values = Vec::<T>::with_capacity(len);
            // SAFETY: the capacity is there, and each pattern of bits is a value.
            unsafe {
                values.set_len(len);
                if cfg!(test) {
                    // Not a number in any of the floating-point formats.
                    values.as_mut_ptr().write_bytes(0xff, len);
                }
            }
            values
        })
    }
}

impl<T: Default + Copy> Buffer<T> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self::filled(len, T::default())
    }
}

impl<T: PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.values() == other.values()
    }
}

/// Takes over a vector, whose memory becomes that of a tensor.
impl<T> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        let buffer = Self(Memory::Heap(values));
        buffer.label(scope::tensor());
        buffer
    }
}

#[cfg(test)]
mod tests {
    use options::InstructionSet;
    use trace::{Event, Phase};

    use super::*;
    use crate::{dry_run, enter, scope, set_phase};

    #[test]
    fn a_dry_run_records_what_would_be_allocated_and_touches_nothing() {
        let (len, trace) = dry_run(InstructionSet::Portable, 0, || {
            set_phase(Phase::Forward);
            let huge = Buffer::<f32>::zeros(1 << 45);
            let _module = enter("mlp");
            let _scope = scope(Category::Parameter);
            let small = Buffer::<u32>::unwritten(3);
            assert!(huge.values().is_empty() && small.values().is_empty());
            small.label(Category::Gradient);
            drop(huge);
            small.len()
        });
        assert_eq!(len, 3);
        let events: Vec<String> = trace.events().map(|event| format!("{event:?}")).collect();
        assert_eq!(events.len(), 7, "{events:?}");
        let allocated = trace.events().filter_map(|event| match event {
            Event::Alloc { bytes, category, .. } => Some((*bytes, *category)),
            _ => None,
        });
        let allocated: Vec<_> = allocated.collect();
        assert_eq!(allocated, [(4 << 45, Category::Temporary), (12, Category::Parameter)]);
        assert!(!is_dry_run() && Buffer::<f32>::zeros(2).values() == [0.0, 0.0]);
    }

    #[test]
    fn bytes_are_those_of_the_elements() {
        let mut buffer = Buffer::from(vec![1.5f32, -2.0]);
        assert_eq!(
            *buffer.as_bytes_mut(),
            [1.5f32.to_ne_bytes(), (-2f32).to_ne_bytes()].concat()
        );
        buffer.as_bytes_mut()[4..].copy_from_slice(&0.25f32.to_ne_bytes());
        assert_eq!(buffer.values(), [1.5, 0.25]);
        assert!(Buffer::<f32>::empty().as_bytes_mut().is_empty());
    }

    #[test]
    fn a_dry_run_that_panics_ends() {
        let outcome = std::panic::catch_unwind(|| dry_run(InstructionSet::Portable, 0, || panic!("within")));
        assert!(outcome.is_err() && !is_dry_run());
    }
}
