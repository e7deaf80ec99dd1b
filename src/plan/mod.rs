//! What training will take, before anything runs.
//!
//! A stack writes a [`trace`] of what it will allocate and release; an [`account`] replays it for the live bytes.

pub mod account;
pub mod trace;
