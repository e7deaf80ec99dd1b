//! Matrix products, the float32 sums of float32 or bfloat16 operands.
//!
//! [`product`] takes operands in the format they are stored in, packs them as it goes, and hands the blocks of the
//! result to an [`Epilogue`]. Attention multiplies blocks itself.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
pub mod block;
mod blocking;
pub mod columns;
pub mod epilogue;
pub mod factors;
pub mod multiply;
pub mod operand;
pub mod pack;
mod product;
pub mod scratch;
#[cfg(test)]
mod tests;
mod transpose;

pub use epilogue::Epilogue;
pub use operand::{Dense, Operand, OperandReader};
pub use product::{Segment, Term, gemm_grouped, product};
