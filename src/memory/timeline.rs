//! The timeline: every event of the ledger's tensor categories, with its time and what it was for, in a file.
//!
//! Host memory is left out: how much of the kernels' scratch lives at once depends on scheduling, and it is no part of
//! allocated. The allocator keeps events in a buffer of its own (`recorder`), and the training thread writes them out
//! between segments.
//!
//! The file is [`MAGIC`] and then chunks, each a byte that says what it holds, its length as a little-endian u32, and so
//! many bytes; what is cut short by a kill can be read up to the last whole chunk.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::allocator::installed;
use super::category::{ByCategory, Category};
use super::event::{Event, Kind};
use super::ledger::LEDGER;
use super::module;
use super::recorder::{Buffers, Recorder};
use super::scope::scope;

/// What a timeline begins with.
pub const MAGIC: &[u8; 16] = b"expctl timeline1";

/// A chunk of names, a line each; the first name of a file has the number 1.
pub const NAMES: u8 = 1;
/// A chunk of events, after the live bytes of each category at their end (eight little-endian u64).
pub const EVENTS: u8 = 2;
/// The last chunk: the number of events that were lost, a little-endian u64.
pub const END: u8 = 3;

/// Fewer waiting events than this are not worth a write.
const WORTHWHILE: usize = 1024;

static RECORDING: AtomicBool = AtomicBool::new(false);
static FILE: Mutex<Option<Output>> = Mutex::new(None);

struct Output {
    file: File,
    /// The last step that is recorded.
    steps: usize,
    /// Names that are in the file.
    names: usize,
    failed: Option<io::Error>,
}

/// Whether events are kept.
#[inline]
pub(super) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Records from now on, to `file`, until the end of step `steps` or [`finish`]. What is live already is one allocation for
/// each category, whose number is its address.
///
/// # Errors
/// Where the system gives no memory for the events, or the file cannot be written.
pub fn start(mut file: File, steps: usize) -> io::Result<()> {
    if !installed() {
        return Err(io::Error::other("this process keeps no ledger"));
    }
    file.write_all(MAGIC)?;
    let buffers = Buffers::map()?;
    *output() = Some(Output {
        file,
        steps,
        names: 0,
        failed: None,
    });
    LEDGER.with(|ledger| {
        ledger.recorder = Recorder::on(buffers);
        for (category, bytes) in ledger.live().iter().filter(|(_, bytes)| *bytes > 0) {
            if category.is_tensor() {
                ledger.recorder.push(Kind::Alloc, category, category as u64, bytes);
            }
        }
    });
    RECORDING.store(true, Ordering::Relaxed);
    Ok(())
}

/// Writes out what has been kept, where that is worth it. To be called by the training thread, between segments.
pub fn write_out() {
    if is_recording() && LEDGER.with(|ledger| ledger.recorder.waiting()) >= WORTHWHILE {
        let _scope = scope(Category::Host);
        if let Some(output) = &mut *output() {
            output.write();
        }
    }
}

/// Says that a step begins, from 1.
pub fn begin_step(step: usize) {
    mark(Kind::StepBegin, step);
}

/// Says that a step is computed, its gradients being still there.
pub fn end_step(step: usize) {
    mark(Kind::StepEnd, step);
}

fn mark(kind: Kind, step: usize) {
    if is_recording() {
        LEDGER.with(|ledger| ledger.recorder.push(kind, Category::Host, 0, step as u64));
    }
}

/// Says that what a step left is given back, too; the recording ends with the last step it was to have.
pub fn step_released(step: usize) {
    if is_recording() {
        let _scope = scope(Category::Host);
        if let Some(output) = &mut *output()
            && step >= output.steps
        {
            output.end();
        }
    }
}

/// Ends the recording, if it has not ended yet.
///
/// # Errors
/// Where the file could not be written, now or before.
pub fn finish() -> io::Result<()> {
    let _scope = scope(Category::Host);
    let Some(mut output) = output().take() else {
        return Ok(());
    };
    output.end();
    output.failed.map_or(Ok(()), Err)
}

fn output() -> MutexGuard<'static, Option<Output>> {
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    fn write(&mut self) {
        let (taken, live) = LEDGER.with(|ledger| (ledger.recorder.take(), ledger.live()));
        let Some(taken) = taken else { return };
        // SAFETY: `len` slots were written, and the recorder does not touch them before the next `take`, for which the
        // output's lock is needed.
        let events = unsafe { std::slice::from_raw_parts(taken.events.as_ptr(), taken.len) };
        if let Err(error) = self.append(events, live) {
            self.failed = Some(error);
            self.stop();
        } else if taken.lost > 0 {
            self.close(taken.lost);
        }
    }

    /// The names come first: the events refer to them.
    fn append(&mut self, events: &[[u8; Event::SIZE]], live: ByCategory) -> io::Result<()> {
        let (known, names) = module::names_after(self.names);
        if !names.is_empty() {
            self.chunk(NAMES, &[names.as_bytes()])?;
            self.names = known;
        }
        let mut sums = [0; Category::ALL.len() * 8];
        for ((_, bytes), sum) in live.iter().zip(sums.chunks_exact_mut(8)) {
            sum.copy_from_slice(&bytes.to_le_bytes());
        }
        self.chunk(EVENTS, &[&sums, events.as_flattened()])
    }

    fn chunk(&mut self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = [kind, 0, 0, 0, 0];
        head[1..].copy_from_slice(&(length as u32).to_le_bytes());
        self.file.write_all(&head)?;
        parts.iter().try_for_each(|part| self.file.write_all(part))
    }

    fn end(&mut self) {
        if is_recording() {
            self.write();
            self.close(0);
        }
    }

    fn close(&mut self, lost: u64) {
        if is_recording() {
            self.stop();
            if let Err(error) = self.chunk(END, &[&lost.to_le_bytes()]) {
                self.failed = Some(error);
            }
        }
    }

    fn stop(&mut self) {
        RECORDING.store(false, Ordering::Relaxed);
        if let Some(buffers) = LEDGER.with(|ledger| ledger.recorder.stop()) {
            buffers.unmap();
        }
    }
}
