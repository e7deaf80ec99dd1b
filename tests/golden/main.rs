//! Our numbers against those of torch, transformers, PEFT and bitsandbytes, which tests/fixtures/README.md describes.

mod adapter;
#[path = "../common/mod.rs"]
mod common;
mod decoders;
mod encoders;
mod fixtures;
mod models;
mod quant;
mod runs;
