//! What we compute against what torch, transformers, PEFT and bitsandbytes computed; tests/fixtures/README.md says how.

mod adapter;
#[path = "../common/mod.rs"]
mod common;
mod decoders;
mod encoders;
mod fixtures;
mod models;
mod quant;
mod runs;
