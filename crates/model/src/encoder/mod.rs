//! Encoders with a classification head, as a chain of segments: embeddings, blocks, head.

mod chain;
mod load;
mod model;

pub use model::Encoder;
