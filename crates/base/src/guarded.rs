//! Calls of libraries that panic on some foreign bytes.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// True while this thread is in a guarded call.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call. What it leaves behind is not to be used after a panic.
///
/// # Errors
/// It panics; the panic's message. Nothing is printed then.
pub fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printed = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                printed(info);
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(was_guarded);
    outcome.map_err(|panic| panic_message(panic.as_ref()).to_owned())
}

/// What a panic says.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(guarded(|| 3), Ok(3));
        let failed: Result<(), _> = guarded(|| panic!("at {}", 3));
        assert_eq!(failed, Err("at 3".into()));
        assert!(!IS_GUARDED.get());
    }
}
