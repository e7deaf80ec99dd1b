//! Words and numbers for people: formats, units, quotes, suggestions.

pub mod format;
mod quote;
mod suggest;
mod unit;

pub use quote::{either, quoted};
pub use suggest::{did_you_mean, nearest, suggestion};
pub use unit::{Dimension, Unit};
