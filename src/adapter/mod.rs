//! Low-rank adapters: how they begin, how their input is dropped, and PEFT's file format.

pub mod dropout;
pub mod lora;
pub mod peft;
