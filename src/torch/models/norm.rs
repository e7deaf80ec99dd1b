//! Norms of the decoders.

use crate::arch::Kind;
use crate::torch::models::loader::Loader;
use crate::torch::tape::Tensor;

/// RMSNorm, as the family has it.
pub(crate) struct Norm<'t> {
    pub(crate) path: &'static str,
    pub(crate) weight: Tensor<'t>,
    /// It multiplies by 1 more than its weight.
    pub(crate) is_centered: bool,
}

impl<'t> Norm<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, path: &'static str) -> Self {
        let family = loader.configuration.model.family.description();
        Self {
            path,
            weight: loader.weight(path),
            is_centered: family
                .module(path)
                .is_some_and(|module| module.kind == Kind::CenteredNorm),
        }
    }

    pub(crate) fn forward(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        match self.is_centered {
            true => hidden.rms_norm_centered(&self.weight),
            false => hidden.rms_norm(&self.weight),
        }
    }
}
