//! Claims with their verdicts: a condition over the study's groups that holds, does not, or cannot be decided.

mod bound;
mod dry_run;
mod evaluate;
mod functions;
mod judge;
mod result;
mod scope;
mod uncertainty;

pub(crate) use bound::{BoundClaim, bind};
pub(crate) use dry_run::dry_run;
pub(crate) use judge::judge;
pub use result::{ClaimResult, ClaimVerdict};
