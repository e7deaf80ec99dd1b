//! Low-rank adapters: their initial factors, and PEFT's file format.

pub mod lora;
pub mod peft;
