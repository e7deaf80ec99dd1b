//! Reentrant checkpointing: `CheckpointFunction` in `torch/utils/checkpoint.py`.
//!
//! A block runs without a history, and one node stands for it. When backward comes to that, the block is run again to
//! its end, on an input of its own and with its whole history, and walked back through at once. Its input, its output
//! and the gradient that came stay until then.

use super::frames::Recompute;
use super::frames::{BLOCK_INPUTS, Frame};
use super::tape::Tensor;
use super::tape::{Mode, Tape};
use super::view::Target;

impl Tape {
    /// Runs `block`, which is the one with the number `index`, without a history of its own.
    pub(super) fn checkpoint_reentrant<'t>(
        &'t self,
        index: usize,
        inputs: [Option<&Tensor<'t>>; BLOCK_INPUTS],
        block: impl FnOnce() -> Tensor<'t>,
    ) -> Tensor<'t> {
        // Where its input wants no gradient, nothing in it is trained: PyTorch warns of that.
        let Some(input) = inputs[0].filter(|input| input.requires_grad()) else {
            return self.within(Mode::NoGrad, block);
        };
        let frame = self.open_frame(index, inputs);
        let output = self.within(Mode::NoGrad, block);
        let mut record = self.record_block(input, frame);
        if let Some(mask) = inputs[1].filter(|_| self.checkpoints_within) {
            record.keep_unseen(mask);
        }
        record.finish(output)
    }

    /// Runs the block of a frame again and walks back through it: the gradient of its input.
    pub(super) fn walk_back_again<'t>(
        &'t self,
        frame: usize,
        gradient: &Tensor<'t>,
        recompute: Recompute<'_>,
    ) -> Option<Tensor<'t>> {
        let before = self.graph.borrow().extent();
        let (block, mut views) = self.graph.borrow_mut().frames[frame].take_inputs();
        let inputs = views.map(|view| view.map(|view| self.tensor(view)));
        let input = self.leaf(inputs[0].clone()?.detach());
        views[0] = Some(input.view);
        let output = self.within(Mode::Record, || recompute(&Frame::new(block, views)))?;
        let output = self.tensor(output);
        if let Target::Node { node: root, .. } = output.view.edge.target() {
            self.walk_back(before.nodes, root, gradient, recompute);
        }
        let own = self.take_gradient(&input);
        if let Some(own) = &own {
            self.label_temporary(own.view.storage);
            self.keep_with_hook(block, [&input, own]);
        }
        drop((output, input, inputs));
        drop(self.clear_graph_from(before));
        own
    }
}
