//! The interface of an adapter.

use std::fmt::Debug;

use candle_core::Result;

use super::low_rank::LowRank;
use crate::{param::Param, tensor::Tensor, weight::Weight};

/// An adapter of a linear layer over a frozen weight `W`: it adds a term to the product, or scales the inputs or the
/// outputs. The layer computes `outputs ∘ ((x ∘ inputs) Wᵀ + term(x)) + bias`, or scales the bias with the outputs.
pub trait Adapter: Debug + Send {
    /// The term that is added to the product, with the map of its input.
    fn low_rank(&self) -> Option<&LowRank> {
        None
    }

    /// The term that is added to the product, mutable for its gradients.
    fn low_rank_mut(&mut self) -> Option<&mut LowRank> {
        None
    }

    /// The outputs' factors that follow from the trained values as they are now. Boxed, since most layers have none and
    /// the lists of them are passed around.
    fn output_scale(&self, weight: &Weight) -> Result<Option<Box<OutputScale>>> {
        let _ = weight;
        Ok(None)
    }

    /// True if the outputs' factors can be divided by, and leave the bias as it is.
    fn can_undo_output_scale(&self) -> bool {
        false
    }

    /// Adds the gradient of what the factors follow from, given that of the factors: `[out]`, float32. They were asked
    /// for before, and nothing has changed since.
    fn accumulate_output_scale(&mut self, gradient: Tensor) -> Result<()> {
        let _ = gradient;
        Ok(())
    }

    /// The inputs' factors: `[in]`, float32.
    fn input_scale(&self) -> Result<Option<Box<Tensor>>> {
        Ok(None)
    }

    /// Adds the gradient of the inputs' factors: `[in]`, float32.
    fn accumulate_input_scale(&mut self, gradient: Tensor) -> Result<()> {
        let _ = gradient;
        Ok(())
    }

    /// What is saved, in a fixed order: all that is trained, and what is drawn and stays as it is. The caller may
    /// change any of it.
    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>);
}

/// A low-rank term by itself.
impl Adapter for LowRank {
    fn low_rank(&self) -> Option<&LowRank> {
        Some(self)
    }

    fn low_rank_mut(&mut self) -> Option<&mut LowRank> {
        Some(self)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.own_factors(params);
    }
}

/// A factor of each output of a layer.
#[derive(Debug)]
pub struct OutputScale {
    /// The factors, `[out]` in float32.
    pub factors: Tensor,
    /// True if the bias is scaled, too. Such a bias is not trained.
    pub scales_bias: bool,
}
