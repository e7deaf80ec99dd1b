//! Reports: a template turns a frame into Markdown with charts.
//!
//! Nothing here reads records. The same frame gives the same bytes.

mod about;
pub mod accuracy;
mod answer;
mod axes;
pub mod chart;
mod charts;
mod check;
mod claims;
pub mod compare;
mod context;
mod entry;
mod error;
mod files;
mod filters;
mod group;
mod html;
pub mod markdown;
mod measured;
mod pairs;
mod published;
mod render;
mod template;
mod timeline;

pub use about::About;
pub use axes::axes;
pub use check::check_study;
pub use claims::{ClaimResult, ClaimVerdict};
pub use entry::{Entry, entries};
pub use error::ReportError;
pub use files::{prepare_output, stale_files, write};
pub use render::{Frames, Rendered, render};
pub use template::Template;
