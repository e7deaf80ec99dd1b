//! The category of what a thread allocates.

use std::cell::Cell;
use std::marker::PhantomData;

use super::category::Category;

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time of a thread's life.
    static CURRENT: Cell<Category> = const { Cell::new(Category::Host) };
}

/// From now until the scope is dropped, what this thread allocates is of `category`. Scopes nest.
#[must_use = "the scope ends when it is dropped"]
pub fn scope(category: Category) -> Scope {
    Scope {
        outer: CURRENT.replace(category),
        not_send: PhantomData,
    }
}

/// A scope that is open on this thread.
pub struct Scope {
    outer: Category,
    not_send: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// The innermost scope's category; host outside scopes.
#[inline]
pub(super) fn current() -> Category {
    CURRENT.get()
}
