//! What every method has: its facts, the fields of PEFT's file, and what its options say.

mod facts;
mod field;
mod method;
mod own_scales;

pub(super) use facts::OF_LAYERS;
pub use facts::{Facts, Of, SavedTensor};
pub use field::{Field, KeyField};
pub(super) use field::{fixed, key, other_start, remark, start, word};
pub use method::{Context, Layer, Method, Tensor};
pub use own_scales::OwnScales;
