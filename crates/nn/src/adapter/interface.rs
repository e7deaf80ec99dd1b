//! The interface of an adapter.

use std::fmt::Debug;

use candle_core::{Result, Tensor as Candle};

use super::low_rank::LowRank;
use crate::{operand::ComputedRows, param::Param, tensor::Tensor, weight::Weight};

/// An adapter of a linear layer over a frozen weight `W`: it adds a term to the product or a matrix to the weight, or
/// maps the inputs, or scales the outputs. The layer computes `outputs ∘ (map(x) Wᵀ + x deltaᵀ + term(x)) + bias`, or
/// scales the bias with the outputs.
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

    /// What the inputs of the weight's product are multiplied with.
    fn input_map(&self) -> Result<Option<Box<InputMap>>> {
        Ok(None)
    }

    /// True if the map multiplies blocks of inputs.
    fn maps_blocks(&self) -> bool {
        false
    }

    /// Adds the gradient of the map's elements, in their shape, float32.
    fn accumulate_input_map(&mut self, gradient: Tensor) -> Result<()> {
        let _ = gradient;
        Ok(())
    }

    /// The matrix that is added to the weight and computed as it is read.
    fn delta(&self) -> Option<&dyn Delta> {
        None
    }

    /// The matrix, mutable for the gradients of what it is computed from.
    fn delta_mut(&mut self) -> Option<&mut dyn Delta> {
        None
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

/// What the inputs of a layer are multiplied with.
#[derive(Debug)]
pub enum InputMap {
    /// A factor for each input: `[in]`, float32.
    Factors(Tensor),
    /// A matrix for each block of inputs, from the right, one below the other: `[blocks · size, size]`, float32. A
    /// single one is that of all blocks.
    Blocks(Tensor),
}

impl InputMap {
    /// Blocks, if it is of blocks.
    pub fn blocks(&self) -> Option<&Tensor> {
        match self {
            Self::Factors(_) => None,
            Self::Blocks(blocks) => Some(blocks),
        }
    }
}

/// A matrix `[out, in]` that is added to the weight and not held: its rows are computed as products read them.
pub trait Delta: Debug + Send {
    /// Its rows.
    ///
    /// # Errors
    /// Errors of candle.
    fn rows(&self) -> Result<Box<dyn ComputedRows + '_>>;

    /// The gradients of what it is computed from, which begin at zero.
    ///
    /// # Errors
    /// Errors of candle.
    fn gradients(&self) -> Result<Box<dyn DeltaGradients + '_>>;

    /// Adds these gradients to what is trained.
    ///
    /// # Errors
    /// Errors of candle.
    fn accumulate(&mut self, gradients: Vec<Tensor>) -> Result<()>;

    /// The matrix in float32, by candle's ops.
    ///
    /// # Errors
    /// Errors of candle.
    fn plain(&self) -> Result<Candle>;

    /// Adds the gradients of what is trained, given that of the matrix, by candle's ops.
    ///
    /// # Errors
    /// Errors of candle.
    fn accumulate_plain(&mut self, gradient: &Candle) -> Result<()>;
}

/// The gradients of what a [`Delta`] is computed from.
pub trait DeltaGradients {
    /// Adds to them, given the gradients of the matrix's rows from `first` on. In a dry run there are no rows.
    ///
    /// # Errors
    /// Errors of candle.
    fn add(&mut self, first: usize, rows: &[f32]) -> Result<()>;

    /// The gradients, float32.
    fn finish(self: Box<Self>) -> Vec<Tensor>;
}
