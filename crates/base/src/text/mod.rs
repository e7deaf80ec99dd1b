//! Words and numbers for people: formats, units, quotes, suggestions.

mod causes;
mod count;
mod flow_yaml;
pub mod format;
mod hex;
mod mistake;
mod quote;
mod suggest;
mod table;
mod unit;
mod visible;

pub use causes::with_causes;
pub use count::counted;
pub use flow_yaml::to_flow_yaml;
pub use hex::hex;
pub use mistake::Mistake;
pub use quote::{either, quoted};
pub use suggest::{did_you_mean, nearest, suggestion};
pub use table::Table;
pub use unit::{Dimension, Unit};
pub use visible::{visible, visible_but_styles};
