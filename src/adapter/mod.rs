//! Low-rank adapters: how they begin, and PEFT's file format.

pub mod lora;
pub mod peft;
