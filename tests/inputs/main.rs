//! What a cell trains and what it trains on: checkpoints and data, read from files.

mod checkpoint;
mod data;
