//! A file a family: its facts, as transformers and PEFT have them. `base.rs` has what families begin with.

mod base;
pub(super) mod bert;
pub(super) mod distilbert;
pub(super) mod gemma;
pub(super) mod gemma2;
pub(super) mod gemma3;
pub(super) mod llama;
pub(super) mod mistral;
pub(super) mod phi3;
pub(super) mod qwen2;
pub(super) mod qwen3;
