//! Values that a spec leaves open, found before a cell gets its id: the micro-batch of `auto_batch_size`, and the
//! blocks of `gradient_checkpointing: {auto: SIZE}`. Everything is predicted; a run adds real steps.

mod batch;
mod blocks;
mod study;
mod trial;

pub use blocks::least_recomputation;
pub use study::resolve;
pub use trial::{Trial, untried};
