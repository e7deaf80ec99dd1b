//! Norms of the decoders.

use arch::Kind;

use crate::models::loader::Loader;
use crate::tape::Tensor;

/// RMSNorm, as the family has it.
pub(crate) struct Norm<'t> {
    pub path: &'static str,
    pub weight: Tensor<'t>,
    form: Form,
}

/// What a release computes.
enum Form {
    Plain,
    /// It multiplies by 1 more than its weight.
    Centered,
    /// It multiplies by its weight before it casts back.
    CastLate,
}

impl<'t> Norm<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>, path: &'static str) -> Self {
        let family = loader.configuration.model.family.description();
        let kind = family.module(path).map(|module| module.kind);
        Self {
            path,
            weight: loader.weight(path),
            form: match kind {
                Some(Kind::CenteredNorm) => Form::Centered,
                _ if loader.configuration.transformers.casts_norms_late => Form::CastLate,
                _ => Form::Plain,
            },
        }
    }

    pub(crate) fn forward(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        let parameters = [Some(&self.weight), None];
        let tape = hidden.tape;
        tape.in_module(parameters, hidden.requires_grad(), || match self.form {
            Form::Plain => hidden.rms_norm(&self.weight),
            Form::Centered => hidden.rms_norm_centered(&self.weight),
            Form::CastLate => hidden.rms_norm_cast_late(&self.weight),
        })
    }
}
