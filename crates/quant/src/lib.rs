//! Frozen weights in fewer bits. They are quantised while they are read, and dequantised where a product needs them.
//!
//! A [`Builder`] takes a matrix in consecutive slices of any length, so a whole matrix in 16 or 32 bits is never in
//! memory: at the peak there are the codes, the scales and the caller's slice. The calling thread allocates everything
//! that the builder keeps. The *flat* index of an element is its number in the stored matrix, row by row.

mod builder;
pub mod codebook;
pub mod device;
pub mod double;
pub mod dynamic;
mod element;
mod error;
mod format;
pub mod int4;
pub mod int8;
mod parallel;
mod quantized;

pub use builder::Builder;
pub use element::Element;
pub use error::QuantError;
pub use format::Format;
pub use int4::{Int4, Int4Format};
pub use int8::Int8;
pub use quantized::Quantized;
