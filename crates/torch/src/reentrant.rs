//! Reentrant checkpointing: `CheckpointFunction` in `torch/utils/checkpoint.py`.
//!
//! A block runs without a history, and one node stands for it. When backward comes to that, the block is run again to
//! its end, on an input of its own and with its whole history, and walked back through at once. Its input, its output
//! and the gradient that came stay until then.

use super::frames::{BLOCK_INPUTS, BlockOutputs, Frame, Recompute};
use super::tape::Tensor;
use super::tape::{Mode, Tape};
use super::view::Target;

impl Tape {
    /// Runs `block`, which is the one with the number `index`, without a history of its own.
    pub(super) fn checkpoint_reentrant<'t>(
        &'t self,
        index: usize,
        inputs: [Option<&Tensor<'t>>; BLOCK_INPUTS],
        block: impl FnOnce() -> BlockOutputs<Tensor<'t>>,
    ) -> BlockOutputs<Tensor<'t>> {
        // Where its input wants no gradient, nothing in it is trained: PyTorch warns of that.
        let Some(input) = inputs[0].filter(|input| input.requires_grad()) else {
            return self.within(Mode::NoGrad, block);
        };
        let frame = self.open_frame(index, inputs);
        let (output, weights) = self.within(Mode::NoGrad, block);
        let size = weights
            .as_ref()
            .map(|weights| (weights.view.layout.dims, weights.dtype()));
        self.graph.borrow_mut().frames[frame].weights = size;
        let mut record = self.record_block(input, frame);
        if let Some(mask) = inputs[1].filter(|_| self.checkpoints_within) {
            record.keep_unseen(mask);
        }
        (record.finish(output), weights)
    }

    /// Runs the block of a frame again and walks back through it: the gradient of its input.
    pub(super) fn walk_back_again<'t>(
        &'t self,
        frame: usize,
        gradient: &Tensor<'t>,
        recompute: Recompute<'_>,
    ) -> Option<Tensor<'t>> {
        let before = self.graph.borrow().extent();
        // Python is given zeros as the gradient of an output that no one used.
        let size = self.graph.borrow().frames[frame].weights;
        let zeros = size.map(|(dims, dtype)| self.empty(&dims, dtype));
        let (block, mut views) = self.graph.borrow_mut().frames[frame].take_inputs();
        let inputs = views.map(|view| view.map(|view| self.tensor(view)));
        let input = self.leaf(inputs[0].clone()?.detach());
        views[0] = Some(input.view);
        let (output, weights) = self.within(Mode::Record, || recompute(&Frame::new(block, views)))?;
        let (output, weights) = (self.tensor(output), weights.map(|view| self.tensor(view)));
        if let (Some(zeros), Some(weights)) = (&zeros, &weights)
            && let Target::Node { node, output } = weights.view.edge.target()
        {
            let graph = &mut *self.graph.borrow_mut();
            graph.nodes[node].gradients[output] = graph.slots.put(zeros.clone().into_view());
        }
        if let Target::Node { node: root, .. } = output.view.edge.target() {
            self.walk_back(before.nodes, root, gradient, recompute);
        }
        let own = self.take_gradient(&input);
        if let Some(own) = &own {
            self.label_temporary(own.view.storage);
            self.keep_with_hook(block, [&input, own]);
        }
        drop((output, weights, zeros, input, inputs));
        drop(self.clear_graph_from(before));
        own
    }
}
