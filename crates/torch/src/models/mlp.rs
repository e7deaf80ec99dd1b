//! Feed-forward layers.

use crate::models::loader::Loader;
use crate::peft::Linear;
use crate::tape::Tensor;

/// The gated feed-forward layer.
pub(crate) struct Mlp<'t> {
    /// Gate and up; in Phi-3 the two in one.
    inner: Vec<Linear<'t>>,
    down: Linear<'t>,
}

impl<'t> Mlp<'t> {
    pub(crate) fn load(loader: &mut Loader<'t, '_>) -> Self {
        let inner = match loader.has("mlp.gate_up_proj") {
            true => vec![loader.linear("mlp.gate_up_proj")],
            false => ["mlp.gate_proj", "mlp.up_proj"].map(|path| loader.linear(path)).into(),
        };
        Self {
            inner,
            down: loader.linear("mlp.down_proj"),
        }
    }

    pub(crate) fn linears(&mut self) -> impl Iterator<Item = &mut Linear<'t>> {
        self.inner.iter_mut().chain([&mut self.down])
    }

    pub(crate) fn forward(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        match &self.inner[..] {
            [gate, up] => {
                let gate = gate.forward(hidden);
                let activated = gate.activated();
                drop(gate);
                let up = up.forward(hidden);
                let product = activated.mul(&up);
                drop((activated, up));
                self.down.forward(&product)
            }
            fused => {
                let both = fused[0].forward(hidden);
                let [gate, up] = both.halves();
                let activated = gate.activated();
                let product = up.mul(&activated);
                drop((both, up, activated));
                let output = self.down.forward(&product);
                drop(gate);
                output
            }
        }
    }
}

impl<'t> Tensor<'t> {
    /// SiLU, which is a module of its own.
    fn activated(&self) -> Self {
        self.tape.in_container(None, self.requires_grad(), || self.silu())
    }
}
