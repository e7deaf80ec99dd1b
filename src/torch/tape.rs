//! What is alive: storages with the number of those who hold them, and the graph that backward walks.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use super::autograd::{Graph, Leaf};
use super::layout::Layout;
use super::tensor::{Dtype, Tensor, View};
use super::{Backend, Gpu};
use crate::memory::{Category, Phase};
use crate::trace::{Block, Trace};

/// Bytes of cuBLASLt's workspace (`parseCUDABlasLtWorkspaceSize` in `aten/src/ATen/cuda/CublasHandlePool.cpp`).
const CUBLAS_LT_WORKSPACE: u64 = 1024 * 1024;

/// A storage, numbered as its block in the trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageId(u32);

impl StorageId {
    /// Of a tensor that takes no memory: one that a stopped recomputation would have made.
    const NOWHERE: Self = Self(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where the gradient of a tensor goes: to an output of a node, or to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge(u32);

/// What an [`Edge`] leads to.
pub(super) enum Target {
    Nothing,
    Leaf(usize),
    Node { node: usize, output: usize },
}

impl Edge {
    /// No gradient is wanted.
    pub(super) const NONE: Self = Self(u32::MAX);
    /// A gradient would be wanted, but nothing is recorded: the block is being recomputed.
    pub(super) const UNRECORDED: Self = Self(u32::MAX - 1);
    const LEAF: u32 = 1 << 31;
    const SECOND: u32 = 1 << 30;

    pub(super) fn leaf(index: usize) -> Self {
        Self(Self::LEAF | index as u32)
    }

    pub(super) fn node(index: usize, output: usize) -> Self {
        Self(index as u32 | if output == 0 { 0 } else { Self::SECOND })
    }

    pub(super) fn is_some(self) -> bool {
        self != Self::NONE
    }

    pub(super) fn target(self) -> Target {
        if self == Self::NONE || self == Self::UNRECORDED {
            Target::Nothing
        } else if self.0 & Self::LEAF != 0 {
            Target::Leaf((self.0 & !Self::LEAF) as usize)
        } else {
            Target::Node {
                node: (self.0 & !Self::SECOND) as usize,
                output: usize::from(self.0 & Self::SECOND != 0),
            }
        }
    }
}

/// What is done with what an operation saves for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing is recorded.
    NoGrad,
    /// Nodes keep what they save.
    Record,
    /// Nodes only count what they would save: the block of this frame is checkpointed.
    Checkpoint(usize),
    /// What is saved goes to the frame.
    Recompute(usize),
}

struct Storage {
    block: Block,
    holders: u32,
    category: Category,
}

/// Everything that is allocated, and the history of every tensor that wants a gradient.
pub(super) struct Tape {
    memory: RefCell<Memory>,
    pub(super) graph: RefCell<Graph>,
    mode: Cell<Mode>,
    /// Nothing is computed any more: the recomputation has all it needs.
    pub(super) stopped: Cell<bool>,
    /// The parts of the model in the order in which they came to work.
    parts: RefCell<Vec<Part>>,
    /// The number of the one that is at work.
    part: Cell<u32>,
    pub(super) backend: Backend,
    /// The format of autocast, where it is on.
    autocast: Cell<Option<Dtype>>,
    /// The thread of the backward pass is at work.
    pub(super) in_backward: Cell<bool>,
    /// Autocast's copies of the leaves, kept until it ends.
    casts: RefCell<Vec<Option<View>>>,
    /// cuBLAS' workspaces: one for the thread of the forward pass, one for that of the backward pass.
    workspaces: [Cell<Option<StorageId>>; 2],
    workspace_bytes: u64,
    /// cuBLASLt's, likewise.
    lt_workspaces: [Cell<Option<StorageId>>; 2],
}

struct Memory {
    trace: Trace,
    storages: Vec<Storage>,
}

impl Memory {
    /// A new block, with a storage of one holder.
    fn alloc(&mut self, bytes: u64, category: Category) -> Block {
        let block = self.trace.alloc(bytes, category);
        self.storages.push(Storage {
            block,
            holders: 1,
            category,
        });
        block
    }
}

/// A part of the model, for the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) layer: Option<u16>,
}

