//! Where events wait until the training thread writes them out: two buffers beside the heap, so that keeping an event
//! allocates nothing and shows in no figure of the ledger.

use std::io;
use std::ptr::{NonNull, null_mut};

use super::category::Category;
use super::event::{Event, Kind};
use super::module;

/// Events that a buffer holds (16 MiB; only what is written to becomes memory). The longest stretch between two calls of
/// [`super::timeline::write_out`] makes some thousands.
const CAPACITY: usize = (16 << 20) / Event::SIZE;

type Slot = [u8; Event::SIZE];

/// Part of the ledger, and under its lock. Nothing in here allocates or panics.
pub(super) struct Recorder {
    /// None where nothing is recorded.
    buffers: Option<Buffers>,
    /// Events in the first buffer.
    len: usize,
    /// The clock when the recording began.
    start: u64,
    /// Events that found no room or did not fit. What comes after the first of them is not kept either: it would make no
    /// sense without.
    lost: u64,
}

/// The first is written to, the second is free or being written out.
#[derive(Clone, Copy)]
pub(super) struct Buffers(NonNull<Slot>, NonNull<Slot>);

// SAFETY: the memory belongs to whoever has the value, and no thread.
unsafe impl Send for Buffers {}

/// Events that were taken out.
pub(super) struct Taken {
    pub(super) events: NonNull<Slot>,
    pub(super) len: usize,
    pub(super) lost: u64,
}

impl Recorder {
    pub(super) const OFF: Self = Self {
        buffers: None,
        len: 0,
        start: 0,
        lost: 0,
    };

    pub(super) fn on(buffers: Buffers) -> Self {
        Self {
            buffers: Some(buffers),
            start: now(),
            ..Self::OFF
        }
    }

    /// Keeps an event of this instant and thread.
    #[inline]
    pub(super) fn push(&mut self, kind: Kind, category: Category, address: u64, bytes: u64) {
        if let Some(buffers) = self.buffers {
            self.keep(buffers, kind, category, address, bytes);
        }
    }

    fn keep(&mut self, buffers: Buffers, kind: Kind, category: Category, address: u64, bytes: u64) {
        let event = Event {
            nanos: now().saturating_sub(self.start),
            kind,
            category,
            module: module::current(),
            address,
            bytes,
        };
        if self.lost > 0 || self.len == CAPACITY || !event.fits() {
            self.lost += 1;
            return;
        }
        // SAFETY: the buffer has `CAPACITY` slots, and whoever has the lock is the only one to use it.
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

    pub(super) fn waiting(&self) -> usize {
        self.len
    }

    /// What was kept since the last call. It must be read before the next one.
    pub(super) fn take(&mut self) -> Option<Taken> {
        let Buffers(first, second) = self.buffers?;
        self.buffers = Some(Buffers(second, first));
        Some(Taken {
            events: first,
            len: std::mem::take(&mut self.len),
            lost: self.lost,
        })
    }

    /// Keeps nothing more; the buffers are the caller's.
    pub(super) fn stop(&mut self) -> Option<Buffers> {
        self.len = 0;
        self.buffers.take()
    }
}

impl Buffers {
    const BYTES: usize = CAPACITY * Event::SIZE;

    /// From the system itself.
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

    pub(super) fn unmap(self) {
        unmap(self.0);
        unmap(self.1);
    }
}

fn map() -> io::Result<NonNull<Slot>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: asks for new memory, wherever the system has room.
    let pointer = unsafe { libc::mmap(null_mut(), Buffers::BYTES, protection, flags, -1, 0) };
    if pointer == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Only the pages that are used: huge ones would show in the process's figures.
    #[cfg(target_os = "linux")]
    // SAFETY: the mapping is ours; the advice changes nothing of its contents.
    unsafe {
        libc::madvise(pointer, Buffers::BYTES, libc::MADV_NOHUGEPAGE);
    }
    NonNull::new(pointer.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

fn unmap(buffer: NonNull<Slot>) {
    // SAFETY: mapped by `map` with this length, and given up by its owner.
    unsafe { libc::munmap(buffer.as_ptr().cast(), Buffers::BYTES) };
}

/// Nanoseconds of a clock that only goes forward.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure; where it cannot, the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
