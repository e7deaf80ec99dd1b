//! The micro-batches of a plan: the sizes that decide the memory of training, without their tokens.

mod choice;
mod live;
mod ours;
mod planned;
mod sequence;
#[cfg(test)]
mod testing;
mod torch;
mod trainer;

pub use ours::steps;
pub use planned::Planned;
pub use torch::{BetweenSteps, Depth, TorchStep, parts, torch_steps};
