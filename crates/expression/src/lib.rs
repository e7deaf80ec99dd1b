//! Expressions in specs and on the command line: minijinja's, with undefined names as mistakes.
//!
//! `exclude`, the claims of a spec, figures in its texts and `compare --fail-if` are written in it. Each has a
//! [`Language`] of its own.

mod compiled;
mod error;
mod language;

pub use compiled::{Expression, condition};
pub use error::{mistake, place_of};
pub use language::Language;
