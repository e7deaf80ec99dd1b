//! Figures in a spec's texts: expressions over the study's cells, and figures of sources.

mod answer;
mod dry_run;
mod errors;
mod evaluate;
mod pieces;
mod units;

pub use answer::AnswerResult;
pub(crate) use answer::answer;
pub(crate) use dry_run::{dry_run, has_figures};
pub(crate) use evaluate::write_all;
pub use evaluate::{NOT_MEASURED, evaluate};
pub use pieces::{Piece, pieces};
