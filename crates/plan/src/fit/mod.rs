//! What fits: a search over every technique that saves memory.
//!
//! [`Space`] has the techniques that a cell can use, each with its steps; a [`Point`] of it is a combination.
//! [`Search`] predicts points and finds the least change that fits, and the front of memory against price.

mod fewest_gpus;
mod largest;
mod search;
mod smallest_gpu;
mod space;
#[cfg(test)]
mod tests;
mod values;

pub use fewest_gpus::fewest_gpus;
pub use largest::{Bound, Largest, Most, largest};
pub use search::{Found, Search};
pub use smallest_gpu::smallest_gpu;
pub use space::{Changed, Moves, Point, Space};
pub use values::check_values;
