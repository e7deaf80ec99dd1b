//! The timeline: a file of all events of the ledger's tensor categories, each with its time and module.
//!
//! Host memory is left out: it does not count as allocated, and how much of the kernels' scratch is live at once
//! depends on scheduling. The allocator writes events to a buffer (`recorder`), and the training thread writes them to
//! the file between segments. [`trace::recording`] describes the file.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trace::recording::{END, EVENTS, Event, Kind, MAGIC, NAMES};
use trace::{ByCategory, Category};

use super::allocator::installed;
use super::module_names;
use super::process_ledger::LEDGER;
use super::recorder::{Buffers, Recorder};
use super::scope::scope;

/// The fewest waiting events that are worth a write.
const MIN_WRITE: usize = 1024;

static RECORDING: AtomicBool = AtomicBool::new(false);
static FILE: Mutex<Option<Output>> = Mutex::new(None);

struct Output {
    file: File,
    /// The last step that is recorded.
    steps: usize,
    /// Number of names in the file.
    names: usize,
    failed: Option<io::Error>,
}

/// True during a recording.
#[inline]
pub fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Begins a recording to `file`, which lasts until the end of step `steps` or [`finish`]. Memory that is live already
/// becomes one allocation a category, with the category's number as its address.
///
/// # Errors
/// If the process keeps no ledger, the system gives no memory for the events, or the file cannot be written.
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

/// Writes waiting events to the file, if they are many. The training thread calls it between segments.
pub fn write_out() {
    if is_recording() && LEDGER.with(|ledger| ledger.recorder.waiting()) >= MIN_WRITE {
        let _scope = scope(Category::Host);
        if let Some(output) = &mut *output() {
            output.write();
        }
    }
}

/// Records that step `step`, from 1, begins.
pub fn begin_step(step: usize) {
    record_step(Kind::StepBegin, step);
}

/// Records that step `step` is computed. Its gradients are still live.
pub fn end_step(step: usize) {
    record_step(Kind::StepEnd, step);
}

fn record_step(kind: Kind, step: usize) {
    if is_recording() {
        LEDGER.with(|ledger| ledger.recorder.push(kind, Category::Host, 0, step as u64));
    }
}

/// Ends the recording after its last step. The trainer calls it when a step's gradients are released.
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
/// If the file could not be written, now or before.
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
        let (batch, live) = LEDGER.with(|ledger| (ledger.recorder.take(), ledger.live()));
        let Some(batch) = batch else { return };
        // SAFETY: `len` slots are written. The recorder leaves them alone until the next `take`, which needs the
        // output's lock.
        let events = unsafe { std::slice::from_raw_parts(batch.events.as_ptr(), batch.len) };
        if let Err(error) = self.append(events, live) {
            self.failed = Some(error);
            self.stop();
        } else if batch.lost > 0 {
            self.close(batch.lost);
        }
    }

    /// Appends a chunk of events, after new names that they refer to.
    fn append(&mut self, events: &[[u8; Event::SIZE]], live: ByCategory) -> io::Result<()> {
        let (known, names) = module_names::after(self.names);
        if !names.is_empty() {
            self.write_chunk(NAMES, &[names.as_bytes()])?;
            self.names = known;
        }
        let mut sums = [0; Category::ALL.len() * 8];
        for ((_, bytes), sum) in live.iter().zip(sums.chunks_exact_mut(8)) {
            sum.copy_from_slice(&bytes.to_le_bytes());
        }
        self.write_chunk(EVENTS, &[&sums, events.as_flattened()])
    }

    fn write_chunk(&mut self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = [kind, 0, 0, 0, 0];
        head[1..].copy_from_slice(&(length as u32).to_le_bytes());
        self.file.write_all(&head)?;
        parts.iter().try_for_each(|part| self.file.write_all(part))
    }

    /// Writes the remaining events and the last chunk.
    fn end(&mut self) {
        if is_recording() {
            self.write();
            self.close(0);
        }
    }

    /// Writes the last chunk.
    fn close(&mut self, lost: u64) {
        if is_recording() {
            self.stop();
            if let Err(error) = self.write_chunk(END, &[&lost.to_le_bytes()]) {
                self.failed = Some(error);
            }
        }
    }

    /// Ends the recording in the allocator.
    fn stop(&mut self) {
        RECORDING.store(false, Ordering::Relaxed);
        if let Some(buffers) = LEDGER.with(|ledger| ledger.recorder.stop()) {
            buffers.unmap();
        }
    }
}