impl Tape {
    pub(super) fn new(backend: Backend, gpu: Gpu) -> Self {
        Self {
            memory: RefCell::new(Memory {
                // Far more than most need, which costs nothing untouched: glibc keeps what is freed for the next plan only
                // once it saw a piece as large as this freed, and a plan whose pages fault anew takes half as long again.
                trace: Trace::with_capacity(1 << 17),
                storages: Vec::with_capacity(1 << 14),
            }),
            graph: RefCell::new(Graph::new()),
            mode: Cell::new(Mode::NoGrad),
            stopped: Cell::new(false),
            parts: RefCell::new(vec![Part {
                name: "model",
                layer: None,
            }]),
            part: Cell::new(0),
            backend,
            autocast: Cell::new(None),
            in_backward: Cell::new(false),
            casts: RefCell::default(),
            workspaces: Default::default(),
            workspace_bytes: gpu.cublas_workspace(),
            lt_workspaces: Default::default(),
        }
    }

    /// The events so far; what is released later is not in it.
    pub(super) fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.memory.borrow_mut().trace)
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.memory.borrow_mut().trace.phase(phase);
    }

    pub(super) fn step(&self, number: u32) {
        self.memory.borrow_mut().trace.step(number);
    }

    pub(super) fn step_end(&self) {
        self.memory.borrow_mut().trace.step_end();
    }

    pub(super) fn empty_cache(&self) {
        self.memory.borrow_mut().trace.empty_cache();
    }

    /// How many events are written down.
    pub(super) fn written(&self) -> usize {
        self.memory.borrow().trace.written()
    }

    /// Lets the events written at `range`, those of a step, happen once more.
    pub(super) fn repeat(&self, range: Range<usize>) {
        self.memory.borrow_mut().trace.repeat(range);
    }

    /// The number of the part that is at work.
    pub(super) fn part(&self) -> u32 {
        self.part.get()
    }

    /// What follows is done for `part`.
    pub(super) fn enter(&self, part: Part) {
        let parts = &mut *self.parts.borrow_mut();
        if parts[self.part.get() as usize] != part {
            self.part.set(parts.len() as u32);
            parts.push(part);
            self.memory.borrow_mut().trace.module(part.name, part.layer);
        }
    }

    /// What follows is done for the part with this number.
    pub(super) fn enter_again(&self, number: u32) {
        let before = self.part.replace(number);
        if before == number {
            return;
        }
        let parts = &*self.parts.borrow();
        let part = parts[number as usize];
        if parts[before as usize] != part {
            self.memory.borrow_mut().trace.module(part.name, part.layer);
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// Runs `work` in `mode`.
    pub(super) fn within<R>(&self, mode: Mode, work: impl FnOnce() -> R) -> R {
        let before = self.mode.replace(mode);
        let result = work();
        self.mode.set(before);
        result
    }

    /// A new tensor that a product is written to.
    pub(super) fn product(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        let product = self.empty(dims, dtype);
        self.use_cublas();
        product
    }

    /// A product is computed, whose result is there already: the first of a thread makes cuBLAS' workspace, which stays.
    pub(super) fn use_cublas(&self) {
        self.make_workspace(&self.workspaces, self.workspace_bytes);
    }

    /// The same for a product with a bias, which cuBLASLt computes with a workspace of its own besides (`gemm_and_bias` in
    /// `aten/src/ATen/cuda/CUDABlas.cpp`, `getCUDABlasLtWorkspace` in `CublasHandlePool.cpp`).
    pub(super) fn use_cublas_lt(&self) {
        self.use_cublas();
        self.make_workspace(&self.lt_workspaces, CUBLAS_LT_WORKSPACE);
    }

    fn make_workspace(&self, workspaces: &[Cell<Option<StorageId>>; 2], bytes: u64) {
        let workspace = &workspaces[usize::from(self.in_backward.get())];
        if self.backend == Backend::Cuda && workspace.get().is_none() && !self.stopped.get() {
            workspace.set(Some(self.alloc(bytes, Category::Temporary)));
        }
    }

    /// Runs `work` under autocast to `dtype`, if any.
    pub(super) fn autocast<R>(&self, dtype: Option<Dtype>, work: impl FnOnce() -> R) -> R {
        self.autocast.set(dtype);
        let result = work();
        self.autocast.set(None);
        for cast in std::mem::take(&mut *self.casts.borrow_mut()).into_iter().flatten() {
            self.release(cast.storage);
        }
        result
    }

    /// The format of autocast, where it is on.
    pub(super) fn autocast_dtype(&self) -> Option<Dtype> {
        self.autocast.get()
    }

    /// `tensor` as autocast lets products be computed from it; the copies of leaves of float32 are kept.
    pub(super) fn autocast_to<'t>(&'t self, tensor: &Tensor<'t>) -> Tensor<'t> {
        let Some(dtype) = self.autocast.get().filter(|_| tensor.dtype().is_float()) else {
            return tensor.clone();
        };
        let leaf = match tensor.view.edge.target() {
            Target::Leaf(leaf) if tensor.dtype() == Dtype::Float32 => leaf,
            _ => return tensor.to(dtype),
        };
        if let Some(&Some(view)) = self.casts.borrow().get(leaf) {
            return self.tensor(view).clone_kept();
        }
        let cast = tensor.to(dtype);
        let casts = &mut *self.casts.borrow_mut();
        if casts.len() <= leaf {
            casts.resize(leaf + 1, None);
        }
        casts[leaf] = Some(cast.clone().into_view());
        cast
    }

    /// A new tensor of the layout.
    pub(super) fn empty_as(&self, layout: Layout, dtype: Dtype, category: Category) -> Tensor<'_> {
        let storage = self.alloc(layout.numel() * dtype.size(), category);
        Tensor {
            tape: self,
            view: View {
                storage,
                dtype,
                edge: Edge::NONE,
                layout,
            },
        }
    }

    /// A new contiguous tensor.
    pub(super) fn empty(&self, dims: &[u32], dtype: Dtype) -> Tensor<'_> {
        self.empty_as(Layout::contiguous(dims), dtype, Category::Temporary)
    }

    /// Memory without a shape.
    pub(super) fn bytes(&self, bytes: u64, category: Category) -> Tensor<'_> {
        let mut tensor = self.empty_as(Layout::contiguous(&[0]), Dtype::Uint8, category);
        // The layout says 0 bytes; the storage has what was asked for.
        tensor.tape.release(tensor.view.storage);
        tensor.view.storage = self.alloc(bytes, category);
        tensor
    }

    fn alloc(&self, bytes: u64, category: Category) -> StorageId {
        if bytes == 0 || self.stopped.get() {
            return StorageId::NOWHERE;
        }
        let block = self.memory.borrow_mut().alloc(bytes, category);
        StorageId(block.index() as u32)
    }

    pub(super) fn retain(&self, storage: StorageId) {
        if storage != StorageId::NOWHERE {
            self.memory.borrow_mut().storages[storage.index()].holders += 1;
        }
    }

    pub(super) fn release(&self, storage: StorageId) {
        if storage == StorageId::NOWHERE {
            return;
        }
        let memory = &mut *self.memory.borrow_mut();
        let held = &mut memory.storages[storage.index()];
        held.holders -= 1;
        if held.holders == 0 {
            memory.trace.free(held.block);
        }
    }

    /// Whether nobody else holds the storage.
    pub(super) fn is_sole(&self, storage: StorageId) -> bool {
        storage != StorageId::NOWHERE && self.memory.borrow().storages[storage.index()].holders == 1
    }

    /// Says what a storage turned out to be for; only what was temporary is said anew, unless `always`.
    fn label(&self, storage: StorageId, category: Category, always: bool) {
        if storage == StorageId::NOWHERE {
            return;
        }
        let memory = &mut *self.memory.borrow_mut();
        let held = &mut memory.storages[storage.index()];
        if held.category != category && (always || held.category == Category::Temporary) {
            held.category = category;
            memory.trace.label(held.block, category);
        }
    }

    /// It is kept for backward.
    pub(super) fn label_saved(&self, storage: StorageId) {
        self.label(storage, Category::Activation, false);
    }

    /// It is the gradient of something that is trained.
    pub(super) fn label_gradient(&self, storage: StorageId) {
        self.label(storage, Category::Gradient, true);
    }

    /// It turned out to be nobody's gradient but that of an activation.
    pub(super) fn label_temporary(&self, storage: StorageId) {
        self.label(storage, Category::Temporary, true);
    }

    /// Takes a view's claim on its storage back.
    pub(super) fn tensor(&self, view: View) -> Tensor<'_> {
        Tensor { tape: self, view }
    }

    /// A leaf that wants a gradient: a trainable parameter, or a tensor that was told to.
    pub(super) fn leaf<'t>(&'t self, mut tensor: Tensor<'t>) -> Tensor<'t> {
        match self.mode() {
            Mode::Recompute(_) => tensor.view.edge = Edge::UNRECORDED,
            _ => {
                let mut graph = self.graph.borrow_mut();
                tensor.view.edge = Edge::leaf(graph.leaves.len());
                graph.leaves.push(Leaf::default());
            }
        }
        tensor
    }
}
