//! The progress of a run, for people and for programs.

mod bar;
mod eta;
mod json;
mod observer;
mod plain;

pub use bar::Bars;
pub use json::Json;
pub use observer::{Progress, Silent};
pub use plain::Plain;
