//! Which part of the model a thread works for, by name; known only where a timeline is recorded.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use super::category::Category;
use super::event::Kind;
use super::ledger::LEDGER;
use super::{scope, timeline};

thread_local! {
    // Constant and without a destructor, so that the allocator can read it at any time of a thread's life.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
}

/// From now until the scope is dropped, this thread works for the part `name` of what it worked for before, such as
/// `self_attn` of `model.layers.3`. Without a recording, this is a look at a flag.
#[must_use = "the scope ends when it is dropped"]
pub fn module(name: impl Display) -> Module {
    open(&name, Path::Inner, true)
}

/// As [`module`], for a label that is given or a buffer that is made: the thread does not begin to work for another part.
#[must_use = "the scope ends when it is dropped"]
pub fn part(name: impl Display) -> Module {
    open(&name, Path::Inner, false)
}

/// As [`part`], with the whole name: that of a weight, whose `.weight` is left out.
#[must_use = "the scope ends when it is dropped"]
pub fn module_of(weight: &str) -> Module {
    open(&weight.strip_suffix(".weight").unwrap_or(weight), Path::Whole, false)
}

/// A scope that is open on this thread.
pub struct Module {
    /// What the thread worked for before; none where nothing is recorded.
    outer: Option<u16>,
    /// Whether the timeline is told.
    told: bool,
    not_send: PhantomData<*const ()>,
}

enum Path {
    Whole,
    Inner,
}

#[inline]
fn open(name: &dyn Display, path: Path, told: bool) -> Module {
    let outer = timeline::is_recording().then(|| enter(name, path, told));
    Module {
        outer,
        told,
        not_send: PhantomData,
    }
}

fn enter(name: &dyn Display, path: Path, told: bool) -> u16 {
    let _scope = scope::scope(Category::Host);
    let outer = CURRENT.get();
    let id = NAMES.lock().unwrap_or_else(PoisonError::into_inner).id(
        match path {
            Path::Whole => 0,
            Path::Inner => outer,
        },
        name,
    );
    set(id, told);
    outer
}

fn set(id: u16, told: bool) {
    CURRENT.set(id);
    if told {
        LEDGER.with(|ledger| ledger.recorder.push(Kind::Module, Category::Host, 0, 0));
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            set(outer, self.told);
        }
    }
}

/// The number of what this thread works for.
#[inline]
pub(super) fn current() -> u16 {
    CURRENT.get()
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

impl Names {
    /// The number of a name within another's, 0 being that of none; 0 where there are no numbers left.
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

/// The names after the first `known`, a line each.
pub(super) fn names_after(known: usize) -> (usize, String) {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let new = names.names.get(known..).unwrap_or_default();
    (names.names.len(), new.iter().map(|name| format!("{name}\n")).collect())
}
