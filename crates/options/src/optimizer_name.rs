//! The optimizers by name: the stacks that have each, the keys that it heeds, and the state that it keeps.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Stack;

/// Elements of the least parameter with 8-bit states (bitsandbytes' `min_8bit_size`).
const MIN_8BIT_SIZE: usize = 4096;

/// True if an optimizer of 8 bits has states of 8 bits for a parameter of so many elements, and not of 32. An embedding
/// has none where transformers' Trainer makes the optimizer: it registers each `nn.Embedding` with bitsandbytes.
pub const fn has_8bit_states(elements: usize, is_embedding: bool) -> bool {
    elements >= MIN_8BIT_SIZE && !is_embedding
}

/// The rule that makes a step of a gradient, whatever the format of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateRule {
    /// AdamW's two moments.
    Adam,
    /// Adam's moments in a low-rank basis.
    LowRankAdam,
    /// The sign of a momentum.
    Lion,
    /// The gradient.
    Sgd,
    /// Adafactor's sums over rows and columns.
    Adafactor,
}

/// The state that an optimizer keeps for a trained weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Adam's moments are 2. Factors of matrices are not counted.
    numbers: u32,
    /// Bits of a number; none if it has the weight's format.
    bits: Option<u32>,
    /// True in managed memory, which the driver moves between GPU and host.
    is_paged: bool,
}

impl State {
    const fn new(numbers: u32, bits: u32) -> Self {
        Self {
            numbers,
            bits: Some(bits),
            is_paged: false,
        }
    }

    const fn paged(self) -> Self {
        Self { is_paged: true, ..self }
    }
}

/// The facts of an optimizer.
struct Facts {
    stacks: &'static [Stack],
    /// The keys that it heeds, of those that only some optimizers do.
    keys: &'static [&'static str],
    /// `adam_beta2` by default.
    beta2: f64,
    rule: UpdateRule,
    state: State,
}

/// AdamW on PyTorch's stack.
const ADAMW: Facts = Facts {
    stacks: &[Stack::Torch],
    keys: &["adam_beta1", "adam_beta2", "adam_epsilon"],
    beta2: 0.999,
    rule: UpdateRule::Adam,
    state: State {
        numbers: 2,
        bits: None,
        is_paged: false,
    },
};

/// bitsandbytes' Lion.
const LION: Facts = Facts {
    keys: &["adam_beta1", "adam_beta2"],
    beta2: 0.99,
    rule: UpdateRule::Lion,
    state: State::new(1, 32),
    ..ADAMW
};

