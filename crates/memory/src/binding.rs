//! The module that a thread computes for, by the short names of plans: the ledger keeps the one of the peak, which
//! binds.
//!
//! Unlike the names of [`super::module`], which a timeline alone needs, these cost no allocation and no look-up.

use std::cell::Cell;
use std::marker::PhantomData;

use trace::Module;

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time in a thread's life.
    static CURRENT: Cell<Option<Module>> = const { Cell::new(None) };
}

/// This thread's module; `None` outside modules.
#[inline]
pub(super) fn current() -> Option<Module> {
    CURRENT.get()
}

/// Opens a scope in which this thread computes for the module `name`, such as `mlp`, of its block, if it is in one.
#[must_use = "the scope ends when it is dropped"]
pub fn enter(name: &'static str) -> Entered {
    let layer = CURRENT.get().and_then(|module| module.layer);
    replace(Module { name, layer })
}

/// Opens a scope in which this thread computes for a block.
#[must_use = "the scope ends when it is dropped"]
pub fn enter_layer(index: usize) -> Entered {
    replace(Module {
        name: "",
        layer: u16::try_from(index).ok(),
    })
}

fn replace(module: Module) -> Entered {
    Entered {
        outer: CURRENT.replace(Some(module)),
        not_send: PhantomData,
    }
}

/// An open scope of [`enter`] or [`enter_layer`].
pub struct Entered {
    outer: Option<Module>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_block_have_its_number_and_scopes_end() {
        let name = || current().map(|module| module.to_string());
        {
            let _layer = enter_layer(3);
            assert_eq!(name().as_deref(), Some("layers.3"));
            {
                let _part = enter("mlp");
                assert_eq!(name().as_deref(), Some("layers.3.mlp"));
            }
            assert_eq!(name().as_deref(), Some("layers.3"));
        }
        let _head = enter("lm_head");
        assert_eq!(name().as_deref(), Some("lm_head"));
    }
}
