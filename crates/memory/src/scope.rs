//! The category of a thread's allocations.

use std::cell::Cell;
use std::marker::PhantomData;

use trace::Category;

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time in a thread's life.
    static CURRENT: Cell<Category> = const { Cell::new(Category::Host) };
}

/// Opens a scope: until it is dropped, this thread's allocations are of `category`. Scopes nest.
#[must_use = "the scope ends when it is dropped"]
pub fn scope(category: Category) -> Scope {
    Scope {
        outer: CURRENT.replace(category),
        not_send: PhantomData,
    }
}

/// An open [`scope`] of this thread.
pub struct Scope {
    outer: Category,
    not_send: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// The category of the innermost scope; host outside scopes.
#[inline]
pub(super) fn current() -> Category {
    CURRENT.get()
}

/// The category of a tensor that is made now: the innermost scope's, or temporary if that is the host's.
#[inline]
pub(super) fn tensor() -> Category {
    match current() {
        Category::Host => Category::Temporary,
        category => category,
    }
}
