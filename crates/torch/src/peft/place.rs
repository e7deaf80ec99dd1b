//! Where an adapter is put.

use arch::ModelConfig;
use options::AdapterOptions;

use super::base::BaseLayer;
use crate::dtype::Dtype;
use crate::tape::{Tape, Tensor};
use crate::versions::Peft;

/// A linear layer that gets an adapter.
pub(crate) struct Place<'p, 't> {
    pub tape: &'t Tape,
    pub options: &'p AdapterOptions,
    pub model: &'p ModelConfig,
    pub layer: &'p mut BaseLayer<'t>,
    /// The layer's name in full.
    pub name: &'p str,
    /// The format of the adapter.
    pub dtype: Dtype,
    /// The format that it has until all adapters are there.
    pub start: Dtype,
    /// The release of PEFT.
    pub release: Peft,
    /// Who trains and saves its tensors.
    pub register: &'p mut dyn Register<'t>,
}

/// Takes the tensors of adapters.
pub(crate) trait Register<'t> {
    /// Has the optimizer update a tensor, which is this part of the layer's adapter.
    fn train(&mut self, part: &'static str, tensor: Tensor<'t>) -> Tensor<'t>;

    /// Has a tensor's gradient computed, which the optimizer does not heed.
    fn leave_unstepped(&mut self, tensor: Tensor<'t>) -> Tensor<'t>;

    /// Has a tensor saved as this part of the layer's adapter.
    fn save(&mut self, part: &'static str, tensor: &Tensor<'t>);

    /// Has a tensor saved that belongs to no layer.
    fn save_shared(&mut self, part: &'static str, tensor: &Tensor<'t>);

    /// The factors that all layers share, once there are some.
    fn shared(&mut self) -> &mut Option<[Tensor<'t>; 2]>;
}

impl<'t> Place<'_, 't> {
    /// Outputs and inputs of the layer.
    pub(super) fn dims(&self) -> [u32; 2] {
        self.layer.dims
    }

    /// The rank of the layer's adapter.
    pub(super) fn rank(&self) -> u32 {
        self.options.rank_of(self.name) as u32
    }

    /// A tensor of the adapter.
    pub(super) fn factor(&self, dims: &[u32]) -> Tensor<'t> {
        self.tape.factor(dims, self.dtype, self.start)
    }

    /// A tensor of the adapter that is trained and saved as this part.
    pub(super) fn train(&mut self, part: &'static str, tensor: Tensor<'t>) -> Tensor<'t> {
        let leaf = self.register.train(part, tensor);
        self.register.save(part, &leaf);
        leaf
    }
}
