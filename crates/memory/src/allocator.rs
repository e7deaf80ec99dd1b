//! The global allocator that keeps the ledger.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use trace::Category;
use trace::recording::{Kind, RANK_SHIFT};

use super::backend::BackendAllocator;
use super::ledger::Ledger;
use super::process_ledger::{HOST, LEDGER};
use super::scope;

/// True once an allocation went through a [`LedgerAllocator`], which therefore is the process's global allocator.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// True if this process keeps a ledger.
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Charges every allocation of `inner` to the ledger, with the size that was requested. Use it as the global allocator
/// only: [`installed`] and [`super::Buffer::label`] assume that.
///
/// A small header in front of each allocation stores its category. Large allocations begin at a cache line. Neither the
/// header nor the bytes that are left out for that are counted.
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
    magic: u16,
    category: Category,
    /// Bytes between the inner allocator's pointer and the caller's.
    offset: u32,
    bytes: u64,
}

const MAGIC: u16 = 0x1ed6;
const HEADER: usize = size_of::<Header>();
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a page, and of a way of a first-level cache.
const PAGE: usize = 4096;
/// Bytes of the smallest large allocation. A page more is at most a 64th of it.
const LARGE: usize = 64 * PAGE;
/// Bytes from the place of one large allocation in its page to that of the next: the golden section of a page, in
/// lines.
const SPREAD: usize = 39 * LINE;

/// Where the caller's bytes lie in an allocation of the inner allocator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// So many bytes from its start: a multiple of the alignment that leaves room for the header.
    At(u32),
    /// At a cache line behind the header, since vectors are stored in whole lines; at another one of the page each
    /// time. Tensors of one size would else lie at almost the same place of their pages. A CPU compares the place of a
    /// load in its page with those of earlier stores, and would wait for the wrong ones. The inner allocator is not
    /// asked to align anything: it would split its free blocks.
    Line,
}

impl Placement {
    /// The layout to request from the inner allocator, and the place in it. `None` if the size or the alignment is too
    /// large.
    fn of(layout: Layout) -> Option<(Layout, Self)> {
        let align = layout.align().max(HEADER);
        let (room, align, placement) = if layout.size() >= LARGE && align <= LINE {
            (PAGE, HEADER, Self::Line)
        } else {
            (align, align, Self::At(align.try_into().ok()?))
        };
        let size = layout.size().checked_add(room)?;
        Some((Layout::from_size_align(size, align).ok()?, placement))
    }

