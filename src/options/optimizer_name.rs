//! The optimizers by name: the stacks that have each, and the keys that it heeds.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Stack;

/// The facts of an optimizer.
struct Facts {
    stacks: &'static [Stack],
    /// The keys that it heeds, of those that only some optimizers do.
    keys: &'static [&'static str],
    /// `adam_beta2` by default.
    beta2: f64,
}

/// AdamW on PyTorch's stack.
const ADAMW: Facts = Facts {
    stacks: &[Stack::Torch],
    keys: &["adam_beta1", "adam_beta2", "adam_epsilon"],
    beta2: 0.999,
};

macro_rules! optimizers {
    ($($(#[$doc:meta])* $variant:ident = $name:literal: $facts:expr;)+) => {
        /// The optimizer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[schemars(transform = mark)]
        pub enum Optimizer {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl Optimizer {
            /// Every optimizer.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in specs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            const fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$variant => const { &$facts },)+
                }
            }
        }
    };
}

optimizers! {
    /// AdamW (Loshchilov & Hutter 2019).
    Adamw = "adamw": Facts { stacks: &[Stack::Candle, Stack::Torch], ..ADAMW };
    /// Adam in a basis of the gradient's leading singular vectors on its shorter side (GaLore; Zhao et al. 2024).
    Galore = "galore": Facts {
        stacks: &[Stack::Candle],
        keys: &["adam_beta1", "adam_beta2", "adam_epsilon", "optim_rank", "update_proj_gap", "galore_scale"],
        ..ADAMW
    };
    /// Adam in a basis of the gradient's leading left singular vectors, found by randomised SVD.
    Rsvd = "rsvd": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        keys: &["adam_beta1", "adam_beta2", "adam_epsilon", "optim_rank", "update_proj_gap"],
        ..ADAMW
    };
    /// The sign of a momentum, which is its only state (Chen et al. 2023). PyTorch's stack has bitsandbytes' with a state
    /// of 32 bits.
    Lion = "lion": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        keys: &["adam_beta1", "adam_beta2"],
        beta2: 0.99,
    };
    /// PyTorch's AdamW in one kernel.
    AdamwTorchFused = "adamw_torch_fused": ADAMW;
    /// Stochastic gradient descent without momentum.
    Sgd = "sgd": Facts { keys: &[], ..ADAMW };
    /// bitsandbytes' AdamW with states of 8 bits.
    Adamw8bit = "adamw_8bit": ADAMW;
    /// bitsandbytes' AdamW with states of 32 bits in managed memory.
    PagedAdamw32bit = "paged_adamw_32bit": ADAMW;
    /// bitsandbytes' AdamW with states of 8 bits in managed memory.
    PagedAdamw8bit = "paged_adamw_8bit": ADAMW;
}

impl Optimizer {
    /// The optimizers of a stack.
    pub fn of(stack: Stack) -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(move |optimizer| optimizer.facts().stacks.contains(&stack))
    }

    /// The optimizer of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|optimizer| optimizer.name() == name)
    }

    /// The keys that only some optimizers heed, each once.
    pub fn own_keys() -> Vec<&'static str> {
        let all = Self::ALL.iter().flat_map(|optimizer| optimizer.facts().keys);
        let mut keys: Vec<_> = all.copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The optimizers that a key of [`Self::own_keys`] is for; none for other keys.
    pub fn with_key(key: &str) -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(move |optimizer| optimizer.facts().keys.contains(&key))
    }

    /// False for a key that is for other optimizers only.
    pub fn heeds(self, key: &str) -> bool {
        self.facts().keys.contains(&key) || Self::with_key(key).next().is_none()
    }

    /// The default of `adam_beta2`.
    pub fn default_beta2(self) -> f64 {
        self.facts().beta2
    }
}

/// Writes the stacks of each optimizer into the schema, as `x-stacks`.
fn mark(schema: &mut Schema) {
    let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten() {
        let named = |optimizer: &&Optimizer| choice["const"] == optimizer.name();
        if let Some(optimizer) = Optimizer::ALL.iter().find(named) {
            choice["x-stacks"] = serde_json::json!(optimizer.facts().stacks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_the_stacks_of_every_optimizer() {
        let schema = schemars::schema_for!(Optimizer).to_value();
        let choices = schema["oneOf"].as_array().unwrap();
        assert_eq!(choices.len(), Optimizer::ALL.len());
        for (choice, optimizer) in choices.iter().zip(Optimizer::ALL) {
            assert_eq!(choice["const"], optimizer.name());
            let stacks: Vec<Stack> = serde_json::from_value(choice["x-stacks"].clone()).unwrap();
            assert_eq!(stacks, optimizer.facts().stacks, "{optimizer:?}");
        }
    }

    #[test]
    fn a_key_is_heeded_by_the_optimizers_that_name_it() {
        assert_eq!(
            Optimizer::with_key("galore_scale").collect::<Vec<_>>(),
            [Optimizer::Galore]
        );
        assert!(Optimizer::Lion.heeds("adam_beta1") && !Optimizer::Lion.heeds("adam_epsilon"));
        assert!(Optimizer::own_keys().contains(&"optim_rank") && Optimizer::Sgd.heeds("weight_decay"));
    }
}
