//! The settings in `PYTORCH_ALLOC_CONF` (before: `PYTORCH_CUDA_ALLOC_CONF`).

mod options;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

pub use values::{Reserve, Settings, TieBreak};
