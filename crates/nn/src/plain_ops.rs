//! A switch for tests: layers compute by candle's ops alone, as on a device without kernels.

use std::cell::Cell;

thread_local! {
    static PLAIN_OPS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` as on a device without kernels: by candle's ops alone, on this thread. For tests that compare the two.
pub fn with_plain_ops<T>(f: impl FnOnce() -> T) -> T {
    PLAIN_OPS.set(true);
    let outcome = f();
    PLAIN_OPS.set(false);
    outcome
}

/// True within [`with_plain_ops`].
pub(crate) fn is_on() -> bool {
    PLAIN_OPS.get()
}
