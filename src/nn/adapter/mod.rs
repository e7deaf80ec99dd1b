//! Adapters of linear layers, one a file.

mod decomposed;
mod dora;
mod interface;
mod lora;
mod low_rank;
mod registry;
mod start;

pub use dora::Dora;
pub use interface::{Adapter, OutputScale};
pub use lora::Lora;
pub use low_rank::LowRank;
pub(crate) use registry::new;
