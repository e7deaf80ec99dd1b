//! The tape: storages with counts of their holders, and tensors, which are the holders.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use trace::{Block, Event, Trace};
use trace::{Category, Module, Phase};

use super::configuration::{Backend, Configuration};
use super::dtype::Dtype;
use super::fsdp::Units;
use super::gpu::ComputeCapability;
use super::graph::{Attributes, INPUTS, Saved};
use super::graph::{Graph, Leaf};
use super::layout::Layout;
use super::versions::Pytorch;
use super::view::{Edge, StorageId, UnitId, View};
use super::zero::Sharing;

/// The fate of the tensors that an operation saves for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing is recorded.
    NoGrad,
    /// Nodes keep what they save.
    Record,
    /// Nodes only count what they would save: the block of this frame is checkpointed.
    Checkpoint(usize),
    /// The frame keeps them.
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
    pub(super) graph: RefCell<Graph<Derivative>>,
    mode: Cell<Mode>,
    /// True once a recomputation has saved all that is needed: nothing is computed any more.
    pub(super) stopped: Cell<bool>,
    /// The modules in the order of their work.
    modules: RefCell<Vec<Module>>,
    /// The number of the module at work.
    module: Cell<u32>,
    pub(super) backend: Backend,
    pub(super) capability: ComputeCapability,
    pub(super) multiprocessors: u64,
    /// Tokens of the micro-batch without padding, if attention takes the padding out; else 0.
    pub(super) unpadded: Cell<u32>,
    /// Rows and columns of the weights that were loaded in 8 bits.
    pub(super) eight_bit: RefCell<Vec<[u32; 2]>>,
    /// The format of autocast, where it is on.
    pub(super) autocast: Cell<Option<Dtype>>,
    /// The model is in evaluation mode.
    evaluates: Cell<bool>,
    /// The backward pass ends in a reduction of the gradients over all ranks.
    pub(super) reduces: Cell<bool>,
    /// The micro-batch is the last of its step.
    pub(super) syncs: Cell<bool>,
    /// What ranks share by ZeRO, once it is shared.
    pub(super) sharing: RefCell<Option<Sharing>>,
    /// ZeRO takes the gradients as they come; with stage 3, it has the parameters in parts, and its linear layers keep
    /// their arguments.
    pub(super) reduces_gradients: bool,
    pub(super) partitions_parameters: bool,
    pub(super) keeps_arguments: bool,
    /// What ranks share by FSDP, once it is shared, and the unit at work.
    pub(super) units: RefCell<Option<Units>>,
    pub(super) unit: Cell<Option<UnitId>>,
    /// Weights have no memory of their own, but that of their unit.
    pub(super) is_sharded: bool,
    /// Modules see adapters in the format that they are gathered in: with FSDP2, which gathers them with their block.
    pub(super) sees_gathered_format: bool,
    /// The thread of the backward pass is at work.
    pub(super) in_backward: Cell<bool>,
    /// Tensors of adapters that do not have their formats yet.
    pub(super) uncast: RefCell<Vec<View>>,
    /// Autocast's copies of the leaves, kept until it ends.
    pub(super) casts: RefCell<Vec<Option<View>>>,
    /// The release of PyTorch.
    pub(super) pytorch: Pytorch,
    /// Checkpoints are given a block's arguments but the first by keyword, and the graph holds on to these. Of them only the
    /// mask is large enough to count.
    pub(super) checkpoints_within: bool,
    /// cuBLAS' workspaces that stay: one for the thread of the forward pass, one for that of the backward pass.
    pub(super) workspaces: [Cell<Option<StorageId>>; 2],
    pub(super) workspace_bytes: u64,
    /// cuBLASLt's, likewise.
    pub(super) lt_workspaces: [Cell<Option<StorageId>>; 2],
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

/// A tensor: holds its storage for as long as it lives, as a Python variable does.
pub(super) struct Tensor<'t> {
    pub(super) tape: &'t Tape,
    pub(super) view: View,
}

