//! The modelling code of the families, as transformers 5 computes it.

mod adapters;
pub(super) mod attention;
pub(super) mod attention_options;
pub(super) mod cache;
pub(super) mod decoder;
pub(super) mod encoder;
pub(super) mod loader;
pub(super) mod mask;
pub(super) mod mlp;
pub(super) mod norm;
