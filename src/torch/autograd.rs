//! Autograd: what each operation saves, and the backward pass in PyTorch's order.
//!
//! Nodes run in the order opposite to that of their making (the engine takes the highest sequence number that is ready),
//! gradients that meet at a node are added in its input buffer, and what a node saved is let go as soon as it is done.

mod engine;

use super::checkpoint::{Frame, Frames};
use super::layout::Dims;
use super::slots::{Slot, Slots};
use super::tape::{Edge, Mode, Tape, Target};
use super::tensor::{Dtype, Tensor, View};

/// Most gradients that a node gives.
const INPUTS: usize = 3;

/// The derivative of an operation.
pub(super) type Derivative = for<'t> fn(&mut Backward<'t>, &Tensor<'t>) -> Gradients<'t>;

/// Of each input in order; none where it wants none.
pub(super) type Gradients<'t> = [Option<Tensor<'t>>; INPUTS];

/// What a derivative must know besides the tensors that were saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    /// The dimensions and formats of the inputs: what their gradients are brought to.
    pub(super) inputs: [(Dims, Dtype); INPUTS],
    pub(super) axis: u8,
    /// Which of two kinds the operation is of.
    pub(super) flag: bool,
    /// The gradient is seen as a matrix first, which may copy it.
    pub(super) flat: bool,
}

/// A node that is at work.
pub(super) struct Backward<'t> {
    pub(super) tape: &'t Tape,
    pub(super) attributes: Attributes,
    /// Which inputs want a gradient.
    pub(super) needs: [bool; INPUTS],
    saved: Saved,
}

impl<'t> Backward<'t> {
    /// What was saved as number `index`.
    pub(super) fn saved(&self, index: usize) -> Tensor<'t> {
        match self.tape.graph.borrow_mut().saved(self.saved).get(index) {
            Some(&Some(view)) => self.tape.tensor(view).clone_kept(),
            _ => self.tape.empty(&[0], Dtype::Uint8),
        }
    }
}

/// Where the tensors are that a node saved.
#[derive(Clone, Copy)]
struct Saved {
    /// Of the first one, in the frame or in the graph.
    start: u32,
    count: u8,
    frame: Option<u32>,
}

/// What is done when backward comes to a node.
#[derive(Clone, Copy)]
enum Work {
    Derivative(Derivative),
    /// The block of this frame is run again, and walked back through.
    Block(u32),
}

struct Node {
    work: Work,
    attributes: Attributes,
    edges: [Edge; INPUTS],
    saved: Saved,
    reached: bool,
    part: u32,
    /// What its context keeps: checkpointing does not see it, and it stays for as long as the node.
    unseen: Slot,
    /// The input buffer, of each output.
    gradients: [Slot; 2],
}

/// A tensor that gathers its gradient.
#[derive(Default)]
pub(super) struct Leaf {
    /// `tensor.grad`.
    pub(super) grad: Option<View>,
    /// The tensor, where it is no parameter and nobody else holds it.
    tensor: Option<View>,
    /// The input buffer of its `AccumulateGrad`.
    buffer: Option<View>,
    /// Nodes that have yet to give it a gradient.
    awaited: u32,
}

pub(super) struct Graph {
    nodes: Vec<Node>,
    saved: Vec<Option<View>>,
    slots: Slots,
    pub(super) leaves: Vec<Leaf>,
    pub(super) frames: Frames,
    /// What the contexts of a recomputation keep, until it is over.
    recomputed: Vec<View>,
}

/// How much there is of a graph.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) nodes: usize,
    saved: usize,
    leaves: usize,
}

impl Graph {
    pub(super) fn extent(&self) -> Extent {
        Extent {
            nodes: self.nodes.len(),
            saved: self.saved.len(),
            leaves: self.leaves.len(),
        }
    }

    /// What the contexts of a recomputation kept.
    pub(super) fn take_recomputed(&mut self) -> Vec<View> {
        std::mem::take(&mut self.recomputed)
    }

    /// With room for most models' graphs.
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::with_capacity(1 << 12),
            saved: Vec::with_capacity(1 << 12),
            slots: Slots::default(),
            leaves: Vec::new(),
            frames: Frames::default(),
            recomputed: Vec::new(),
        }
    }

    /// What a node saved.
    fn saved(&mut self, saved: Saved) -> &mut [Option<View>] {
        let all = match saved.frame {
            None => &mut self.saved,
            Some(frame) => self.frames[frame as usize].recomputed(),
        };
        let start = saved.start as usize;
        all.get_mut(start..start + usize::from(saved.count)).unwrap_or_default()
    }
}

/// A node in the making.
pub(super) struct Recorder<'t> {
    tape: &'t Tape,
    /// None where no input wants a gradient.
    node: Option<Node>,
    unrecorded: bool,
}

