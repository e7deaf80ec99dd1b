//! The global allocator that keeps the ledger.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use super::event::{Kind, RANK_SHIFT};
use super::ledger::Ledger;
use super::process_ledger::LEDGER;
use super::scope;
use crate::trace::Category;

/// True once an allocation went through a [`LedgerAllocator`], which therefore is the process's global allocator.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// True if this process keeps a ledger.
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Charges every allocation of `inner` to the ledger, with the size that was requested. Use it as the global allocator
/// only: [`installed`] and [`super::Buffer::label`] assume that.
///
/// A small header in front of each allocation stores its category. The header itself is not counted.
pub struct LedgerAllocator<A = System> {
    inner: A,
}

impl<A> LedgerAllocator<A> {
    /// Wraps `inner`, which does the allocating.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

/// The bytes directly in front of the caller's.
#[repr(C, align(16))]
struct Header {
    magic: u32,
    category: Category,
    bytes: u64,
}

const MAGIC: u32 = 0x1ed6_e4ed;
const HEADER: usize = size_of::<Header>();

/// Returns the layout to request from the inner allocator, and the offset of the caller's bytes in it. The offset is a
/// multiple of the alignment and leaves room for the header. `None` if the size overflows.
fn with_header(layout: Layout) -> Option<(Layout, usize)> {
    let offset = layout.align().max(HEADER);
    let size = layout.size().checked_add(offset)?;
    Some((Layout::from_size_align(size, offset).ok()?, offset))
}

/// Hides from the compiler where a pointer comes from.
///
/// If the compiler inlines `dealloc` but not the `alloc` before it, it takes the caller's pointer for the start of an
/// allocation. To read the header in front of that would be undefined behaviour, so it would remove the code as
/// unreachable.
#[inline(always)]
fn launder(pointer: *mut u8) -> *mut u8 {
    black_box(pointer)
}

/// Finds the header of an allocation.
///
/// # Safety
/// `user` was returned by a [`LedgerAllocator`], is not yet deallocated, and went through [`launder`].
unsafe fn header(user: *mut u8) -> *mut Header {
    // SAFETY: every allocation has a header directly in front of it.
    unsafe { user.sub(HEADER).cast() }
}

/// Charges a new allocation, writes its header, and returns the caller's pointer.
///
/// # Safety
/// `base` is null or an allocation of [`with_header`]'s layout for `bytes` and `offset`.
#[inline]
unsafe fn track(base: *mut u8, offset: usize, bytes: usize) -> *mut u8 {
    let bytes = bytes as u64;
    if base.is_null() {
        return fail(scope::current(), bytes);
    }
    if !installed() {
        INSTALLED.store(true, Ordering::Relaxed);
    }
    let category = scope::current();
    // SAFETY: the header lies within the allocation, in front of the offset, and is aligned because the offset is.
    unsafe {
        let user = launder(base.add(offset));
        LEDGER.with(|ledger| {
            charge(ledger, category, bytes);
            ledger.recorder.alloc(category, user, bytes);
        });
        header(user).write(Header {
            magic: MAGIC,
            category,
            bytes,
        });
        user
    }
}

/// Charges an allocation after it was made: one lock suffices, and a failed request leaves no trace. A request past the
/// budget ends the process before the memory is used.
fn charge(ledger: &mut Ledger, category: Category, bytes: u64) {
    if let Err(refusal) = ledger.charge(category, bytes) {
        ledger.budget.exit(&refusal);
    }
}

/// Reports a request that the inner allocator refused, and returns null.
#[cold]
fn fail(category: Category, bytes: u64) -> *mut u8 {
    LEDGER.with(|ledger| {
        let refusal = ledger.refusal(category, bytes);
        ledger.budget.exit(&refusal);
    });
    null_mut()
}

// SAFETY: the caller's pointer is the inner allocator's plus an offset that is a multiple of the alignment. The inner
// allocator gets back its own pointers and layouts. The ledger neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LedgerAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((outer, offset)) = with_header(layout) else {
            return null_mut();
        };
        // SAFETY: the outer layout is larger than the caller's, so it is not empty.
        unsafe { track(self.inner.alloc(outer), offset, layout.size()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((outer, offset)) = with_header(layout) else {
            return null_mut();
        };
        // SAFETY: as in `alloc`; the header is in front of what has to be zero.
        unsafe { track(self.inner.alloc_zeroed(outer), offset, layout.size()) }
    }

    #[inline]
    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        let Some((outer, offset)) = with_header(layout) else {
            return;
        };
        let user = launder(user);
        // SAFETY: the caller gives back a pointer that `track` made for this layout.
        unsafe {
            let Header { category, bytes, .. } = header(user).read();
            LEDGER.with(|ledger| {
                ledger.release(category, bytes);
                ledger.recorder.free(category, user, bytes);
            });
            self.inner.dealloc(user.sub(offset), outer);
        }
    }

    #[inline]
    unsafe fn realloc(&self, user: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new_layout = Layout::from_size_align(new_size, layout.align()).ok();
        let (Some((outer, offset)), Some((new_outer, _))) = (with_header(layout), new_layout.and_then(with_header))
        else {
            return null_mut();
        };
        let user = launder(user);
        // SAFETY: the caller gives a pointer that `track` made for this layout. The offset depends on the alignment
        // alone, so the header moves with the contents and lies in front of the new address.
        unsafe {
            let Header { category, bytes, .. } = header(user).read();
            let new_bytes = new_size as u64;
            let base = self.inner.realloc(user.sub(offset), outer, new_outer.size());
            if base.is_null() {
                return fail(category, new_bytes.saturating_sub(bytes));
            }
            let moved = launder(base.add(offset));
            LEDGER.with(|ledger| {
                match new_bytes.checked_sub(bytes) {
                    Some(growth) => charge(ledger, category, growth),
                    None => ledger.release(category, bytes - new_bytes),
                }
                ledger.recorder.resize(category, user, moved, new_bytes);
            });
            (*header(moved)).bytes = new_bytes;
            moved
        }
    }
}

