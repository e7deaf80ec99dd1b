//! Claims with their verdicts: a condition over the study's groups, judged once for each stack.

mod bases;
mod basis;
mod bound;
mod dry_run;
mod evaluate;
mod functions;
mod judge;
mod result;
mod scope;
mod uncertainty;
mod values;

pub(crate) use basis::Purpose;
pub use basis::{Basis, Evidence};
pub(crate) use bound::{BoundClaim, bind};
pub(crate) use dry_run::dry_run;
pub(crate) use functions::{NAMES, ROWS, add as add_functions};
pub(crate) use judge::{Decision, decide, judge};
pub use result::{BasisVerdict, ClaimResult, ClaimVerdict, NamedValue};
pub(crate) use scope::{MISSING, Scope};
