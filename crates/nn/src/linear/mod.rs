//! Linear layers with their biases and adapters.

mod carried;
mod cpu;
mod cut;
mod layer;
mod plain;
mod projection;
mod scales;
#[cfg(test)]
mod tests;

pub use carried::Carried;
pub use layer::Linear;
pub use projection::Projection;
