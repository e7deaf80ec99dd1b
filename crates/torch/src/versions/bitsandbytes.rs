//! Releases of bitsandbytes.

use base::text::Mistake;

use super::version::{Version, planned, studied};

/// How a release of bitsandbytes computes with 4-bit weights, and what its optimizers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitsandbytes {
    /// A product's context keeps its input, which the backward pass does not need, for as long as the loss is there;
    /// and checkpointing that is not reentrant does not see it there. Until 0.43.2: `ctx.tensors = (A, B)` in
    /// `MatMul4Bit.forward`, `autograd/_functions.py`.
    pub keeps_inputs: bool,
    /// Products of float32 or bfloat16 inputs are computed in that format, whatever was asked for. From 0.41.0,
    /// which has `set_compute_type`, until 0.47.0, which heeds `bnb_4bit_compute_dtype` if it is given, as transformers
    /// does: `Linear4bit` in `nn/modules.py`.
    pub computes_in_input_format: bool,
    /// Weights of 4 bits are quantised from float16, whatever they were in, so that they are dequantised to that. Until
    /// 0.43.0: `Params4bit.cuda` in `nn/modules.py`.
    pub quantises_float16: bool,
    /// Products with 8-bit weights are computed of tiles, for which inputs, gradients and, once, weights are copied; the
    /// context keeps a transposed 8-bit copy of its input. Until 0.45.0: `MatMul8bitLt` in `autograd/_functions.py`.
    pub has_tiled_int8: bool,
    /// The context of such a product keeps the input itself, too. From 0.39.0.
    pub keeps_int8_inputs: bool,
    /// To save a model whose 8-bit weights are in tiles, each is laid out by rows once more, and one copy stays for good. From
    /// 0.38.0 until 0.39.1, its pull request 503: `Linear8bitLt._save_to_state_dict` in `nn/modules.py`.
    pub copies_int8_to_save: bool,
    /// It has 4-bit weights and paged optimizers. From 0.39.0.
    pub has_int4: bool,
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
        quantises_float16: false,
        has_tiled_int8: false,
        keeps_int8_inputs: true,
        copies_int8_to_save: false,
        has_int4: true,
        optimizer_block: 256,
        dequantises_to_compute_dtype: true,
        least_block: 32,
    };

    const OLDEST: Version = Version(0, 37, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("bitsandbytes", text, Self::OLDEST)?;
        Ok(Self {
            keeps_inputs: version < Version(0, 43, 2),
            computes_in_input_format: version >= Version(0, 41, 0) && version < Version(0, 47, 0),
            quantises_float16: version < Version(0, 43, 0),
            has_tiled_int8: version < Version(0, 45, 0),
            keeps_int8_inputs: version >= Version(0, 39, 0),
            copies_int8_to_save: version >= Version(0, 38, 0) && version < Version(0, 39, 1),
            has_int4: version >= Version(0, 39, 0),
            optimizer_block: if version < Version(0, 44, 0) { 2048 } else { 256 },
            dequantises_to_compute_dtype: version >= Version(0, 50, 0),
            least_block: if version < Version(0, 49, 2) { 64 } else { 32 },
        })
    }

    /// The release that is planned for `text`, if that is one with `nearest` before it.
    pub fn planned(text: &str) -> Option<String> {
        planned(text, || studied("bitsandbytes", text, Self::OLDEST))
    }
}
