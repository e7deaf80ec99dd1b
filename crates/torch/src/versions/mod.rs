//! Differences of older releases of the libraries, as far as they move the peak.
//!
//! Read from the released sources of transformers 4.30 to 5.23, PEFT 0.3 to 0.21, TRL 1.6 to 1.16, bitsandbytes 0.37 to 0.50 and
//! PyTorch 1.10 to 2.15; named beside each behaviour are the file and the function, and the first release that no
//! longer has it. What differs by a few tensors of a token's or a layer's size at most is left out. A release after
//! those that were read is taken to behave as the last of them.

mod bitsandbytes;
mod deepspeed;
mod peft;
mod pytorch;
#[cfg(test)]
mod tests;
mod transformers;
mod trl;
mod version;

pub use bitsandbytes::Bitsandbytes;
pub use deepspeed::Deepspeed;
pub use peft::Peft;
pub use pytorch::Pytorch;
pub(super) use pytorch::{AttentionSoftmax, Workspaces};
pub use transformers::{AttentionWeights, RotaryTables, Transformers, WindowMasks};
pub use trl::Trl;
pub use version::TODAY_SINCE;
pub(super) use version::Version;
