//! Our numbers against those of torch, transformers, PEFT and bitsandbytes, which tests/fixtures/README.md describes.
#![expect(clippy::expect_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod adapter;
#[path = "../common/mod.rs"]
mod common;
mod decoders;
mod dora;
mod encoders;
mod fixtures;
mod head;
mod lion;
mod llm_int8;
mod lora;
mod masked;
mod merged;
mod methods;
mod models;
mod optimizers;
mod partial;
mod peft_methods;
mod precision;
mod quant;
mod runs;
mod schedules;
