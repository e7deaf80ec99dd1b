//! Norms of the decoders.

use arch::Kind;

use crate::models::loader::Loader;
use crate::tape::Tensor;

/// RMSNorm, as the family has it.
pub(crate) struct Norm<'t> {
    pub path: &'static str,
    pub weight: Tensor<'t>,
    /// It multiplies by 1 more than its weight.
    is_centered: bool,
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
