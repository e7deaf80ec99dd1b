//! Bounds on what foreign files can make a library do: a template that grows a text, a tokenizer whose rules never end.
//! Libraries ask nobody before they allocate, and no call can be stopped from outside, so the process ends, with a message.

use std::fmt;
use std::io::{Write, stderr};
use std::process;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::text::visible;

/// The exit code of a process that exceeds its bounds: the input is at fault.
pub const INVALID_INPUT: i32 = 2;

/// How much a piece of work may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes beside those that are live when it begins, tensors aside.
    pub bytes: u64,
    /// From its beginning to its end.
    pub time: Duration,
}

/// What bounds the memory of this process: an allocator that counts.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBound {
    /// A piece of work begins on this thread, which may take so many bytes; if it takes more, the allocator ends the process
    /// with this message and [`INVALID_INPUT`]. False if the thread is at one already, which then goes on to be bounded.
    pub begin: fn(&str, u64) -> bool,
    /// It ends.
    pub end: fn(),
}

static MEMORY: OnceLock<MemoryBound> = OnceLock::new();

/// Has [`bounded`] bound work from now on, by this allocator.
pub fn bound_work(memory: MemoryBound) {
    MEMORY.get_or_init(|| memory);
}

/// Works on foreign input within bounds. If the work exceeds them, the process ends with exit code 2 and says on stderr
/// that `what` takes too much. What other threads allocate does not count. Nothing is bounded in a process without
/// [`bound_work`], such as that of another program which uses this library.
pub fn bounded<T>(what: fmt::Arguments, bounds: Bounds, work: impl FnOnce() -> T) -> T {
    let Some(memory) = MEMORY.get() else {
        return work();
    };
    let what = visible(&what.to_string()).into_owned();
    let _memory = BoundedMemory::begin(memory, &what, bounds.bytes);
    let _time = BoundedTime::begin(&what, bounds.time);
    work()
}

/// What ends the bound on a thread's memory; `None` if another piece of work around this one does.
struct BoundedMemory(Option<fn()>);

impl BoundedMemory {
    fn begin(memory: &MemoryBound, what: &str, bytes: u64) -> Self {
        let size = bytes >> 20;
        let begun = (memory.begin)(&format!("error: {what} takes more than {size} MiB of memory\n"), bytes);
        Self(begun.then_some(memory.end))
    }
}

impl Drop for BoundedMemory {
    fn drop(&mut self) {
        if let Some(end) = self.0 {
            end();
        }
    }
}

/// A piece of work that is under way.
struct Work {
    number: u64,
    /// Rounds of the watching thread that it may still take. A process that was stopped for a while had none.
    rounds: u32,
    message: Box<str>,
}

static UNDER_WAY: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// Wakes the thread that watches them.
static BEGUN: Condvar = Condvar::new();

/// The time between two looks at what is under way.
const ROUND: Duration = Duration::from_millis(100);

/// The number of a piece of work.
struct BoundedTime(u64);

impl BoundedTime {
    fn begin(what: &str, time: Duration) -> Self {
        static WATCH: OnceLock<()> = OnceLock::new();
        WATCH.get_or_init(|| {
            // Without the thread the time has no bound.
            let _ = thread::Builder::new().name("bounds".into()).spawn(watch);
        });
        let message = format!("error: {what} takes longer than {} s\n", time.as_secs());
        let mut under_way = under_way();
        let number = under_way.last().map_or(0, |work| work.number + 1);
        if under_way.is_empty() {
            BEGUN.notify_one();
        }
        under_way.push(Work {
            number,
            rounds: (time.as_millis() / ROUND.as_millis()) as u32 + 1,
            message: message.into(),
        });
        Self(number)
    }
}

impl Drop for BoundedTime {
    fn drop(&mut self) {
        under_way().retain(|work| work.number != self.0);
    }
}

fn under_way() -> MutexGuard<'static, Vec<Work>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process when a piece of work takes too long. Sleeps while there is none.
#[expect(clippy::exit, reason = "the work cannot be asked to stop")]
fn watch() {
    let mut works = under_way();
    loop {
        if works.is_empty() {
            works = BEGUN.wait(works).unwrap_or_else(PoisonError::into_inner);
        }
        drop(works);
        thread::sleep(ROUND);
        works = under_way();
        for work in works.iter_mut() {
            if work.rounds == 0 {
                // Nobody may be reading.
                let _ = stderr().write_all(work.message.as_bytes());
                process::exit(INVALID_INPUT);
            }
            work.rounds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_an_allocator_that_counts_is_done() {
        let bounds = Bounds {
            bytes: 0,
            time: Duration::ZERO,
        };
        assert_eq!(bounded(format_args!("x"), bounds, || vec![1; 100].len()), 100);
    }
}
