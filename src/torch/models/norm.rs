//! Norms of the decoders.

use crate::arch::Kind;
use crate::peft;
use crate::torch::models::loader::Loader;
use crate::torch::tape::Tensor;

/// RMSNorm, as the family has it.
pub(crate) struct Norm<'t> {
    path: &'static str,
    weight: Tensor<'t>,
    /// The frozen weight, where a copy is tuned.
    _original: Option<Tensor<'t>>,
    /// It multiplies by 1 more than its weight.
    pub(crate) is_centered: bool,
}

impl<'t> Norm<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, path: &'static str) -> Self {
        let family = loader.configuration.model.family.description();
        Self {
            path,
            weight: loader.weight(path),
            _original: None,
            is_centered: family
                .module(path)
                .is_some_and(|module| module.kind == Kind::CenteredNorm),
        }
    }

    /// Trains a copy in the weight's format, if LayerNorm tuning tunes it (`tuners/ln_tuning/layer.py`).
    pub(crate) fn tune(&mut self, loader: &mut Loader<'t, '_>, block: Option<usize>) {
        if loader.tunes_norm(self.path, block) {
            let copy = loader.trained_copy(&self.weight, self.path, block, peft::tuned("weight"));
            self._original = Some(std::mem::replace(&mut self.weight, copy));
        }
    }

    pub(crate) fn forward(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        match self.is_centered {
            true => hidden.rms_norm_centered(&self.weight),
            false => hidden.rms_norm(&self.weight),
        }
    }
}