/// Moves an allocation to another category.
///
/// # Safety
/// `user` was returned by the process's global allocator and is not deallocated during the call.
pub(super) unsafe fn relabel(user: NonNull<u8>, category: Category) {
    if !installed() {
        return;
    }
    LEDGER.with(|ledger| {
        // SAFETY: the global allocator is a LedgerAllocator, so the header exists. The caller holds the storage, so the
        // allocation is not freed or moved meanwhile. The ledger's lock makes this the only reference to the header.
        let header = unsafe { &mut *header(launder(user.as_ptr())) };
        debug_assert_eq!(header.magic, MAGIC);
        if header.magic != MAGIC || header.category == category {
            return;
        }
        if let Err(refusal) = ledger.relabel(header.category, category, header.bytes) {
            ledger.budget.exit(&refusal);
        }
        let (from, bytes) = (header.category, header.bytes);
        ledger.recorder.relabel(from, category, user.as_ptr(), bytes);
        header.category = category;
    });
}

/// Records in the timeline that an allocation of exactly `bytes` holds a tensor. Allocations of category host, and of
/// other sizes, are skipped.
///
/// # Safety
/// As for [`relabel`].
pub(super) unsafe fn describe(user: NonNull<u8>, bytes: u64, dtype: u8, dimensions: &[usize]) {
    LEDGER.with(|ledger| {
        // SAFETY: as in `relabel`.
        let header = unsafe { &*header(launder(user.as_ptr())) };
        if header.magic != MAGIC || !header.category.is_tensor() || header.bytes != bytes {
            return;
        }
        let category = header.category;
        let tensor = u64::from(dtype) | (dimensions.len() as u64) << RANK_SHIFT;
        let recorder = &mut ledger.recorder;
        recorder.push(Kind::Tensor, category, user.as_ptr().addr() as u64, tensor);
        for pair in dimensions.chunks(2) {
            let second = pair.get(1).copied().unwrap_or(0);
            recorder.push(
                Kind::Dimensions,
                category,
                pair.first().copied().unwrap_or(0) as u64,
                second as u64,
            );
        }
    });
}
