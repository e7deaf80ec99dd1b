//! PyTorch's message that memory ran out, beside a plan: the moment that it tells of, the setting that does not agree
//! with it, and what else asks for such bytes.

mod agreement;
mod compatible;
mod device;
mod message;
mod moment;
mod tensor;

pub use agreement::{Agreement, agreements};
pub use compatible::{OfLengths, Tensor, compatible, lengths, lengths_of};
pub use device::{gpus_with, has_memory};
pub use message::{Amount, Message, NoMessage};
pub use moment::{Moment, nearest};
pub use tensor::{Kind, tensor};
