//! The graph that the backward pass walks: its nodes, its leaves, and what they keep. `D` is the type of derivatives.

use super::dtype::Dtype;
use super::frames::Frames;
use super::layout::Dims;
use super::slots::{Slot, ViewSlots};
use super::view::{Edge, StorageId, UnitId, View};

/// Most gradients that a node gives.
pub(super) const INPUTS: usize = 4;

/// Attributes of a node besides its saved tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    /// The dimensions and formats of the inputs: what their gradients are brought to.
    pub(super) inputs: [(Dims, Dtype); INPUTS],
    pub(super) axis: u8,
    /// A linear layer's product is fused with its bias.
    pub(super) has_bias: bool,
    /// The scales of a 4-bit weight that are quantised themselves.
    pub(super) nested_scales: u64,
    /// The gradient is seen as a matrix first, which may copy it.
    pub(super) flat: bool,
}

/// Where the tensors are that a node saved.
#[derive(Clone, Copy)]
pub(super) struct Saved {
    /// The place of the first one, in the frame or in the graph.
    pub(super) start: u32,
    pub(super) count: u8,
    pub(super) frame: Option<u32>,
}

/// The work of the backward pass at a node.
#[derive(Clone, Copy)]
pub(super) enum Work<D> {
    Derivative(D),
    /// The derivative of an operation that gives parts of its input: their gradients wait side by side until all are
    /// there.
    Parts(D),
    /// The block of this frame is run again, and walked back through.
    Block(u32),
}

pub(super) struct Node<D> {
    pub(super) work: Work<D>,
    pub(super) attributes: Attributes,
    pub(super) edges: [Edge; INPUTS],
    pub(super) saved: Saved,
    pub(super) reached: bool,
    pub(super) module: u32,
    /// The unit of FSDP that it was made in.
    pub(super) unit: Option<UnitId>,
    /// The tensors of its context: checkpointing does not see them, and they live as long as the node.
    pub(super) unseen: [Slot; 2],
    /// The input buffer, of each output.
    pub(super) gradients: [Slot; 2],
}

/// A tensor that gathers its gradient.
#[derive(Default)]
pub(super) struct Leaf {
    /// `tensor.grad`.
    pub(super) grad: Option<View>,
    /// The tensor, if it is not a parameter and nothing else holds it.
    pub(super) tensor: Option<View>,
    /// The input buffer of its `AccumulateGrad`.
    pub(super) buffer: Option<View>,
    /// Nodes that have yet to give it a gradient.
    pub(super) awaited: u32,
    /// Where its gradient lies once the ranks have reduced it, if not in its own memory.
    pub(super) bucket: Option<StorageId>,
    /// The unit of FSDP that it is a part of.
    pub(super) unit: Option<UnitId>,
}

pub(super) struct Graph<D> {
    pub(super) nodes: Vec<Node<D>>,
    pub(super) saved: Vec<Option<View>>,
    pub(super) slots: ViewSlots,
    pub(super) leaves: Vec<Leaf>,
    pub(super) frames: Frames,
    /// The gradients of parts, but for the last that came.
    pub(super) parts: Vec<View>,
    /// Tensors of the contexts of a recomputation, until it ends.
    pub(super) recomputed: Vec<View>,
}

/// How much there is of a graph.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) nodes: usize,
    pub(super) saved: usize,
    pub(super) leaves: usize,
}

impl<D> Graph<D> {
    pub(super) fn extent(&self) -> Extent {
        Extent {
            nodes: self.nodes.len(),
            saved: self.saved.len(),
            leaves: self.leaves.len(),
        }
    }

    /// Takes the tensors of the contexts of a recomputation.
    pub(super) fn take_recomputed(&mut self) -> Vec<View> {
        std::mem::take(&mut self.recomputed)
    }

    /// With room for most models' graphs.
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::with_capacity(1 << 12),
            saved: Vec::with_capacity(1 << 12),
            slots: ViewSlots::default(),
            leaves: Vec::new(),
            frames: Frames::default(),
            parts: Vec::new(),
            recomputed: Vec::new(),
        }
    }

    /// The saved tensors of a node.
    pub(super) fn saved(&mut self, saved: Saved) -> &mut [Option<View>] {
        let all = match saved.frame {
            None => &mut self.saved,
            Some(frame) => self.frames[frame as usize].recomputed(),
        };
        let start = saved.start as usize;
        all.get_mut(start..start + usize::from(saved.count)).unwrap_or_default()
    }
}
