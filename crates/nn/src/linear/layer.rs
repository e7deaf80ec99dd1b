//! A linear layer over a frozen or trained weight, with its bias and the adapter beside it.

use memory::tiers::Slot;

use crate::{
    adapter::{Adapter, Delta, LowRank},
    param::Param,
    weight::Weight,
};

/// A linear layer.
#[derive(Debug)]
pub struct Linear {
    /// The weight, `[out, in]`.
    pub weight: Weight,
    /// `[out]`, if the layer has one.
    pub bias: Option<Param>,
    /// The adapter, if the layer has one.
    pub adapter: Option<Box<dyn Adapter>>,
}

impl Linear {
    /// The adapter's term of the product.
    pub fn low_rank(&self) -> Option<&LowRank> {
        self.adapter.as_ref().and_then(|adapter| adapter.low_rank())
    }

    /// The matrix that the adapter adds to the weight.
    pub fn delta(&self) -> Option<&dyn Delta> {
        self.adapter.as_ref().and_then(|adapter| adapter.delta())
    }

    /// The adapter's rank; 0 without one.
    pub fn rank(&self) -> usize {
        self.low_rank().map_or(0, LowRank::rank)
    }

    /// What is trained of this layer, and what its adapter keeps frozen, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        if let Weight::Dense(param) = &mut self.weight {
            param.push_trainable(params);
        }
        if let Some(adapter) = &mut self.adapter {
            adapter.params(params);
        }
        if let Some(bias) = &mut self.bias {
            bias.push_trainable(params);
        }
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        match &mut self.weight {
            Weight::Dense(param) => param.push_frozen(slots),
            Weight::Quantized { matrix, .. } => matrix.slots(slots),
            Weight::OnDevice { matrix, .. } => matrix.slots(slots),
        }
        if let Some(bias) = &mut self.bias {
            bias.push_frozen(slots);
        }
    }
}
