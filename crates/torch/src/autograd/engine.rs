//! The engine: walks back through the graph, node by node, and adds up gradients.

use trace::Category;

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::frames::Recompute;
use crate::graph::{Attributes, Graph, Node, Work};
use crate::tape::Tape;
use crate::tape::Tensor;
use crate::tape::{Backward, Gradients};
use crate::view::View;
use crate::view::{Edge, Target};

impl<'t> Tensor<'t> {
    /// `self.backward()`.
    pub(crate) fn backward(&self, recompute: Recompute<'_>) {
        let tape = self.tape;
        let Target::Node { node: root, .. } = self.view.edge.target() else {
            return;
        };
        let ones = tape.empty_as(self.view.layout.dense(), self.dtype(), Category::Temporary);
        tape.in_backward.set(true);
        tape.walk_back(0, root, &ones, recompute);
        tape.in_backward.set(false);
        tape.end_backward_of_units();
        tape.end_backward_of_zero();
        drop(ones);
    }
}

impl Tape {
    /// Walks back from the node `root`, whose output has this gradient, to the node `first`.
    pub(crate) fn walk_back(&self, first: usize, root: usize, gradient: &Tensor<'_>, recompute: Recompute<'_>) {
        self.await_gradients(first, root);
        {
            let graph = &mut *self.graph.borrow_mut();
            graph.nodes[root].gradients[0] = graph.slots.put(gradient.clone().into_view());
        }
        for index in (first..=root).rev() {
            self.run(index, recompute);
        }
        self.after_nodes(first);
        self.after_nodes_of_modules(first);
    }

    /// Marks what is reached from `root`, back to `first`, and counts what each leaf will be given.
    fn await_gradients(&self, first: usize, root: usize) {
        let graph = &mut *self.graph.borrow_mut();
        graph.nodes[root].reached = true;
        for index in (first..=root).rev() {
            if !graph.nodes[index].reached {
                continue;
            }
            for edge in graph.nodes[index].edges {
                match edge.target() {
                    Target::Nothing => {}
                    Target::Leaf(leaf) => {
                        let leaf = &mut graph.leaves[leaf];
                        leaf.awaited += 1;
                        if let Some(unit) = leaf.unit.filter(|_| leaf.awaited == 1) {
                            self.await_in_unit(unit);
                        }
                    }
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
            work,
            edges,
            saved,
            module,
            unit,
            ..
        } = node;
        let mut backward = Backward {
            tape: self,
            attributes: node.attributes,
            needs: edges.map(Edge::is_some),
            saved,
        };
        drop(graph);
        self.resume(module);
        self.before_node(unit, index);
        self.before_node_of_module(unit, index);
        let gradient = match first.map(|view| self.tensor(view)) {
            Some(gradient) if backward.attributes.flat => gradient.reshaped(&gradient.rows_and_width()),
            Some(gradient) => gradient,
            None => self.empty(&[0], Dtype::Uint8),
        };
        if let Some(frame) = saved.frame
            && saved.count > 0
        {
            self.recompute(frame as usize, recompute);
            self.resume(module);
        }
        let mut gradients = match work {
            Work::Derivative(derivative) | Work::Parts(derivative) => derivative(&mut backward, &gradient),
            Work::Block(frame) => [
                self.walk_back_again(frame as usize, &gradient, recompute),
                None,
                None,
                None,
            ],
        };
        if saved.frame.is_some() {
            // What was recomputed is nowhere else: it goes when the derivative returns, as C++ lets go of variables,
            // from behind.
            self.release_saved(self.graph.borrow_mut().saved(saved).iter_mut().rev());
        }
        self.validate(&mut gradients, &backward.attributes);
        drop(gradient);
        if let Work::Parts(_) = work {
            for part in self.graph.borrow_mut().parts.drain(..) {
                self.release(part.storage);
            }
        }
        if let Some(second) = second {
            self.release(second.storage);
        }
        match saved.frame {
            None => self.release_saved(self.graph.borrow_mut().saved(saved).iter_mut()),
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
    fn release_saved<'v>(&self, views: impl Iterator<Item = &'v mut Option<View>>) {
        for view in views.filter_map(Option::take) {
            self.release(view.storage);
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
                    let there = graph.slots.take(&mut graph.nodes[node].gradients[output]);
                    match graph.nodes[node].work {
                        Work::Parts(_) => {
                            graph.parts.extend(there);
                            None
                        }
                        Work::Derivative(_) | Work::Block(_) => there,
                    }
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

    /// Adds a gradient to what is in an input buffer: in place where the engine is the only one to hold what is there
    /// (`can_accumulate_inplace` in `torch/csrc/autograd/input_buffer.cpp`). A tensor that is seen otherwise is held by
    /// how it is seen.
    fn accumulate<'t>(&'t self, there: Option<View>, gradient: Tensor<'t>) -> View {
        let Some(there) = there else {
            return gradient.into_view();
        };
        let there = self.tensor(there);
        let is_own = self.is_sole(there.view.storage) && !there.view.is_seen_otherwise;
        if self.backend == Backend::Cuda && is_own && there.view.layout.is_dense() {
            return there.into_view();
        }
        self.empty_as(there.view.layout.dense(), there.dtype(), Category::Temporary)
            .into_view()
    }

    /// A leaf's gradient is stolen when it is the first, or added in place. It moves to its bucket, if it has one, when
    /// it is to be reduced.
    fn give_leaf<'t>(&'t self, number: usize, gradient: Tensor<'t>) {
        let buffered = self.graph.borrow_mut().leaves[number].buffer.take();
        let sum = self.accumulate(buffered, gradient);
        let mut graph = self.graph.borrow_mut();
        let leaf = &mut graph.leaves[number];
        leaf.awaited -= 1;
        if leaf.awaited > 0 {
            leaf.buffer = Some(sum);
            return;
        }
        if let Some(unit) = leaf.unit {
            leaf.buffer = Some(sum);
            drop(graph);
            return self.gradient_in_unit(unit);
        }
        if leaf.grad.is_some() {
            self.release(sum.storage);
        } else {
            leaf.grad = Some(self.own(sum));
        }
        if let (Some(grad), Some(bucket)) = (&mut leaf.grad, leaf.bucket)
            && self.reduces.get()
            && grad.storage != bucket
        {
            self.move_to(grad, bucket);
        }
        drop(graph);
        self.gradient_arrived(number);
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

    /// `leaf.grad`, which it no longer has then.
    pub(crate) fn take_gradient(&self, leaf: &Tensor<'_>) -> Option<Tensor<'_>> {
        let Target::Leaf(leaf) = leaf.view.edge.target() else {
            return None;
        };
        let grad = self.graph.borrow_mut().leaves[leaf].grad.take();
        grad.map(|grad| self.tensor(grad))
    }
}