impl Clone for Tensor<'_> {
    fn clone(&self) -> Self {
        self.tape.retain(self.view.storage);
        Self {
            tape: self.tape,
            view: self.view,
        }
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        self.tape.release(self.view.storage);
    }
}

impl<'t> Tensor<'t> {
    /// Gives the claim on the storage to whoever keeps the view.
    pub(super) fn into_view(self) -> View {
        let view = self.view;
        std::mem::forget(self);
        view
    }

    pub(super) fn dims(&self) -> &[u32] {
        self.view.layout.dims()
    }

    /// Another claim on the storage of a view that someone else keeps.
    pub(super) fn clone_kept(self) -> Self {
        let another = self.clone();
        self.into_view();
        another
    }

    /// Size of the dimension `axis`, counted from the last.
    pub(super) fn dim_from_last(&self, axis: usize) -> u32 {
        self.dims()[self.view.layout.rank() - 1 - axis]
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.view.dtype
    }

    pub(super) fn numel(&self) -> u64 {
        self.view.layout.numel()
    }

    pub(super) fn requires_grad(&self) -> bool {
        self.view.edge.is_some()
    }

    /// This tensor's storage without a history.
    pub(super) fn detach(mut self) -> Self {
        self.view.edge = Edge::NONE;
        self
    }

    /// This tensor's storage seen otherwise.
    pub(super) fn with_layout(mut self, layout: Layout) -> Self {
        self.view.layout = layout;
        self.view.is_seen_otherwise = true;
        self
    }
}

/// The derivative of an operation.
pub(super) type Derivative = for<'t> fn(&mut Backward<'t>, &Tensor<'t>) -> Gradients<'t>;

/// The gradient of each input, in order; `None` if the input needs none.
pub(super) type Gradients<'t> = [Option<Tensor<'t>>; INPUTS];

/// A node that is at work.
pub(super) struct Backward<'t> {
    pub(super) tape: &'t Tape,
    pub(super) attributes: Attributes,
    /// Which inputs want a gradient.
    pub(super) needs: [bool; INPUTS],
    pub(super) saved: Saved,
}

impl<'t> Backward<'t> {
    /// The saved tensor number `index`.
    pub(super) fn saved(&self, index: usize) -> Tensor<'t> {
        match self.tape.graph.borrow_mut().saved(self.saved).get(index) {
            Some(&Some(view)) => self.tape.tensor(view).clone_kept(),
            _ => self.tape.empty(&[0], Dtype::Uint8),
        }
    }
}

