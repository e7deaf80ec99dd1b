//! Releases of bitsandbytes.

use base::text::Mistake;

use super::version::{Version, studied};

/// How a release of bitsandbytes computes with 4-bit weights, and what its optimizers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitsandbytes {
    /// A product's context keeps its input, which the backward pass does not need, for as long as the loss is there;
    /// and checkpointing that is not reentrant does not see it there. Until 0.43.2: `ctx.tensors = (A, B)` in
    /// `MatMul4Bit.forward`, `autograd/_functions.py`.
    pub keeps_inputs: bool,
    /// Products of float32 or bfloat16 inputs are computed in that format, whatever was asked for. Until 0.47.0, which
    /// heeds `bnb_4bit_compute_dtype` if it is given, as transformers does: `compute_type_is_set` of `Linear4bit` in
    /// `nn/modules.py`.
    pub computes_in_input_format: bool,
    /// Weights that share a scale of an optimizer's 8-bit states: 2,048 until 0.44.0, then 256. `init_state` of
    /// `Optimizer2State` in `optim/optimizer.py`.
    pub optimizer_block: u64,
    /// The forward pass dequantises a weight to the format of the product at once, and holds its scales until then.
    /// From 0.50.0: `_dequant_linear_fallback` in `backends/cuda/ops.py`; before, `MatMul4Bit.forward` casts what was
    /// dequantised to the format that the weight was quantised from. Products of a few tokens, which have a kernel of
    /// their own, are left out.
    pub dequantises_to_compute_dtype: bool,
    /// The fewest weights that share a scale of int4: 64 until 0.49.2, then 32. Its pull request 1854.
    pub least_block: usize,
}

impl Bitsandbytes {
    /// The newest release.
    pub const TODAY: Self = Self {
        keeps_inputs: false,
        computes_in_input_format: false,
        optimizer_block: 256,
        dequantises_to_compute_dtype: true,
        least_block: 32,
    };

    const OLDEST: Version = Version(0, 41, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("bitsandbytes", text, Self::OLDEST)?;
        Ok(Self {
            keeps_inputs: version < Version(0, 43, 2),
            computes_in_input_format: version < Version(0, 47, 0),
            optimizer_block: if version < Version(0, 44, 0) { 2048 } else { 256 },
            dequantises_to_compute_dtype: version >= Version(0, 50, 0),
            least_block: if version < Version(0, 49, 2) { 64 } else { 32 },
        })
    }
}
