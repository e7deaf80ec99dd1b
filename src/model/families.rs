//! The families that are trained here, one line each.

use candle_core::Device;

use super::chain::Chain;
use super::encoder::Encoder;
use super::error::LoadError;
use super::llama::Llama;
use super::loader::Loader;
use crate::arch::{Family, ModelConfig};
use crate::nn::param::Param;

/// From the families, declares [`Model`] and what depends on its variants: a variant, its chain of segments, and the
/// function of [`Loader`] that builds it from models of these families. `$d` is a dollar sign.
macro_rules! families {
    ($d:tt $($variant:ident($chain:ty) = $build:ident of $first:ident $(or $other:ident)*,)+) => {
        /// A model with everything it was configured to train.
        #[derive(Debug)]
        pub enum Model {
            $(
                #[doc = concat!("Built by `Loader::", stringify!($build), "`.")]
                $variant($chain),
            )+
        }

        /// Builds the model that `config` describes.
        pub(super) fn build(loader: &mut Loader, config: &ModelConfig) -> Result<Model, LoadError> {
            match config.family {
                $(Family::$first $(| Family::$other)* => loader.$build(config).map(|chain| Model::$variant(chain.into())),)+
                other => Err(LoadError::Family(other.name())),
            }
        }

        /// Every family with a line above.
        #[cfg(test)]
        const BUILT: &[Family] = &[$(Family::$first, $(Family::$other,)*)+];

        /// Evaluates `$body` with the model's chain of segments, whichever it is, as `$chain`.
        macro_rules! with_chain {
            ($d model:expr, $d chain:ident => $d body:expr) => {
                match $d model {
                    $($crate::model::Model::$variant($d chain) => $d body,)+
                }
            };
        }
    };
}

families! { $
    Llama(Llama) = llama of Llama,
    Encoder(Box<Encoder>) = encoder of DistilBert or Bert,
}

pub(crate) use with_chain;

impl Model {
    /// Everything that is trained, in a fixed order, each once.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        with_chain!(self, chain => chain.trainable())
    }

    /// The device that holds the weights.
    pub fn device(&self) -> &Device {
        with_chain!(self, chain => chain.device())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::check::TRAINED;

    #[test]
    fn the_families_that_are_built_are_those_that_pass_the_checks() {
        assert_eq!(BUILT, TRAINED);
    }
}
