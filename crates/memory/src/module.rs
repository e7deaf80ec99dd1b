//! Scopes that tell a timeline which module of the model a thread works for. They only have an effect during a
//! recording.

use std::fmt::Display;
use std::marker::PhantomData;

use trace::Category;
use trace::recording::Kind;

use super::process_ledger::LEDGER;
use super::{module_names, scope, timeline};

/// Opens a scope in which this thread works for the submodule `name` of its module, such as `self_attn` of
/// `model.layers.3`. Scopes nest. Without a recording, this only reads a flag.
#[must_use = "the scope ends when it is dropped"]
pub fn module(name: impl Display) -> ModuleScope {
    open(&name, Path::Relative, true)
}

/// Like [`module`], for a label or a buffer alone: the timeline does not record that the thread enters a module.
#[must_use = "the scope ends when it is dropped"]
pub fn part(name: impl Display) -> ModuleScope {
    open(&name, Path::Relative, false)
}

/// Like [`part`], with a full name.
#[must_use = "the scope ends when it is dropped"]
pub fn whole(name: impl Display) -> ModuleScope {
    open(&name, Path::Absolute, false)
}

/// An open [`module`] scope of this thread.
pub struct ModuleScope {
    /// The module before this one; `None` without a recording.
    outer: Option<u16>,
    /// True if the timeline records that the thread enters and leaves.
    recorded: bool,
    not_send: PhantomData<*const ()>,
}

enum Path {
    Absolute,
    Relative,
}

#[inline]
fn open(name: &dyn Display, path: Path, recorded: bool) -> ModuleScope {
    let outer = timeline::is_recording().then(|| enter(name, path, recorded));
    ModuleScope {
        outer,
        recorded,
        not_send: PhantomData,
    }
}

fn enter(name: &dyn Display, path: Path, recorded: bool) -> u16 {
    let _scope = scope::scope(Category::Host);
    let outer = module_names::current();
    let parent = match path {
        Path::Absolute => 0,
        Path::Relative => outer,
    };
    set(module_names::id(parent, name), recorded);
    outer
}

fn set(id: u16, recorded: bool) {
    module_names::set_current(id);
    if recorded {
        LEDGER.with(|ledger| ledger.recorder.push(Kind::Module, Category::Host, 0, 0));
    }
}

impl Drop for ModuleScope {
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            set(outer, self.recorded);
        }
    }
}
