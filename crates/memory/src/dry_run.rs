//! A dry run: a computation whose buffers have sizes but no memory. What it would allocate and free becomes a trace.
//!
//! The code that runs is the trainer's own. [`Buffer`](super::Buffer) records itself instead of being allocated, and
//! whoever would compute on it does not.

use std::cell::{Cell, RefCell};

use options::InstructionSet;
use trace::{Block, Category, Module, Trace};

use super::binding;
use super::scope;

thread_local! {
    static TRACE: RefCell<Trace> = const { RefCell::new(Trace::new()) };
    /// The module of the last event.
    static MODULE: Cell<Option<Module>> = const { Cell::new(None) };
    /// The instruction set of the dry run; `None` outside dry runs.
    static INSTRUCTION_SET: Cell<Option<InstructionSet>> = const { Cell::new(None) };
}

/// Runs `body` dry on this thread, as on a CPU with this instruction set, and returns the trace of its buffers.
///
/// `events` is about the number of events; room for them is made at once. Buffers that `body` returns are live at the
/// trace's end; they must be dropped before the thread's next dry run.
pub fn dry_run<T>(instruction_set: InstructionSet, events: usize, body: impl FnOnce() -> T) -> (T, Trace) {
    let ends = Ends {
        outer: INSTRUCTION_SET.replace(Some(instruction_set)),
        trace: TRACE.replace(Trace::with_capacity(events)),
        module: MODULE.take(),
    };
    let outcome = body();
    let trace = TRACE.take();
    drop(ends);
    (outcome, trace)
}

/// Restores what was there before a dry run, also after a panic.
struct Ends {
    outer: Option<InstructionSet>,
    trace: Trace,
    module: Option<Module>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        INSTRUCTION_SET.set(self.outer);
        TRACE.set(std::mem::take(&mut self.trace));
        MODULE.set(self.module);
    }
}

/// True on a thread that runs dry.
#[inline]
pub fn is_dry_run() -> bool {
    INSTRUCTION_SET.get().is_some()
}

/// The instruction set of this thread's dry run; `None` outside dry runs.
#[inline]
pub fn dry_run_instruction_set() -> Option<InstructionSet> {
    INSTRUCTION_SET.get()
}

/// Writes an event to the dry run's trace; does nothing outside dry runs.
pub fn mark(event: impl FnOnce(&mut Trace)) {
    if is_dry_run() {
        TRACE.with_borrow_mut(event);
    }
}

/// True if the last event was the module's. Names are constants, so that one place in memory suffices.
#[inline]
fn is_last(name: &'static str, layer: Option<u16>) -> bool {
    MODULE
        .get()
        .is_some_and(|last| last.layer == layer && std::ptr::eq(last.name, name))
}

/// A buffer of a dry run; none without bytes.
#[derive(Debug)]
pub(super) struct DryBlock(Option<Block>);

impl DryBlock {
    /// Records an allocation for the module at work.
    #[inline]
    pub(super) fn new(bytes: usize) -> Self {
        if bytes == 0 {
            return Self(None);
        }
        let module = binding::current();
        let category = scope::tensor();
        TRACE.with_borrow_mut(|trace| {
            if let Some(Module { name, layer }) = module
                && !is_last(name, layer)
            {
                MODULE.set(module);
                trace.module(name, layer);
            }
            Self(Some(trace.alloc(bytes as u64, category)))
        })
    }

    /// Records a buffer's category.
    #[inline]
    pub(super) fn label(&self, category: Category) {
        if let Some(block) = self.0 {
            mark(|trace| trace.label(block, category));
        }
    }
}

impl Drop for DryBlock {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.0 {
            mark(|trace| trace.free(block));
        }
    }
}
