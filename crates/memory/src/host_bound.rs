//! The bound on what a thread may allocate for the host while it works on foreign files.

use std::cell::Cell;
use std::fmt::Write as _;

use base::bounds::INVALID_INPUT;

use super::budget::Line;

/// No work is bounded.
const NONE: i64 = i64::MAX;

thread_local! {
    // Constant and without a destructor, so that the allocator can read them at any time in a thread's life.
    /// Bytes that this thread may still allocate.
    static LEFT: Cell<i64> = const { Cell::new(NONE) };
    /// What is said if it allocates more.
    static MESSAGE: Cell<Line> = const { Cell::new(Line::new()) };
}

/// Counts bytes of the host that this thread allocates; negative ones are freed. Ends the process if they are too many.
/// Neither allocates nor unwinds.
#[inline]
pub(super) fn count(bytes: i64) {
    let left = LEFT.get();
    if left == NONE {
        return;
    }
    let left = left.saturating_sub(bytes);
    if left < 0 {
        MESSAGE.get().exit(libc::STDERR_FILENO, INVALID_INPUT);
    }
    LEFT.set(left.min(NONE - 1));
}

/// Bounds this thread's work from now on. False if it is bounded already.
pub(super) fn begin(message: &str, bytes: u64) -> bool {
    if LEFT.get() != NONE {
        return false;
    }
    let mut line = Line::new();
    if line.write_str(message).is_err() {
        line.cut(96);
        let _ = line.write_str("... takes more memory than it may\n");
    }
    MESSAGE.set(line);
    LEFT.set(i64::try_from(bytes).unwrap_or(NONE).min(NONE - 1));
    true
}

/// Ends the bound.
pub(super) fn end() {
    LEFT.set(NONE);
}
