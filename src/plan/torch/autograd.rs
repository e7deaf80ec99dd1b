//! Autograd: what each operation saves, and the backward pass in PyTorch's order.
//!
//! Nodes run in the order opposite to that of their making (the engine takes the highest sequence number that is ready),
//! gradients that meet at a node are added in its input buffer, and what a node saved is let go as soon as it is done.

use super::Backend;
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

struct Node {
    derivative: Derivative,
    attributes: Attributes,
    edges: [Edge; INPUTS],
    saved: Saved,
    reached: bool,
    part: u32,
    /// What it keeps that checkpointing does not see.
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
}

impl Graph {
    /// With room for most models' graphs.
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::with_capacity(1 << 12),
            saved: Vec::with_capacity(1 << 12),
            slots: Slots::default(),
            leaves: Vec::new(),
            frames: Frames::default(),
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
            derivative,
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

    /// Lets the graph go, but for the leaves that are parameters: the first `parameters` ones. The others stay alive for as
    /// long as what is returned: a tensor's history holds its leaves, and these their gradients.
    pub(super) fn clear_graph(&self, parameters: usize) -> Vec<Tensor<'_>> {
        let graph = &mut *self.graph.borrow_mut();
        let slots = &mut graph.slots;
        let unseen = graph
            .nodes
            .drain(..)
            .filter_map(|mut node| slots.take(&mut node.unseen));
        for view in graph
            .saved
            .drain(..)
            .flatten()
            .chain(graph.frames.drain())
            .chain(unseen)
        {
            self.release(view.storage);
        }
        let leaves = graph.leaves.drain(parameters..);
        let held = leaves.flat_map(|leaf| [leaf.tensor, leaf.grad, leaf.buffer]).flatten();
        held.map(|view| self.tensor(view)).collect()
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

