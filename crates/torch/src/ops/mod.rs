//! The operations: what each allocates, saves for backward, and allocates in its derivative. One file a kind.

pub(super) mod attention;
pub(super) mod elementwise;
pub(super) mod embedding;
pub(super) mod fused_loss;
pub(super) mod linear;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod reduction;
pub(super) mod rotary;
pub(super) mod sdpa_kernel;
pub(super) mod shape;