/// Optimizers without a number for each weight.
const STATELESS: Facts = Facts {
    keys: &[],
    state: State {
        numbers: 0,
        ..ADAMW.state
    },
    ..ADAMW
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
    /// AdamW (Loshchilov & Hutter 2019). PyTorch's stack has PyTorch's, over all weights at once.
    Adamw = "adamw": Facts { stacks: &[Stack::Candle, Stack::Torch], ..ADAMW };
    /// Adam in a basis of the gradient's leading singular vectors on its shorter side (GaLore; Zhao et al. 2024).
    Galore = "galore": Facts {
        stacks: &[Stack::Candle],
        keys: &["adam_beta1", "adam_beta2", "adam_epsilon", "optim_rank", "update_proj_gap", "galore_scale"],
        rule: UpdateRule::LowRankAdam,
        ..STATELESS
    };
    /// Adam in a basis of the gradient's leading left singular vectors, found by randomised SVD.
    Rsvd = "rsvd": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        keys: &["adam_beta1", "adam_beta2", "adam_epsilon", "optim_rank", "update_proj_gap"],
        rule: UpdateRule::LowRankAdam,
        ..STATELESS
    };
    /// The sign of a momentum, which is its only state (Chen et al. 2023). PyTorch's stack has bitsandbytes' with a state
    /// of 32 bits.
    Lion = "lion": Facts { stacks: &[Stack::Candle, Stack::Torch], ..LION };
    /// PyTorch's AdamW in one kernel: the default of transformers' Trainer.
    AdamwTorchFused = "adamw_torch_fused": ADAMW;
    /// AdamW of transformers before 5.0, which steps one weight after the other.
    AdamwHf = "adamw_hf": ADAMW;
    /// Stochastic gradient descent without momentum.
    Sgd = "sgd": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        rule: UpdateRule::Sgd,
        ..STATELESS
    };
    /// transformers' Adafactor (Shazeer & Stern 2018): of the second moment, the sums over rows and columns in float32.
    Adafactor = "adafactor": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        rule: UpdateRule::Adafactor,
        ..STATELESS
    };
    /// bitsandbytes' AdamW with states of 8 bits, and of 32 for embeddings and small weights.
    Adamw8bit = "adamw_8bit": Facts {
        stacks: &[Stack::Candle, Stack::Torch],
        state: State::new(2, 8),
        ..ADAMW
    };
    /// bitsandbytes' AdamW with states of 32 bits in managed memory.
    PagedAdamw32bit = "paged_adamw_32bit": Facts { state: State::new(2, 32).paged(), ..ADAMW };
    /// bitsandbytes' AdamW with states of 8 bits in managed memory.
    PagedAdamw8bit = "paged_adamw_8bit": Facts { state: State::new(2, 8).paged(), ..ADAMW };
    /// bitsandbytes' Lion with a state of 8 bits.
    Lion8bit = "lion_8bit": Facts { state: State::new(1, 8), ..LION };
    /// bitsandbytes' Lion with a state of 32 bits in managed memory.
    PagedLion32bit = "paged_lion_32bit": Facts { state: LION.state.paged(), ..LION };
    /// bitsandbytes' Lion with a state of 8 bits in managed memory.
    PagedLion8bit = "paged_lion_8bit": Facts { state: State::new(1, 8).paged(), ..LION };
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

    /// The rule of its steps. Optimizers that share it differ in the format and the place of their state alone.
    pub fn update_rule(self) -> UpdateRule {
        self.facts().rule
    }

    /// Numbers that its state has for each trained weight: 2 for Adam's moments. 0 if it has none, or factors of
    /// matrices.
    pub fn state_numbers(self) -> u32 {
        self.facts().state.numbers
    }

    /// Bits of its state for a trained weight of `weight_bits`, without the scales of 8-bit blocks (0.125 bits a
    /// number).
    pub fn state_bits(self, weight_bits: u32) -> u32 {
        self.state_numbers() * self.facts().state.bits.unwrap_or(weight_bits)
    }

    /// True if its states have 8 bits, except those of [small weights and embeddings](has_8bit_states).
    pub fn is_8bit(self) -> bool {
        self.facts().state.bits == Some(8)
    }

    /// True if PyTorch's stack takes it from bitsandbytes, whose states have formats of their own.
    pub fn is_from_bitsandbytes(self) -> bool {
        self.facts().state.bits.is_some()
    }

    /// True if its state is in managed memory, which the driver moves between GPU and host.
    pub fn is_paged(self) -> bool {
        self.facts().state.is_paged
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

    #[test]
    fn adams_states_are_ordered_by_their_bits() {
        let adams = Optimizer::of(Stack::Torch).filter(|optimizer| optimizer.update_rule() == UpdateRule::Adam);
        let mut bits: Vec<_> = adams
            .map(|optimizer| (optimizer.state_bits(32), optimizer.is_paged()))
            .collect();
        bits.sort_unstable();
        bits.dedup();
        assert_eq!(bits, [(16, false), (16, true), (64, false), (64, true)]);
        assert_eq!(Optimizer::Adamw.state_bits(16), 32);
        assert_eq!(Optimizer::PagedAdamw32bit.state_bits(16), 64);
        assert_eq!(Optimizer::Lion8bit.state_bits(32), 8);
        assert_eq!(Optimizer::Adafactor.state_bits(32), 0);
    }
}
