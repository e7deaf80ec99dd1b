//! The answer that a report begins with: a few sentences computed from the frame, each with the ids of its cells.
//!
//! One file per subject. A new kind of report gets a field in [`Answers`].

mod answers;
mod claims;
mod evidence;
mod extremes;
mod figures;
mod methods;
mod profiles;
mod sentence;

pub(super) use answers::Answers;
pub(super) use evidence::Evidence;
