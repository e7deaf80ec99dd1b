//! What is known of a key, whatever a cell has there. The facts of a key stand beside its field, in `cell_keys!`.

use options::{
    Adapter, Attention, Autocast, Distributed, Dtype, Engine, LrScheduler, Measure, Optimizer, Stack, Task, Upcast,
};

use super::acts::Act;

/// For [`Facts::stacks`]: our trainer alone heeds the key.
pub(super) const CANDLE: &[Stack] = &[Stack::Candle];
/// PyTorch's stack alone heeds it.
pub(super) const TORCH: &[Stack] = &[Stack::Torch];

/// Declares the keys that decide which others a cell heeds.
macro_rules! deciding {
    ($($key:ident: $type:ty,)+) => {
        /// The part of a cell that decides which of its keys it heeds.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Deciding {
            $(pub(super) $key: $type,)+
        }

        impl Deciding {
            /// The keys.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];
        }
    };
}

deciding! {
    stack: Stack,
    engine: Option<Engine>,
    task: Task,
    measure: Measure,
    packing: bool,
    dtype: Dtype,
    upcast: Upcast,
    autocast: Autocast,
    attn_implementation: Attention,
    rank: usize,
    optim: Optimizer,
    lr_scheduler_type: LrScheduler,
    adapter: Adapter,
    world_size: usize,
    distributed: Distributed,
}

impl Deciding {
    /// The method of the adapters; `None` if the model's own weights are trained.
    pub fn method(&self) -> Option<Adapter> {
        (self.rank > 0).then_some(self.adapter)
    }

    /// True for a decoder without a key-value cache before each sequence already.
    pub(super) fn may_cache(&self) -> bool {
        self.task == Task::CausalLm && !self.method().is_some_and(Adapter::is_cached)
    }
}

/// What is known of a key.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The stacks that heed it and what is below it. A key of the other must have its default.
    pub stacks: &'static [Stack],
    /// Whether a cell heeds it, and what is below it, for all that its stack, method and optimizer say.
    pub heeded: fn(&Deciding) -> bool,
    /// What is wrong with a value of it in a cell that does not heed it, if that is all there is to say.
    pub idle: Option<Idle>,
    /// True if it says something of our process and nothing of what is trained.
    pub of_process: bool,
    /// True if it is one of adapters that every method has.
    pub of_adapters: bool,
    /// Its names in other programs.
    pub aliases: &'static [&'static str],
    /// A value of a key that may be left out, or whose value has several forms: the one that shows its column's type.
    pub example: Option<&'static str>,
    /// Why it is no technique to save memory: it saves none worth a search, or its change is another experiment.
    pub no_technique: Option<&'static str>,
    /// True if it is a fact of training, so that no plan of PyTorch's stack moves by it.
    pub of_training: bool,
    /// Why no test tries it.
    pub untried: Option<&'static str>,
    /// Changes that show what it does, in each stack that heeds it.
    pub acts: &'static [Act],
    /// The keys of its map, with dotted names for those of maps in it; `*` stands for any name.
    pub nested: &'static [(&'static str, Self)],
}

/// Why a key has no effect in some cells.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The key that decides it.
    pub by: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// What to do other than to leave the key out.
    pub or: Option<&'static str>,
}

impl Idle {
    pub(super) const fn by(by: &'static str, reason: &'static str) -> Self {
        Self { by, reason, or: None }
    }

    pub(super) const fn or(self, other: &'static str) -> Self {
        Self {
            or: Some(other),
            ..self
        }
    }
}

/// Of keys of a process that trains.
pub(super) const NO_ENGINE: Idle = Idle::by(
    "stack",
    "a cell of `stack: torch` is planned alone, unless `engine` runs it",
)
.or("write `engine: python`");

/// Of keys that say how samples are packed.
pub(super) const UNPACKED: Idle = Idle::by("packing", "does nothing without packing").or("write `packing: true`");

/// Of a warm-up.
pub(super) const NO_WARMUP: Idle = Idle::by("lr_scheduler_type", "`constant` has no warm-up, as in transformers")
    .or("write `lr_scheduler_type: constant_with_warmup`");

impl Facts {
    /// A key of which nothing is known: both stacks heed it, always.
    pub const NONE: Self = Self {
        stacks: &[Stack::Candle, Stack::Torch],
        heeded: |_| true,
        idle: None,
        of_process: false,
        of_adapters: false,
        aliases: &[],
        example: None,
        no_technique: None,
        of_training: false,
        untried: None,
        acts: &[],
        nested: &[],
    };

    /// A key of which only these changes are known.
    pub(super) const fn acting(acts: &'static [Act]) -> Self {
        Self { acts, ..Self::NONE }
    }

    pub(super) const fn example(self, example: &'static str) -> Self {
        Self {
            example: Some(example),
            ..self
        }
    }

    pub(super) const fn of_training(self) -> Self {
        Self {
            of_training: true,
            ..self
        }
    }
}
