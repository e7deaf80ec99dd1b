//! Checkpoints and data, read from files.

mod checkpoint;
mod data;
