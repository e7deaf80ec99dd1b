//! Optimizers, one a file, gradient clipping, and the learning rate over the steps.

mod adafactor;
mod adamw;
mod adamw_8bit;
mod clip;
mod each_param;
mod elementwise;
mod galore;
mod gradient;
mod host_state;
mod lion;
mod low_rank;
mod optimizer;
mod projection;
mod registry;
mod rsvd;
mod schedule;
mod sgd;
#[cfg(test)]
mod testing;

pub use clip::clip_gradients;
pub use optimizer::Optimizer;
pub use registry::new;
pub use schedule::learning_rate;