    /// Keeps `tensor` with the node itself, as a Python function's context does: checkpointing does not see it.
    pub(super) fn keep_unseen(&mut self, tensor: &Tensor<'t>) {
        if let Some(node) = &mut self.node {
            self.tape.label_saved(tensor.view.storage);
            node.unseen = self.tape.graph.borrow_mut().slots.put(tensor.clone().into_view());
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

/// Runs a checkpointed block again, for what it saves.
pub(super) type Recompute<'a> = &'a dyn Fn(&Frame);

impl<'t> Tensor<'t> {
    /// `self.backward()`.
    pub(super) fn backward(&self, recompute: Recompute<'_>) {
        let tape = self.tape;
        let Target::Node { node: root, .. } = self.view.edge.target() else {
            return;
        };
        tape.await_gradients(root);
        let ones = tape.empty_as(
            self.view.layout.dense(),
            self.dtype(),
            crate::memory::Category::Temporary,
        );
        {
            let graph = &mut *tape.graph.borrow_mut();
            graph.nodes[root].gradients[0] = graph.slots.put(ones.clone().into_view());
        }
        tape.in_backward.set(true);
        for index in (0..=root).rev() {
            tape.run(index, recompute);
        }
        tape.in_backward.set(false);
        drop(ones);
    }
}

impl Tape {
    /// Marks what is reached from `root`, and counts what each leaf will be given.
    fn await_gradients(&self, root: usize) {
        let graph = &mut *self.graph.borrow_mut();
        graph.nodes[root].reached = true;
        for index in (0..=root).rev() {
            if !graph.nodes[index].reached {
                continue;
            }
            for edge in graph.nodes[index].edges {
                match edge.target() {
                    Target::Nothing => {}
                    Target::Leaf(leaf) => graph.leaves[leaf].awaited += 1,
                    Target::Node { node, .. } => graph.nodes[node].reached = true,
                }
            }
        }
    }

    /// Runs one node and hands its gradients on.
    fn run(&self, index: usize, recompute: Recompute<'_>) {
        let mut graph = self.graph.borrow_mut();
        let Graph { nodes, slots, .. } = &mut *graph;
        let node = &mut nodes[index];
        let [first, second] = &mut node.gradients;
        let (first, second) = (slots.take(first), slots.take(second));
        if first.is_none() && second.is_none() {
            return;
        }
        let &mut Node {
            derivative,
            edges,
            saved,
            part,
            ..
        } = node;
        let mut backward = Backward {
            tape: self,
            attributes: node.attributes,
            needs: edges.map(Edge::is_some),
            saved,
        };
        drop(graph);
        self.enter_again(part);
        let gradient = match first.map(|view| self.tensor(view)) {
            Some(gradient) if backward.attributes.flat => gradient.reshaped(&gradient.rows_and_width()),
            Some(gradient) => gradient,
            None => self.empty(&[0], Dtype::Uint8),
        };
        if let Some(frame) = saved.frame
            && saved.count > 0
        {
            self.recompute(frame as usize, recompute);
            self.enter_again(part);
        }
        let mut gradients = derivative(&mut backward, &gradient);
        if saved.frame.is_some() {
            // What was recomputed is nowhere else: it goes when the derivative returns.
            self.release_saved(saved);
        }
        self.validate(&mut gradients, &backward.attributes);
        drop(gradient);
        let unseen = {
            let graph = &mut *self.graph.borrow_mut();
            graph.slots.take(&mut graph.nodes[index].unseen)
        };
        for view in unseen.into_iter().chain(second) {
            self.release(view.storage);
        }
        match saved.frame {
            None => self.release_saved(saved),
            Some(frame) => {
                let frame = &mut self.graph.borrow_mut().frames[frame as usize];
                if frame.finish(saved.count.into()) {
                    self.release_inputs(frame);
                }
            }
        }
        for (edge, gradient) in edges.into_iter().zip(&mut gradients) {
            if let Some(gradient) = gradient.take() {
                self.hand_on(edge, gradient);
            }
        }
    }

    /// Lets go what a node saved.
    fn release_saved(&self, saved: Saved) {
        for view in self.graph.borrow_mut().saved(saved) {
            if let Some(view) = view.take() {
                self.release(view.storage);
            }
        }
    }

    /// Gives a gradient to where `edge` leads.
    fn hand_on<'t>(&'t self, edge: Edge, gradient: Tensor<'t>) {
        match edge.target() {
            Target::Nothing => {}
            Target::Leaf(leaf) => self.give_leaf(leaf, gradient),
            Target::Node { node, output } => {
                let there = {
                    let graph = &mut *self.graph.borrow_mut();
                    graph.slots.take(&mut graph.nodes[node].gradients[output])
                };
                let sum = self.accumulate(there, gradient);
                let graph = &mut *self.graph.borrow_mut();
                graph.nodes[node].gradients[output] = graph.slots.put(sum);
            }
        }
    }

    /// Brings gradients to the shapes and formats of the inputs, as the engine does after each node.
    fn validate<'t>(&'t self, gradients: &mut Gradients<'t>, attributes: &Attributes) {
        for (gradient, (dims, dtype)) in gradients.iter_mut().zip(&attributes.inputs) {
            let Some(gradient) = gradient else { continue };
            if gradient.view.layout.dims != *dims {
                *gradient = gradient.sum_to(dims);
            }
            if gradient.dtype() != *dtype {
                *gradient = gradient.to(*dtype);
            }
        }
    }

    /// Adds a gradient to what is in an input buffer: in place where the engine is the only one to hold what is there.
    fn accumulate<'t>(&'t self, there: Option<View>, gradient: Tensor<'t>) -> View {
        let Some(there) = there else {
            return gradient.into_view();
        };
        let there = self.tensor(there);
        if self.backend == Backend::Cuda && self.is_sole(there.view.storage) && there.view.layout.is_dense() {
            return there.into_view();
        }
        self.empty_as(
            there.view.layout.dense(),
            there.dtype(),
            crate::memory::Category::Temporary,
        )
        .into_view()
    }

    /// A leaf's gradient is stolen when it is the first, or added in place.
    fn give_leaf<'t>(&'t self, leaf: usize, gradient: Tensor<'t>) {
        let buffered = self.graph.borrow_mut().leaves[leaf].buffer.take();
        let sum = self.accumulate(buffered, gradient);
        let graph = &mut *self.graph.borrow_mut();
        let leaf = &mut graph.leaves[leaf];
        leaf.awaited -= 1;
        if leaf.awaited > 0 {
            leaf.buffer = Some(sum);
        } else if leaf.grad.is_some() {
            self.release(sum.storage);
        } else {
            leaf.grad = Some(self.own(sum));
        }
    }

    /// The gradient as the leaf keeps it: a copy where others hold it too or where it has gaps.
    fn own(&self, sum: View) -> View {
        let sum = if self.is_sole(sum.storage) && sum.layout.is_dense() {
            sum
        } else {
            let copy = self.empty(sum.layout.dims(), sum.dtype).into_view();
            self.release(sum.storage);
            copy
        };
        self.label_gradient(sum.storage);
        sum
    }

    /// `leaf.grad = None`.
    pub(super) fn zero_grad(&self, leaf: Edge) {
        if let Target::Leaf(leaf) = leaf.target() {
            let grad = self.graph.borrow_mut().leaves[leaf].grad.take();
            if let Some(grad) = grad {
                self.release(grad.storage);
            }
        }
    }
}
