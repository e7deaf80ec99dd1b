//! The first factor of a low-rank term, A `[rank, in]`.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor as Candle};

use super::shared::SharedFactors;
use crate::{
    operand::{ComputedRows, Stored},
    param::Param,
};

/// The first factor of a low-rank term, A `[rank, in]`.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a layer has one, and most are the large one")]
pub enum Down {
    /// LoRA's own, trained or frozen.
    Factor(Param),
    /// MiSS's, of this rank: a one where column modulo rank is the row, so that the product is the sum of the input's
    /// shards. It takes no memory.
    Shards(usize),
    /// VeRA's, of which a layer takes the first columns.
    Shared(Arc<SharedFactors>),
}

/// A one where column modulo rank is the row.
struct Shards(usize);

impl ComputedRows for Shards {
    fn fill(&self, row: usize, cols: Range<usize>, out: &mut [f32]) {
        for (out, col) in out.iter_mut().zip(cols) {
            *out = f32::from(u8::from(col % self.0 == row));
        }
    }
}

impl Down {
    /// The rows.
    pub fn rank(&self) -> usize {
        match self {
            Self::Factor(a) => a.value.rows(),
            Self::Shards(rank) => *rank,
            Self::Shared(shared) => shared.a.rows(),
        }
    }

    /// The factor as products read it.
    pub(crate) fn stored(&self) -> Result<Stored<'_>> {
        match self {
            Self::Factor(a) => Stored::tensor(&a.value),
            Self::Shards(rank) => Ok(Stored::Computed(Box::new(Shards(*rank)))),
            Self::Shared(shared) => Stored::tensor(&shared.a),
        }
    }

    /// The factor of a layer with so many inputs, in float32.
    pub(super) fn plain(&self, inputs: usize, device: &Device) -> Result<Candle> {
        match self {
            Self::Factor(a) => a.value.to_candle_f32(),
            Self::Shards(rank) => {
                let ones = (0..rank * inputs).map(|at| f32::from(u8::from(at % inputs % rank == at / inputs)));
                Candle::from_vec(ones.collect(), (*rank, inputs), device)
            }
            Self::Shared(shared) => shared.a.to_candle_f32()?.narrow(1, 0, inputs)?.contiguous(),
        }
    }

    /// The factor if it is trained.
    pub fn trained_mut(&mut self) -> Option<&mut Param> {
        match self {
            Self::Factor(a) => Some(a).filter(|a| a.trainable),
            Self::Shards(_) | Self::Shared(_) => None,
        }
    }

    /// True if the factor is trained.
    pub fn is_trained(&self) -> bool {
        matches!(self, Self::Factor(a) if a.trainable)
    }
}
