//! CPU kernels on slices and shapes: they know neither tensors nor models. Inputs and outputs are in the hidden format
//! (float32, float16 or bfloat16), arithmetic is float32. Rows are shared out over rayon's threads at fixed places and
//! each is computed in one order, so a result depends on nothing but its inputs. The plain candle ops beside each layer
//! in `nn/` are their reference.
#![expect(
    unsafe_code,
    reason = "vector instructions, and buffers that are written before they are read"
)]

pub mod absmax;
pub mod adafactor;
pub mod adamw;
pub mod adamw_8bit;
pub mod adapters;
pub mod arithmetic;
pub mod attention;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod cayley;
pub mod classifier;
pub mod codebook;
pub mod columns;
pub mod convert;
pub mod dropout;
pub mod eigen;
mod element;
pub mod embedding;
mod exp;
pub mod gated;
pub mod gelu;
pub mod gemm;
pub mod hadamard;
pub mod head;
pub mod head_norm;
mod instruction_set;
pub mod int8;
pub mod kronecker;
pub mod layer_norm;
pub mod lion;
pub mod log_softmax;
pub mod low_rank;
pub mod nf4;
pub mod norm;
mod reduce;
pub mod rope;
pub mod row_codes;
pub mod row_norms;
mod rows;
mod sequences;
pub mod sgd;
pub mod softcap;
pub mod softmax;
mod tanh;
#[cfg(test)]
mod testing;

pub use convert::scale;
pub use element::Element;
pub use instruction_set::{Dispatch, resolve};
pub use options::InstructionSet;
pub use reduce::sum_of_squares;
pub use sequences::Sequences;
