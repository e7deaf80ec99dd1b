//! What a thread packs operands into: kept from product to product, so that its pages are touched once.

use std::cell::RefCell;

use trace::Category;

use super::{block::Block, operand::Number};

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Memory for elements of either format, aligned to cache lines.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
}

impl Buffer {
    /// Room for `len` elements, with whatever was left there.
    pub fn of<P: Number>(&mut self, len: usize) -> &mut [P] {
        let lines = (len * size_of::<P>()).div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        // SAFETY: the lines hold at least `len` elements and are aligned for them; float32 and bfloat16, the only
        // formats, have a value for every pattern of bits; the borrow is the buffer's.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), len) }
    }

    /// All that there is room for.
    pub fn get<P: Number>(&self) -> &[P] {
        // SAFETY: as in `of`.
        unsafe {
            std::slice::from_raw_parts(
                self.lines.as_ptr().cast(),
                self.lines.len() * size_of::<Line>() / size_of::<P>(),
            )
        }
    }
}

/// A thread's buffers for a product.
#[derive(Default)]
pub struct Scratch {
    /// The packed left operands of a block of rows.
    pub left: Buffer,
    /// The packed right operands of the thread's columns.
    pub right: Buffer,
    /// Sums that are not complete.
    pub sums: Vec<Block>,
}

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());

/// Runs `body` with this thread's buffers. What it allocates is the host's, whichever thread it is.
///
/// # Panics
/// Where `body` asks for them again.
pub fn with<R>(body: impl FnOnce(&mut Scratch) -> R) -> R {
    let _scope = memory::scope(Category::Host);
    SCRATCH.with_borrow_mut(body)
}
