//! LoRA (Hu et al. 2021, arXiv:2106.09685): the low-rank term alone, with `scale = alpha / r`, or `alpha / √r` by rsLoRA
//! (Kalajdzievski 2023, arXiv:2312.03732). LoRA-FA (Zhang et al. 2023, arXiv:2308.03303) freezes A; LoRA+ (Hayou et al.
//! 2024, arXiv:2402.12354) trains B with a higher learning rate.

use super::{interface::Adapter, low_rank::LowRank};
use crate::nn::param::Param;

/// LoRA's adapter of a linear layer.
#[derive(Debug)]
pub struct Lora(pub LowRank);

impl Adapter for Lora {
    fn low_rank(&self) -> Option<&LowRank> {
        Some(&self.0)
    }

    fn low_rank_mut(&mut self) -> Option<&mut LowRank> {
        Some(&mut self.0)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.0.params(params);
    }
}