impl Tape {
    /// Begins the node of an operation on `inputs`.
    pub(super) fn record<'t>(&'t self, inputs: &[&Tensor<'t>], derivative: Derivative) -> Recorder<'t> {
        self.record_work(inputs, Work::Derivative(derivative))
    }

    /// Begins the node that stands for the block of `frame`, which checkpoints reentrantly.
    pub(super) fn record_block<'t>(&'t self, input: &Tensor<'t>, frame: usize) -> Recorder<'t> {
        self.record_work(&[input], Work::Block(frame as u32))
    }

    fn record_work<'t>(&'t self, inputs: &[&Tensor<'t>], work: Work) -> Recorder<'t> {
        let wanted = inputs.iter().any(|input| input.requires_grad());
        let mode = self.mode();
        let mut recorder = Recorder {
            tape: self,
            node: None,
            unrecorded: wanted && matches!(mode, Mode::Recompute(_)),
        };
        if !wanted || matches!(mode, Mode::NoGrad | Mode::Recompute(_)) {
            return recorder;
        }
        let graph = self.graph.borrow();
        let (start, frame) = match mode {
            Mode::Checkpoint(frame) => (graph.frames[frame].count(), Some(frame as u32)),
            _ => (graph.saved.len(), None),
        };
        let mut node = Node {
            work,
            attributes: Attributes {
                inputs: [(Dims::new(&[]), Dtype::Float32); INPUTS],
                axis: 0,
                flag: false,
                flat: false,
            },
            edges: [Edge::NONE; INPUTS],
            saved: Saved {
                start: start as u32,
                count: 0,
                frame,
            },
            reached: false,
            part: self.part(),
            unseen: Slot::EMPTY,
            gradients: [Slot::EMPTY; 2],
        };
        for (index, input) in inputs.iter().enumerate() {
            node.edges[index] = input.view.edge;
            node.attributes.inputs[index] = (input.view.layout.dims, input.view.dtype);
        }
        recorder.node = Some(node);
        recorder
    }

    /// A tensor made to want a gradient that has no history of its own.
    pub(super) fn require_grad<'t>(&'t self, tensor: Tensor<'t>) -> Tensor<'t> {
        let leaf = self.leaf(tensor);
        if let Target::Leaf(index) = leaf.view.edge.target() {
            self.graph.borrow_mut().leaves[index].tensor = Some(leaf.clone().into_view());
        }
        leaf
    }

    /// Lets the graph go, but for the leaves that are parameters: the first `parameters` ones. What is returned stays alive for as
    /// long as a tensor that has this history: it holds the contexts of its nodes, and its leaves with their gradients.
    pub(super) fn clear_graph(&self, parameters: usize) -> Vec<Tensor<'_>> {
        let held = self.clear_graph_from(Extent {
            leaves: parameters,
            ..Extent::default()
        });
        for view in self.graph.borrow_mut().frames.drain() {
            self.release(view.storage);
        }
        held
    }

    /// The same for what the graph has beyond `extent`.
    pub(super) fn clear_graph_from(&self, extent: Extent) -> Vec<Tensor<'_>> {
        let graph = &mut *self.graph.borrow_mut();
        for view in graph.saved.drain(extent.saved..).flatten() {
            self.release(view.storage);
        }
        let slots = &mut graph.slots;
        let nodes = graph.nodes.drain(extent.nodes..);
        let contexts = nodes.filter_map(|mut node| slots.take(&mut node.unseen));
        let leaves = graph.leaves.drain(extent.leaves..);
        let leaves = leaves.flat_map(|leaf| [leaf.tensor, leaf.grad, leaf.buffer]).flatten();
        contexts.chain(leaves).map(|view| self.tensor(view)).collect()
    }
}

impl<'t> Recorder<'t> {
    /// Saves `tensor` for backward, as the next in order.
    pub(super) fn save(&mut self, tensor: &Tensor<'t>) {
        let tape = self.tape;
        let keep = || {
            tape.label_saved(tensor.view.storage);
            tensor.clone().detach().into_view()
        };
        match (tape.mode(), &mut self.node) {
            (Mode::Recompute(frame), _) if self.unrecorded && !tape.stopped.get() => {
                let kept = keep();
                let complete = tape.graph.borrow_mut().frames[frame].keep(kept);
                tape.stopped.set(complete);
            }
            (Mode::Checkpoint(frame), Some(node)) => {
                tape.graph.borrow_mut().frames[frame].count_one();
                node.saved.count += 1;
            }
            (Mode::Record, Some(node)) => {
                let kept = keep();
                tape.graph.borrow_mut().saved.push(Some(kept));
                node.saved.count += 1;
            }
            _ => {}
        }
    }

    /// Keeps `tensor` with the node itself, as a Python function's context does: checkpointing does not see it. The nodes of a
    /// recomputation go when it is over.
    pub(super) fn keep_unseen(&mut self, tensor: &Tensor<'t>) {
        if self.node.is_none() && !self.unrecorded {
            return;
        }
        self.tape.label_saved(tensor.view.storage);
        let (graph, view) = (&mut *self.tape.graph.borrow_mut(), tensor.clone().into_view());
        match &mut self.node {
            Some(node) => node.unseen = graph.slots.put(view),
            None => graph.recomputed.push(view),
        }
    }

    pub(super) fn axis(mut self, axis: usize) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.axis = axis as u8;
        }
        self
    }

    /// The output is a matrix seen under other dimensions.
    pub(super) fn flat(mut self) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.flat = true;
        }
        self
    }

    /// Describes the argument `index`, which is no tensor of the operation's.
    pub(super) fn argument(mut self, index: usize, dims: &[u32], dtype: Dtype) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.inputs[index] = (Dims::new(dims), dtype);
        }
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.flag = flag;
        }
        self
    }

    /// Gives the output its history.
    pub(super) fn finish(self, mut output: Tensor<'t>) -> Tensor<'t> {
        self.finish_all([&mut output]);
        output
    }

    /// The same for several outputs.
    pub(super) fn finish_all<const N: usize>(self, outputs: [&mut Tensor<'t>; N]) {
        let index = self.node.map(|node| {
            let graph = &mut *self.tape.graph.borrow_mut();
            graph.nodes.push(node);
            graph.nodes.len() - 1
        });
        for (number, output) in outputs.into_iter().enumerate() {
            output.view.edge = match index {
                Some(index) => Edge::node(index, number),
                None if self.unrecorded => Edge::UNRECORDED,
                None => Edge::NONE,
            };
        }
    }
}

/// Runs a checkpointed block again, for what it saves; gives its output.
pub(super) type Recompute<'a> = &'a dyn Fn(&Frame) -> Option<View>;
