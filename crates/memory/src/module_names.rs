//! The names of the model's modules, and the module of each thread, by number.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time in a thread's life.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
}

/// The number of this thread's module; 0 outside modules.
#[inline]
pub(super) fn current() -> u16 {
    CURRENT.get()
}

/// Sets this thread's module.
pub(super) fn set_current(id: u16) {
    CURRENT.set(id);
}

static NAMES: Mutex<Names> = Mutex::new(Names {
    ids: BTreeMap::new(),
    names: Vec::new(),
});

/// Every name has a number, from 1.
struct Names {
    ids: BTreeMap<String, u16>,
    names: Vec<String>,
}

/// The number of `name` within the module `outer`, or of `name` itself if `outer` is 0; 0 if no numbers are left.
pub(super) fn id(outer: u16, name: &dyn Display) -> u16 {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).id(outer, name)
}

/// The number of all names, and those after the first `known`, one a line.
pub(super) fn after(known: usize) -> (usize, String) {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let new = names.names.get(known..).unwrap_or_default();
    (names.names.len(), new.iter().map(|name| format!("{name}\n")).collect())
}

impl Names {
    fn id(&mut self, outer: u16, name: &dyn Display) -> u16 {
        let path = match usize::from(outer).checked_sub(1).and_then(|at| self.names.get(at)) {
            Some(outer) => format!("{outer}.{name}"),
            None => name.to_string(),
        };
        if let Some(&id) = self.ids.get(&path) {
            return id;
        }
        let Ok(id) = u16::try_from(self.names.len() + 1) else {
            return 0;
        };
        self.names.push(path.clone());
        self.ids.insert(path, id);
        id
    }
}
