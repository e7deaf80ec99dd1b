//! The interface of an adapter.

use std::fmt::Debug;

use super::low_rank::LowRank;
use crate::nn::param::Param;

/// What an adapter does to a linear layer over a frozen weight: it adds a term to the product.
pub trait Adapter: Debug + Send {
    /// The term that is added.
    fn low_rank(&self) -> &LowRank;

    /// The same, for its gradients.
    fn low_rank_mut(&mut self) -> &mut LowRank;

    /// What is trained, in a fixed order.
    fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>);
}
