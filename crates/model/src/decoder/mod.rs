//! Decoders as a chain of segments: embedding, blocks, final norm with head.

mod chain;
mod load;
mod model;

pub use model::Decoder;
