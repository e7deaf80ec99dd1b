//! Feed-forward layers.

use crate::plan::torch::config::{Family, ModelConfig};
use crate::plan::torch::models::loader::Loader;
use crate::plan::torch::peft::Linear;
use crate::plan::torch::tensor::Tensor;

/// The gated feed-forward layer; Phi-3 has its first two projections in one.
pub(in crate::plan::torch) enum Mlp<'t> {
    Separate {
        gate: Linear<'t>,
        up: Linear<'t>,
        down: Linear<'t>,
    },
    Fused {
        gate_up: Linear<'t>,
        down: Linear<'t>,
    },
}

impl<'t> Mlp<'t> {
    pub(in crate::plan::torch) fn load(loader: &mut Loader<'t, '_>, config: &ModelConfig) -> Self {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let bias = config.mlp_bias;
        if config.family == Family::Phi3 {
            return Self::Fused {
                gate_up: loader.linear("gate_up_proj", [2 * inner, hidden], false),
                down: loader.linear("down_proj", [hidden, inner], false),
            };
        }
        Self::Separate {
            gate: loader.linear("gate_proj", [inner, hidden], bias),
            up: loader.linear("up_proj", [inner, hidden], bias),
            down: loader.linear("down_proj", [hidden, inner], bias),
        }
    }

    pub(in crate::plan::torch) fn linears(&mut self) -> impl Iterator<Item = &mut Linear<'t>> {
        let list = match self {
            Self::Separate { gate, up, down } => [Some(gate), Some(up), Some(down)],
            Self::Fused { gate_up, down } => [Some(gate_up), Some(down), None],
        };
        list.into_iter().flatten()
    }

    pub(in crate::plan::torch) fn forward(&self, hidden: &Tensor<'t>) -> Tensor<'t> {
        match self {
            Self::Separate { gate, up, down } => {
                let gate = gate.forward(hidden);
                let activated = gate.silu();
                drop(gate);
                let up = up.forward(hidden);
                let inner = activated.mul(&up);
                drop((activated, up));
                down.forward(&inner)
            }
            Self::Fused { gate_up, down } => {
                let up_states = gate_up.forward(hidden);
                let [gate, up] = up_states.halves();
                let activated = gate.silu();
                let product = up.mul(&activated);
                drop((up_states, up, activated));
                let output = down.forward(&product);
                drop(gate);
                output
            }
        }
    }
}
