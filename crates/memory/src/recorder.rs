//! The buffers in which events wait until the training thread writes them out. They lie outside the heap, so recording
//! an event allocates nothing and changes no figure of the ledger.

use std::io;
use std::ptr::{NonNull, null_mut};

use trace::Category;
use trace::recording::{Event, Kind};

use super::module_names;

/// Events that a buffer holds (16 MiB, of which only pages that are written to become memory). Some thousands of events
/// happen between two calls of [`super::timeline::write_out`].
const CAPACITY: usize = (16 << 20) / Event::SIZE;

type Slot = [u8; Event::SIZE];

/// The timeline's part of the ledger, under the ledger's lock. Nothing in here allocates or panics.
pub(super) struct Recorder {
    /// `None` if nothing is recorded.
    buffers: Option<Buffers>,
    /// Events in the first buffer.
    len: usize,
    /// The clock's nanoseconds when the recording began.
    start: u64,
    /// Events that found no room or did not fit. All events after the first of them are lost, too: they would make no
    /// sense without it.
    lost: u64,
}

/// Two buffers: events go to the first, the second is free or being written out.
#[derive(Clone, Copy)]
pub(super) struct Buffers(NonNull<Slot>, NonNull<Slot>);

// SAFETY: the mappings belong to the owner of the value, not to a thread.
unsafe impl Send for Buffers {}

/// A buffer of events, to be written to the file.
pub(super) struct Batch {
    pub(super) events: NonNull<Slot>,
    pub(super) len: usize,
    pub(super) lost: u64,
}

impl Recorder {
    /// Records nothing.
    pub(super) const OFF: Self = Self {
        buffers: None,
        len: 0,
        start: 0,
        lost: 0,
    };

    /// Records into `buffers` from now on.
    pub(super) fn on(buffers: Buffers) -> Self {
        Self {
            buffers: Some(buffers),
            start: now(),
            ..Self::OFF
        }
    }

    /// Records an event of this instant and thread.
    #[inline]
    pub(super) fn push(&mut self, kind: Kind, category: Category, address: u64, bytes: u64) {
        if let Some(buffers) = self.buffers {
            self.append(buffers, kind, category, address, bytes);
        }
    }

    fn append(&mut self, buffers: Buffers, kind: Kind, category: Category, address: u64, bytes: u64) {
        let event = Event {
            nanos: now().saturating_sub(self.start),
            kind,
            category,
            module: module_names::current(),
            address,
            bytes,
        };
        if self.lost > 0 || self.len == CAPACITY || !event.fits() {
            self.lost += 1;
            return;
        }
        // SAFETY: the buffer has `CAPACITY` slots, `len` is less, and the ledger's lock makes this the only access.
        unsafe { buffers.0.add(self.len).write(event.encode()) };
        self.len += 1;
    }

    #[inline]
    pub(super) fn alloc(&mut self, category: Category, address: *mut u8, bytes: u64) {
        if category.is_tensor() {
            self.push(Kind::Alloc, category, address.addr() as u64, bytes);
        }
    }

    #[inline]
    pub(super) fn free(&mut self, category: Category, address: *mut u8, bytes: u64) {
        if category.is_tensor() {
            self.push(Kind::Free, category, address.addr() as u64, bytes);
        }
    }

    #[inline]
    pub(super) fn resize(&mut self, category: Category, from: *mut u8, to: *mut u8, bytes: u64) {
        if category.is_tensor() {
            self.push(Kind::Resize, category, from.addr() as u64, bytes);
            if from != to {
                self.push(Kind::Move, category, to.addr() as u64, bytes);
            }
        }
    }

    #[inline]
    pub(super) fn relabel(&mut self, from: Category, to: Category, address: *mut u8, bytes: u64) {
        if from.is_tensor() || to.is_tensor() {
            self.push(Kind::Relabel, to, address.addr() as u64, bytes);
        }
    }

    /// Events that wait to be written out.
    pub(super) fn waiting(&self) -> usize {
        self.len
    }

    /// Swaps the buffers and returns the events since the last call. They must be read before the next call.
    pub(super) fn take(&mut self) -> Option<Batch> {
        let Buffers(first, second) = self.buffers?;
        self.buffers = Some(Buffers(second, first));
        Some(Batch {
            events: first,
            len: std::mem::take(&mut self.len),
            lost: self.lost,
        })
    }

    /// Ends the recording and gives the buffers to the caller.
    pub(super) fn stop(&mut self) -> Option<Buffers> {
        self.len = 0;
        self.buffers.take()
    }
}

impl Buffers {
    const BYTES: usize = CAPACITY * Event::SIZE;

    /// Maps both buffers, past the allocator.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(super) fn map() -> io::Result<Self> {
        let first = map()?;
        match map() {
            Ok(second) => Ok(Self(first, second)),
            Err(error) => {
                unmap(first);
                Err(error)
            }
        }
    }

    /// Returns both buffers to the system.
    pub(super) fn unmap(self) {
        unmap(self.0);
        unmap(self.1);
    }
}

fn map() -> io::Result<NonNull<Slot>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: requests a new mapping at an address of the system's choice.
    let pointer = unsafe { libc::mmap(null_mut(), Buffers::BYTES, protection, flags, -1, 0) };
    if pointer == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Huge pages would show in the process's figures, although most of their bytes are never used.
    #[cfg(target_os = "linux")]
    // SAFETY: the mapping was made above; the advice does not change its contents.
    unsafe {
        libc::madvise(pointer, Buffers::BYTES, libc::MADV_NOHUGEPAGE);
    }
    NonNull::new(pointer.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

fn unmap(buffer: NonNull<Slot>) {
    // SAFETY: `map` mapped the buffer with this length, and its owner gives it up.
    unsafe { libc::munmap(buffer.as_ptr().cast(), Buffers::BYTES) };
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure, or leaves it at 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
