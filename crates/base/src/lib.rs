//! What every other crate may use: words and numbers for people, streams of random numbers, files that appear whole.

pub mod bounds;
pub mod foreign;
pub mod guarded;
pub mod random;
pub mod text;
pub mod whole_file;
