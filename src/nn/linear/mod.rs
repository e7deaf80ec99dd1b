//! Linear layers with their biases and adapters.

mod cpu;
mod layer;
mod plain;
mod projection;
#[cfg(test)]
mod tests;

pub use layer::Linear;
pub use projection::{Carried, Projection};
