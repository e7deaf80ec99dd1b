//! How a quantised model comes onto the GPU.
//!
//! `from_pretrained` of transformers reads the tensors of a checkpoint in the order of their names ([`checkpoint`]),
//! puts each on the GPU as it is, and quantises it there. What it releases on the way stays in PyTorch's allocator and
//! decides which segments training finds. When tensors arrive and when they are quantised is a release's [`LoadOrder`].
//! The weights then wait in [`Loaded`] for the modelling code, which takes them in its own order.

mod checkpoint;
mod from_pretrained;
mod order;

pub(super) use checkpoint::Part;
pub(super) use from_pretrained::{Loaded, Weight};
pub use order::{LoadOrder, WarmUp};