    /// Bytes from the inner allocator's pointer to the caller's.
    fn offset(self, base: *mut u8) -> u32 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        match self {
            Self::At(offset) => offset,
            Self::Line => {
                let place = NEXT.fetch_add(SPREAD, Ordering::Relaxed);
                (HEADER + place.wrapping_sub(base.addr() + HEADER) % PAGE) as u32
            }
        }
    }
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
/// `base` is null or an allocation of [`Placement::of`]'s layout for `bytes`.
#[inline]
unsafe fn track(base: *mut u8, placement: Placement, bytes: usize) -> *mut u8 {
    let bytes = bytes as u64;
    if base.is_null() {
        return fail(scope::current(), bytes);
    }
    if !installed() {
        INSTALLED.store(true, Ordering::Relaxed);
    }
    let (category, offset) = (scope::current(), placement.offset(base));
    // SAFETY: the header lies within the allocation, in front of the caller's bytes, and is aligned because they are.
    unsafe {
        let user = launder(base.add(offset as usize));
        match category {
            Category::Host => HOST.charge(bytes),
            _ => LEDGER.with(|ledger| {
                charge(ledger, category, bytes);
                ledger.recorder.alloc(category, user, bytes);
            }),
        }
        header(user).write(Header {
            magic: MAGIC,
            category,
            offset,
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

// SAFETY: the caller's pointer is the inner allocator's plus an offset that keeps the alignment. The inner allocator
// gets back its own pointers and layouts. The ledger neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LedgerAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((outer, placement)) = Placement::of(layout) else {
            return null_mut();
        };
        // SAFETY: the outer layout is larger than the caller's, so it is not empty.
        unsafe { track(self.inner.alloc(outer), placement, layout.size()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((outer, placement)) = Placement::of(layout) else {
            return null_mut();
        };
        // SAFETY: as in `alloc`; the header is in front of what has to be zero.
        unsafe { track(self.inner.alloc_zeroed(outer), placement, layout.size()) }
    }

    #[inline]
    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        let Some((outer, _)) = Placement::of(layout) else {
            return;
        };
        let user = launder(user);
        // SAFETY: the caller gives back a pointer that `track` made for this layout.
        unsafe {
            let Header {
                category,
                offset,
                bytes,
                ..
            } = header(user).read();
            match category {
                Category::Host => HOST.release(bytes),
                _ => LEDGER.with(|ledger| {
                    ledger.release(category, bytes);
                    ledger.recorder.free(category, user, bytes);
                }),
            }
            self.inner.dealloc(user.sub(offset as usize), outer);
        }
    }

    #[inline]
    unsafe fn realloc(&self, user: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new_layout = Layout::from_size_align(new_size, layout.align()).ok();
        let (Some((outer, placement)), Some((new_outer, new_placement))) =
            (Placement::of(layout), new_layout.and_then(Placement::of))
        else {
            return null_mut();
        };
        let user = launder(user);
        let (kept, new_bytes) = (layout.size().min(new_size), new_size as u64);
        // SAFETY: the caller gives a pointer that `track` made for this layout. Where both are placed alike, both have
        // room for what is kept behind either offset, so the contents can be moved after the inner allocator has. Else
        // the new allocation is another one, with room for them.
        unsafe {
            let Header {
                category,
                offset,
                bytes,
                ..
            } = header(user).read();
            let start = user.sub(offset as usize);
            let is_alike = placement == new_placement;
            let base = if is_alike {
                self.inner.realloc(start, outer, new_outer.size())
            } else {
                self.inner.alloc(new_outer)
            };
            if base.is_null() {
                return fail(category, new_bytes.saturating_sub(bytes));
            }
            let new_offset = if is_alike && (base.addr() + offset as usize).is_multiple_of(LINE) {
                offset
            } else {
                new_placement.offset(base)
            };
            let moved = launder(base.add(new_offset as usize));
            if !is_alike {
                user.copy_to_nonoverlapping(moved, kept);
            } else if new_offset != offset {
                base.add(offset as usize).copy_to(moved, kept);
            }
            let growth = new_bytes.checked_sub(bytes);
            match (category, growth) {
                (Category::Host, Some(growth)) => HOST.charge(growth),
                (Category::Host, None) => HOST.release(bytes - new_bytes),
                _ => LEDGER.with(|ledger| {
                    match growth {
                        Some(growth) => charge(ledger, category, growth),
                        None => ledger.release(category, bytes - new_bytes),
                    }
                    ledger.recorder.resize(category, user, moved, new_bytes);
                }),
            }
            if !is_alike {
                // Not before: another thread could get this memory, and record it, while it still counts as this
                // allocation.
                self.inner.dealloc(start, outer);
            }
            header(moved).write(Header {
                magic: MAGIC,
                category,
                offset: new_offset,
                bytes: new_bytes,
            });
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

/// The global allocator of a program that trains: the ledger over the backend of the process. It is not generic, so its
/// code is compiled here, where code is optimised, and not in the program.
pub struct ProcessAllocator;

static PROCESS: LedgerAllocator<BackendAllocator> = LedgerAllocator::new(BackendAllocator);

// SAFETY: passes every request unchanged to one allocator.
unsafe impl GlobalAlloc for ProcessAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs.
        unsafe { PROCESS.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs.
        unsafe { PROCESS.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator needs, and the pointer came from it.
        unsafe { PROCESS.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises that the allocator needs, and the pointer came from it.
        unsafe { PROCESS.dealloc(pointer, layout) }
    }
}
