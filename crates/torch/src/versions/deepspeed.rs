//! Releases of DeepSpeed.

use base::text::Mistake;

use super::version::{Version, planned, studied};

/// How a release of DeepSpeed shares a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deepspeed {
    /// Stages 1 and 2 make their buckets with the first gradient, and not before the backward pass. From 0.18.3:
    /// `setup_buckets` in `runtime/zero/stage_1_and_2.py`.
    pub buckets_with_first_gradient: bool,
    /// Stages 1 and 2 lay the parameters one after the other on the GPU, if it has room for them twice. From 0.19.0:
    /// `flatten_on_accelerator`.
    pub flattens_on_gpu: bool,
    /// Stages 1 and 2 look for overflows in bfloat16, too. From 0.19.3, where `check_grad_overflow` became true.
    pub checks_bfloat16: bool,
    /// It looks for an overflow by the extremes of a gradient, and not in copies of it. From 0.19.6: `has_inf_or_nan` in
    /// `runtime/utils.py`.
    pub looks_at_extremes: bool,
    /// Stages 1 and 2 copy a gradient that no bucket has room for, if the optimizer is on the CPU. From 0.19.8:
    /// `_offload_gradient_safety_enabled`.
    pub copies_large_gradients: bool,
    /// The engine leaves adapters their format, where stage 3 has partitioned the model while it was made; else it casts them
    /// to that of the weights. From 0.19.2: `_cast_module_mixed_precision` in `runtime/engine.py`.
    pub leaves_adapters: bool,
    /// Stage 3 keeps frozen parameters that a recomputation has gathered until the module that asked for it is done. From
    /// 0.19.3: `ds_recompute_parameters` in `runtime/zero/partitioned_param_coordinator.py`.
    pub keeps_recomputed: bool,
}

impl Deepspeed {
    /// The newest release.
    pub const TODAY: Self = Self {
        buckets_with_first_gradient: true,
        flattens_on_gpu: true,
        checks_bfloat16: true,
        looks_at_extremes: true,
        copies_large_gradients: true,
        leaves_adapters: true,
        keeps_recomputed: true,
    };

    /// The first whose optimizer has no states before the first step.
    const OLDEST: Version = Version(0, 14, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("deepspeed", text, Self::OLDEST)?;
        Ok(Self {
            buckets_with_first_gradient: version >= Version(0, 18, 3),
            flattens_on_gpu: version >= Version(0, 19, 0),
            checks_bfloat16: version >= Version(0, 19, 3),
            looks_at_extremes: version >= Version(0, 19, 6),
            copies_large_gradients: version >= Version(0, 19, 8),
            leaves_adapters: version >= Version(0, 19, 2),
            keeps_recomputed: version >= Version(0, 19, 3),
        })
    }

    /// The release that is planned for `text`, if that is one with `nearest` before it.
    pub fn planned(text: &str) -> Option<String> {
        planned(text, || studied("deepspeed", text, Self::OLDEST))
    }
}
