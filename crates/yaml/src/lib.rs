//! YAML with the place of each value: trees, typed values read out of them, and mistakes that show where they are.

pub mod de;
pub mod diagnostic;
mod parse;
pub mod place;
mod scalar;
pub mod tree;

pub use parse::{Budget, parse};
