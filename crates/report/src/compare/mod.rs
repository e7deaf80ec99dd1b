//! Two studies, cell by cell.

mod difference;
mod gate;
mod matching;
mod pair;

pub use difference::{ColumnDifference, differences};
pub use gate::{FailedPair, Gate, Why};
pub use matching::{Comparison, compare, varying};
pub use pair::MatchedPair;
