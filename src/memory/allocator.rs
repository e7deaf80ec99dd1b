//! The global allocator that keeps the ledger.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use super::category::Category;
use super::event::{Kind, RANK_SHIFT};
use super::ledger::{LEDGER, Ledger};
use super::scope;

/// Whether an allocation went through a [`LedgerAllocator`], which therefore is the process's global allocator.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether this process keeps a ledger.
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Enters every allocation of `inner` into the ledger, with the size that was requested. To be used as the global
/// allocator only: [`installed`] and [`super::label`] take it for that.
///
/// A small header in front of each allocation keeps its category. The header itself is not counted.
pub struct LedgerAllocator<A = System> {
    inner: A,
}

impl<A> LedgerAllocator<A> {
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

/// Lies directly in front of what the caller gets.
#[repr(C, align(16))]
struct Header {
    magic: u32,
    category: Category,
    bytes: u64,
}

const MAGIC: u32 = 0x1ed6_e4ed;
const HEADER: usize = size_of::<Header>();

/// The layout to ask of the inner allocator, and the offset in it of what the caller gets: a multiple of the alignment
/// with room for the header.
fn with_header(layout: Layout) -> Option<(Layout, usize)> {
    let offset = layout.align().max(HEADER);
    let size = layout.size().checked_add(offset)?;
    Some((Layout::from_size_align(size, offset).ok()?, offset))
}

/// The same pointer, of which the compiler no longer knows where it comes from.
///
/// Where it inlines one of the allocator's functions and not its counterpart, it takes what the caller has for a whole
/// allocation, in front of which nothing can be, and all code after the header is read for unreachable.
#[inline(always)]
fn of_unknown_origin(pointer: *mut u8) -> *mut u8 {
    black_box(pointer)
}

/// # Safety
/// `user` was returned by a [`LedgerAllocator`] and not yet deallocated; its origin is unknown.
unsafe fn header(user: *mut u8) -> *mut Header {
    // SAFETY: every allocation has a header directly in front of it.
    unsafe { user.sub(HEADER).cast() }
}

/// Enters a new allocation and writes its header; returns what the caller gets.
///
/// # Safety
/// `base` is null or an allocation of [`with_header`]'s layout for `bytes` and `offset`.
#[inline]
unsafe fn enter(base: *mut u8, offset: usize, bytes: usize) -> *mut u8 {
    let bytes = bytes as u64;
    if base.is_null() {
        return refused(scope::current(), bytes);
    }
    if !installed() {
        INSTALLED.store(true, Ordering::Relaxed);
    }
    let category = scope::current();
    // SAFETY: the header lies within the allocation, in front of the offset, and is aligned because the offset is.
    unsafe {
        let user = of_unknown_origin(base.add(offset));
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

/// Charges after the allocation is made, so that one lock serves and a request that failed leaves no trace; a request past
/// the budget ends the process before anybody touches it.
fn charge(ledger: &mut Ledger, category: Category, bytes: u64) {
    if let Err(refusal) = ledger.charge(category, bytes) {
        ledger.budget.end_process(&refusal);
    }
}

#[cold]
fn refused(category: Category, bytes: u64) -> *mut u8 {
    LEDGER.with(|ledger| {
        let refusal = ledger.refusal(category, bytes);
        ledger.budget.end_process(&refusal);
    });
    null_mut()
}

// SAFETY: hands out what the inner allocator gave, moved up by an offset that is a multiple of the alignment; the inner
// allocator gets back its own pointers and layouts. The ledger neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LedgerAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((outer, offset)) = with_header(layout) else {
            return null_mut();
        };
        // SAFETY: the outer layout is larger than the caller's, so it is not empty.
        unsafe { enter(self.inner.alloc(outer), offset, layout.size()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((outer, offset)) = with_header(layout) else {
            return null_mut();
        };
        // SAFETY: as in `alloc`; the header is in front of what has to be zero.
        unsafe { enter(self.inner.alloc_zeroed(outer), offset, layout.size()) }
    }

    #[inline]
    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        let Some((outer, offset)) = with_header(layout) else {
            return;
        };
        let user = of_unknown_origin(user);
        // SAFETY: the caller gives back what `enter` made of this layout.
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
        let user = of_unknown_origin(user);
        // SAFETY: the caller gives what `enter` made of this layout; the offset depends on the alignment alone, so the
        // header moves with the contents and lies in front of the new address.
        unsafe {
            let Header { category, bytes, .. } = header(user).read();
            let new_bytes = new_size as u64;
            let base = self.inner.realloc(user.sub(offset), outer, new_outer.size());
            if base.is_null() {
                return refused(category, new_bytes.saturating_sub(bytes));
            }
            let moved = of_unknown_origin(base.add(offset));
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

/// Gives an allocation another category.
///
/// # Safety
/// `user` was returned by the process's global allocator and is not deallocated during the call.
pub(super) unsafe fn relabel(user: NonNull<u8>, category: Category) {
    if !installed() {
        return;
    }
    LEDGER.with(|ledger| {
        // SAFETY: the global allocator is a LedgerAllocator, so the header is there; the caller holds the storage, so
        // nobody frees or moves the allocation meanwhile, and labels are given under the ledger's lock only.
        let header = unsafe { &mut *header(of_unknown_origin(user.as_ptr())) };
        debug_assert_eq!(header.magic, MAGIC);
        if header.magic != MAGIC || header.category == category {
            return;
        }
        if let Err(refusal) = ledger.relabel(header.category, category, header.bytes) {
            ledger.budget.end_process(&refusal);
        }
        let (from, bytes) = (header.category, header.bytes);
        ledger.recorder.relabel(from, category, user.as_ptr(), bytes);
        header.category = category;
    });
}

/// Tells the timeline that an allocation of exactly `bytes` holds a tensor, where it is in a tensor category.
///
/// # Safety
/// As for [`relabel`].
pub(super) unsafe fn describe(user: NonNull<u8>, bytes: u64, dtype: u8, dimensions: &[usize]) {
    LEDGER.with(|ledger| {
        // SAFETY: as in `relabel`.
        let header = unsafe { &*header(of_unknown_origin(user.as_ptr())) };
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
