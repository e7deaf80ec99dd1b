//! Adapters of linear layers, one a file.

mod interface;
mod lora;
mod low_rank;
mod registry;

pub use interface::Adapter;
pub use lora::Lora;
pub use low_rank::LowRank;
pub(crate) use registry::new;
