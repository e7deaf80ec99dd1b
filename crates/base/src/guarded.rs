//! Calls of libraries that panic on some foreign bytes, or need a stack as deep as a text is long.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

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

/// The stack of a deep call. Only what is used of it takes memory.
pub const DEEP_STACK: usize = 512 << 20;

/// Makes a call that recurses as deep as the text of a template nests, such as that of a parser.
///
/// # Errors
/// The system gives no thread with such a stack.
pub fn on_deep_stack<T: Send>(call: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let deep = thread::Builder::new()
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, call)?;
        Ok(deep.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
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

    #[test]
    fn a_deep_call_has_room() {
        fn depth(left: u32) -> u32 {
            std::hint::black_box([0u8; 200]);
            if left == 0 {
                0
            } else {
                1 + std::hint::black_box(depth(left - 1))
            }
        }
        assert_eq!(on_deep_stack(|| depth(200_000)).unwrap(), 200_000);
    }
}
