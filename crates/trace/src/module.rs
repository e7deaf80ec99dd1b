//! The parts of a model, as plans name them.

use std::fmt::{self, Display, Formatter};

/// A part of the model, or the optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Module {
    /// Such as `mlp` or `lm_head`; empty for a block outside its parts.
    pub name: &'static str,
    /// The block it belongs to.
    pub layer: Option<u16>,
}

impl Module {
    /// True for the head over the vocabulary, and for the loss of its logits.
    pub fn is_of_loss(&self) -> bool {
        self.layer.is_none() && matches!(self.name, "lm_head" | "loss")
    }
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.layer, self.name) {
            (Some(layer), "") => write!(f, "layers.{layer}"),
            (Some(layer), name) => write!(f, "layers.{layer}.{name}"),
            (None, name) => f.write_str(name),
        }
    }
}
