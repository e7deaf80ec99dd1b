//! The frame's columns: their names, types and sources.

mod exact;
mod keys;
mod kind;
mod lineage;
mod names;
mod outcome;
mod prediction;
mod schema;

pub use exact::exact;
pub use keys::{default_keys, is_of_free_map, is_optional, key_kinds, keys};
pub use kind::{IDENTITY, Kind, PLANNED, REPLANNED};
pub use lineage::{LINEAGE, lineage};
pub use names::{category_column, dimension, phase_column, profile_column};
pub use outcome::{Outcome, outcomes};
pub use prediction::{PREDICTED, Predicted, predictions};
pub use schema::schema;
