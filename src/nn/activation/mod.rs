//! Activations of feed-forward layers, one a file.

mod gelu;
mod interface;
mod swiglu;

pub use gelu::Gelu;
pub use interface::Activation;
pub use swiglu::SwiGlu;
