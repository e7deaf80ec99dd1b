//! The layer that gives the logits.

use candle_core::Result;

use crate::{linear::Projection, param::Param};

/// A head.
#[derive(Debug)]
pub enum Head {
    /// A weight by itself, `[vocabulary, hidden]`.
    Plain(Param),
    /// A dense weight with an adapter beside it.
    Adapted(Projection<1>),
}

impl Head {
    /// The weight.
    ///
    /// # Errors
    /// If the weight under an adapter is quantised.
    pub fn weight(&self) -> Result<&Param> {
        match self {
            Self::Plain(weight) => Ok(weight),
            Self::Adapted(projection) => projection.dense_weight(),
        }
    }

    /// The weight, to be changed.
    ///
    /// # Errors
    /// As [`Self::weight`].
    pub fn weight_mut(&mut self) -> Result<&mut Param> {
        match self {
            Self::Plain(weight) => Ok(weight),
            Self::Adapted(projection) => projection.dense_weight_mut(),
        }
    }

    /// What is trained, and what the adapter keeps frozen, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        match self {
            Self::Plain(weight) => weight.push_trainable(params),
            Self::Adapted(projection) => projection.trainable(params),
        }
    }
}
