//! Gradients that are released after the step.

use options::ZeroGrad;

use super::technique::Technique;
use super::toggle::toggle;

pub(super) const ZERO_GRAD: Technique = toggle!(
    "torch.zero_grad", zero_grad: ZeroGrad::AfterStep,
    does: "Releases the gradients right after the optimizer's step.",
    avoid: "Where the loop reads gradients between steps.",
    meaning: "gradients are released after the step"
);
