//! The answer that a report begins with: a few sentences computed from the frame, each with the ids of its cells.
//!
//! One file per subject. A new kind of report gets a field in [`Answers`].

mod agreement;
mod answers;
mod binding;
mod changes;
mod claims;
mod evidence;
mod extremes;
mod failures;
mod figures;
mod fits;
#[cfg(test)]
mod growth_tests;
mod held_out;
mod methods;
mod naming;
mod own;
mod pieces;
mod price;
mod profiles;
mod sentence;
mod series;
mod slopes;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tuned;

pub(super) use answers::Answers;
pub(super) use evidence::Evidence;
pub(super) use naming::listed;
