//! Activations of feed-forward layers, one a file.

mod gated;
mod geglu;
mod gelu;
mod interface;
mod swiglu;

pub use geglu::GeGlu;
pub use gelu::Gelu;
pub use interface::Activation;
pub use swiglu::SwiGlu;
