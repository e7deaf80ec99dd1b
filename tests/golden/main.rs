//! What we compute against what torch, transformers, PEFT and bitsandbytes computed; tests/fixtures/README.md says how.

mod adapter;
mod encoders;
mod fixtures;
mod quant;
mod train;
