//! Checkpoints and data, read from files.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod checkpoint;
mod data;
mod forms;