impl Tape {
    /// An empty tape for training as `configuration` says.
    pub(super) fn new(configuration: &Configuration) -> Self {
        Self {
            memory: RefCell::new(Memory {
                // Far more than most need, which costs nothing untouched: a trace that grows is copied each time. A
                // program that makes many plans keeps freed pages (`memory::keep_freed_pages`).
                trace: Trace::with_capacity(1 << 21),
                storages: Vec::with_capacity(1 << 14),
            }),
            graph: RefCell::new(Graph::new()),
            mode: Cell::new(Mode::NoGrad),
            stopped: Cell::new(false),
            modules: RefCell::new(vec![Module {
                name: "model",
                layer: None,
            }]),
            module: Cell::new(0),
            backend: configuration.backend,
            capability: configuration.capability,
            unpadded: Cell::new(0),
            eight_bit: RefCell::default(),
            multiprocessors: configuration
                .multiprocessors
                .unwrap_or(configuration.capability.multiprocessors()),
            autocast: Cell::new(None),
            evaluates: Cell::new(false),
            reduces: Cell::new(false),
            syncs: Cell::new(true),
            sharing: RefCell::default(),
            reduces_gradients: configuration.zero().is_some(),
            partitions_parameters: configuration.zero().is_some_and(|zero| zero.stage == 3),
            keeps_arguments: configuration
                .zero()
                .is_some_and(|zero| zero.stage == 3 && zero.memory_efficient_linear),
            units: RefCell::default(),
            unit: Cell::default(),
            is_sharded: configuration.shares_parameters(),
            sees_gathered_format: configuration.fsdp().is_some_and(|fsdp| fsdp.per_parameter),
            in_backward: Cell::new(false),
            uncast: RefCell::default(),
            casts: RefCell::default(),
            pytorch: configuration.pytorch,
            checkpoints_within: configuration.transformers.checkpoints_within,
            workspaces: Default::default(),
            workspace_bytes: configuration.capability.cublas_workspace_bytes(),
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

    /// Another stream uses the storage: once it is freed, it waits for that stream.
    pub(super) fn record_stream(&self, storage: StorageId) {
        let memory = &mut *self.memory.borrow_mut();
        if let Some(storage) = memory.storages.get(storage.index()) {
            memory.trace.record_stream(storage.block);
        }
    }

    /// The next blocks are allocated for this stream.
    pub(super) fn stream(&self, stream: u8) {
        self.memory.borrow_mut().trace.stream(stream);
    }

    /// Waits until other streams are done with all that was freed up to this storage.
    pub(super) fn wait_for(&self, storage: StorageId) {
        let memory = &mut *self.memory.borrow_mut();
        if let Some(storage) = memory.storages.get(storage.index()) {
            memory.trace.wait_for(storage.block);
        }
    }

    /// Allocates on another stream.
    pub(super) fn on<R>(&self, stream: u8, work: impl FnOnce() -> R) -> R {
        self.stream(stream);
        let result = work();
        self.stream(0);
        result
    }

    pub(super) fn synchronize(&self) {
        self.memory.borrow_mut().trace.synchronize();
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

    /// The number of the module that is at work.
    pub(super) fn module(&self) -> u32 {
        self.module.get()
    }

    /// Begins the work of a module.
    pub(super) fn enter(&self, module: Module) {
        let modules = &mut *self.modules.borrow_mut();
        if modules[self.module.get() as usize] != module {
            self.module.set(modules.len() as u32);
            modules.push(module);
            self.memory.borrow_mut().trace.module(module.name, module.layer);
        }
    }

    /// Resumes the work of the module with this number.
    pub(super) fn resume(&self, number: u32) {
        let before = self.module.replace(number);
        if before == number {
            return;
        }
        let modules = &*self.modules.borrow();
        let module = modules[number as usize];
        if modules[before as usize] != module {
            self.memory.borrow_mut().trace.module(module.name, module.layer);
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

    /// Runs `work` with the model in evaluation mode and without gradients.
    pub(super) fn evaluate<R>(&self, work: impl FnOnce() -> R) -> R {
        self.evaluates.set(true);
        let result = self.within(Mode::NoGrad, work);
        self.evaluates.set(false);
        result
    }

    /// True where the model is in evaluation mode.
    pub(super) fn is_evaluating(&self) -> bool {
        self.evaluates.get()
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
                is_seen_otherwise: false,
            },
        }
    }

    /// A weight of the layout: in a sharded model it has no memory of its own.
    pub(super) fn weight(&self, layout: Layout, dtype: Dtype, category: Category) -> Tensor<'_> {
        if !self.is_sharded {
            return self.empty_as(layout, dtype, category);
        }
        self.tensor(View {
            storage: StorageId::NOWHERE,
            dtype,
            edge: Edge::NONE,
            layout,
            is_seen_otherwise: false,
        })
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

    pub(super) fn alloc(&self, bytes: u64, category: Category) -> StorageId {
        if bytes == 0 || self.stopped.get() {
            return StorageId::NOWHERE;
        }
        let block = self.memory.borrow_mut().alloc(bytes, category);
        StorageId::new(block.index())
    }

    /// Gives the storage another block in place of its own.
    pub(super) fn reallocate(&self, storage: StorageId, bytes: u64) {
        if storage.is_nowhere() {
            return;
        }
        let memory = &mut *self.memory.borrow_mut();
        let block = memory.alloc(bytes, memory.storages[storage.index()].category);
        let before = std::mem::replace(&mut memory.storages[storage.index()].block, block);
        memory.trace.free(before);
    }

    /// Frees the block of a storage, which gets that of another in its place: what it holds is a part of that.
    pub(super) fn move_into(&self, storage: StorageId, other: StorageId) {
        let memory = &mut *self.memory.borrow_mut();
        let block = memory.storages[other.index()].block;
        let before = std::mem::replace(&mut memory.storages[storage.index()].block, block);
        memory.trace.free(before);
    }

    /// Frees the blocks of storages, which get parts of another block later, as `make` gives it.
    pub(super) fn move_after(&self, storages: &[StorageId], make: impl FnOnce() -> StorageId) {
        {
            let memory = &mut *self.memory.borrow_mut();
            for storage in storages {
                memory.trace.free(memory.storages[storage.index()].block);
            }
        }
        let other = make();
        let memory = &mut *self.memory.borrow_mut();
        let block = memory.storages[other.index()].block;
        for storage in storages {
            memory.storages[storage.index()].block = block;
        }
    }

    /// Takes the gradient of a leaf, and gives its storage.
    pub(super) fn take_leaf_gradient(&self, leaf: usize) -> Option<StorageId> {
        let gradient = self.graph.borrow_mut().leaves[leaf].grad.take();
        gradient.map(|gradient| gradient.storage)
    }

    /// Bytes of each live storage of such categories, in the order of allocation.
    pub(super) fn live_bytes(&self, is_wanted: impl Fn(Category) -> bool) -> Vec<u64> {
        let memory = self.memory.borrow();
        let is_live = |block: Block| {
            let storage = &memory.storages[block.index()];
            storage.holders > 0 && storage.block == block && is_wanted(storage.category)
        };
        let events = memory.trace.events();
        events
            .filter_map(|event| match *event {
                Event::Alloc { block, bytes, .. } if is_live(block) => Some(bytes),
                _ => None,
            })
            .collect()
    }

    pub(super) fn retain(&self, storage: StorageId) {
        if !storage.is_nowhere() {
            self.memory.borrow_mut().storages[storage.index()].holders += 1;
        }
    }

    pub(super) fn release(&self, storage: StorageId) {
        if storage.is_nowhere() {
            return;
        }
        let memory = &mut *self.memory.borrow_mut();
        let held = &mut memory.storages[storage.index()];
        held.holders -= 1;
        if held.holders == 0 {
            memory.trace.free(held.block);
        }
    }

    /// Has a view see another storage, which it holds in place of its own.
    pub(super) fn move_to(&self, view: &mut View, storage: StorageId) {
        self.retain(storage);
        self.release(std::mem::replace(&mut view.storage, storage));
    }

    /// True if the storage has one holder.
    pub(super) fn is_sole(&self, storage: StorageId) -> bool {
        !storage.is_nowhere() && self.memory.borrow().storages[storage.index()].holders == 1
    }

    /// Records the purpose of a storage. Only temporary storages change theirs, unless `always`.
    fn label(&self, storage: StorageId, category: Category, always: bool) {
        if storage.is_nowhere() {
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

    /// It is a weight of the model.
    pub(super) fn label_parameter(&self, storage: StorageId) {
        self.label(storage, Category::Parameter, true);
    }

    /// It is the gradient of something that is trained.
    pub(super) fn label_gradient(&self, storage: StorageId) {
        self.label(storage, Category::Gradient, true);
    }

    /// It is the gradient of an activation, not of a parameter.
    pub(super) fn label_temporary(&self, storage: StorageId) {
        self.label(storage, Category::Temporary, true);
    }

    /// Takes a view's claim on its storage back.
    pub(super) fn tensor(&self, view: View) -> Tensor<'_> {
        Tensor { tape: self, view }
    }

    /// A leaf that requires a gradient: a trainable parameter, or a tensor made to require one.
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
