//! Frozen weights in fewer bits: quantised while they are read, dequantised where a product needs them.
//!
//! A [`Builder`] is fed with a matrix in consecutive slices of any length, so that a matrix is never held in 16 or 32
//! bits: at its peak there are the codes, the scales and the caller's slice. Everything it keeps is allocated by the
//! calling thread. Elements are numbered as the matrix is stored, row by row; that number is the *flat* index.

mod absmax;
mod builder;
pub mod device;
pub mod double;
pub mod dynamic;
mod element;
mod error;
pub mod int8;
pub mod nf4;
mod parallel;
mod quantized;

pub use builder::{Builder, Format};
pub use element::Element;
pub use error::QuantError;
pub use int8::Int8;
pub use nf4::Nf4;
pub use quantized::Quantized;
