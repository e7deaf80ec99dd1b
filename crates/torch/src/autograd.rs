//! Autograd: what each operation saves, and the backward pass in PyTorch's order.
//!
//! Nodes run in the order opposite to that of their making (the engine takes the highest sequence number that is
//! ready), gradients that meet at a node are added in its input buffer, and what a node saved is let go as soon as it
//! is done.

mod engine;

use super::dtype::Dtype;
use super::graph::{Attributes, Extent, INPUTS, Node, Saved, Work};
use super::layout::Dims;
use super::slots::Slot;
use super::tape::{Derivative, Mode, Tape, Tensor};
use super::view::{Edge, Target};

/// A node in the making.
pub(super) struct Recorder<'t> {
    tape: &'t Tape,
    /// None where no input wants a gradient.
    node: Option<Node<Derivative>>,
    unrecorded: bool,
}

impl Tape {
    /// Begins the node of an operation on `inputs`.
    pub(super) fn record<'t>(&'t self, inputs: &[&Tensor<'t>], derivative: Derivative) -> Recorder<'t> {
        self.record_work(inputs, Work::Derivative(derivative))
    }

    /// Begins the node of an operation that gives parts of its input ([`Recorder::finish_parts`]).
    pub(super) fn record_parts<'t>(&'t self, input: &Tensor<'t>, derivative: Derivative) -> Recorder<'t> {
        self.record_work(&[input], Work::Parts(derivative))
    }

    /// Begins the node that stands for the block of `frame`, which checkpoints reentrantly.
    pub(super) fn record_block<'t>(&'t self, input: &Tensor<'t>, frame: usize) -> Recorder<'t> {
        self.record_work(&[input], Work::Block(frame as u32))
    }

    fn record_work<'t>(&'t self, inputs: &[&Tensor<'t>], work: Work<Derivative>) -> Recorder<'t> {
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
                has_bias: false,
                nested_scales: 0,
                flat: false,
            },
            edges: [Edge::NONE; INPUTS],
            saved: Saved {
                start: start as u32,
                count: 0,
                frame,
            },
            reached: false,
            module: self.module(),
            unit: self.unit.get(),
            unseen: [Slot::EMPTY; 2],
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

    /// Lets the graph go, but for the leaves that are parameters: the first `parameters` ones. What is returned stays
    /// alive for as long as a tensor that has this history: it holds the contexts of its nodes, and its leaves with
    /// their gradients.
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

    /// Lets go of what the graph has beyond `extent`. What is returned stays alive, as of [`Self::clear_graph`].
    pub(super) fn clear_graph_from(&self, extent: Extent) -> Vec<Tensor<'_>> {
        let graph = &mut *self.graph.borrow_mut();
        for view in graph.saved.drain(extent.saved..).flatten() {
            self.release(view.storage);
        }
        let slots = &mut graph.slots;
        let nodes = graph.nodes.drain(extent.nodes..);
        let contexts = nodes
            .flat_map(|node| node.unseen)
            .filter_map(|mut slot| slots.take(&mut slot));
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

    /// Keeps `tensor` with the node itself, as a Python function's context does: checkpointing does not see it. There may
    /// be two. The nodes of a recomputation go when it is over.
    pub(super) fn keep_unseen(&mut self, tensor: &Tensor<'t>) {
        if self.node.is_none() && !self.unrecorded {
            return;
        }
        self.tape.label_saved(tensor.view.storage);
        let (graph, view) = (&mut *self.tape.graph.borrow_mut(), tensor.clone().into_view());
        match &mut self.node {
            Some(node) => {
                let [first, second] = &mut node.unseen;
                let slot = if *first == Slot::EMPTY { first } else { second };
                *slot = graph.slots.put(view);
            }
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

    /// Describes the argument `index`, which is not a tensor of the operation.
    pub(super) fn argument(mut self, index: usize, dims: &[u32], dtype: Dtype) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.inputs[index] = (Dims::new(dims), dtype);
        }
        self
    }

    /// The operation is a product fused with a bias.
    pub(super) fn with_bias(mut self) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.has_bias = true;
        }
        self
    }

    /// The operation dequantises so many scales first.
    pub(super) fn nested_scales(mut self, count: u64) -> Self {
        if let Some(node) = &mut self.node {
            node.attributes.nested_scales = count;
        }
        self
    }

    /// Gives the output its history.
    pub(super) fn finish(self, mut output: Tensor<'t>) -> Tensor<'t> {
        self.finish_all([&mut output]);
        output
    }

    /// Gives several outputs their history.
    pub(super) fn finish_all<const N: usize>(self, outputs: [&mut Tensor<'t>; N]) {
        let edge = self.into_edge();
        for (number, output) in outputs.into_iter().enumerate() {
            output.view.edge = edge(number);
        }
    }

    /// Gives parts of the input their history.
    pub(super) fn finish_parts(self, parts: &mut [Tensor<'t>]) {
        let edge = self.into_edge();
        for part in parts {
            part.view.edge = edge(0);
        }
    }

    /// Ends the node; gives where the gradient of the output with a number goes.
    fn into_edge(self) -> impl Fn(usize) -> Edge {
        let index = self.node.map(|node| {
            let graph = &mut *self.tape.graph.borrow_mut();
            graph.nodes.push(node);
            graph.nodes.len() - 1
        });
        let unrecorded = self.unrecorded;
        move |number| match index {
            Some(index) => Edge::node(index, number),
            None if unrecorded => Edge::UNRECORDED,
            None => Edge::NONE,
        }
    }
}
