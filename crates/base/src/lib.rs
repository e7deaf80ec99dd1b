//! What every other crate may use: words and numbers for people, quantiles, streams of random numbers, files that appear
//! whole.

pub mod bounds;
pub mod foreign;
pub mod guarded;
mod quantile;
pub mod random;
pub mod text;
pub mod whole_file;

pub use quantile::quantile;
