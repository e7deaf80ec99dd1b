//! What the engine of a cell can run.

use options::invalid::Invalid;
use options::{Distributed, Engine, Loss, LossScaling, Optimizer, PackingStrategy, ShardingStrategy};

use super::super::{Cell, Stack};
use super::found::Found;

impl Cell {
    pub(super) fn check_engine(&self, found: &mut Found) {
        if let Some(engine) = self.engine.filter(|engine| engine.stack() != self.stack) {
            let (engine, stack) = (engine.name(), engine.stack().name());
            let message = format!("{engine} runs cells of `stack: {stack}`");
            let invalid = Invalid::new("engine", message).with("stack");
            found.add(invalid.help("leave one of them out"));
        }
        if self.engine() == Some(Engine::Python) && self.stack == Stack::Torch {
            self.check_python(found);
        }
    }

    /// What the worker in Python does not do, though it is planned.
    fn check_python(&self, found: &mut Found) {
        let shares = self.world_size > 1 && self.distributed == Distributed::Fsdp;
        let strategy = self.fsdp_config.sharding_strategy;
        let is_hybrid = shares
            && matches!(
                strategy,
                ShardingStrategy::HybridShard | ShardingStrategy::HybridShardZero2
            );
        let computes = matches!(self.loss(), Loss::Full | Loss::Liger);
        let limits = [
            (
                self.is_deepspeed(),
                "distributed",
                "the Python engine trains with `ddp` and `fsdp` so far",
            ),
            (
                shares && self.dtype.is_quantised(),
                "dtype",
                "the Python engine shares weights that are not quantised so far",
            ),
            (
                shares && self.torch.generation.is_some(),
                "torch.generation",
                "the Python engine generates with whole models so far",
            ),
            (
                shares && self.fsdp_config.activation_checkpointing.is_some(),
                "fsdp_config.activation_checkpointing",
                "the Python engine checkpoints as transformers does",
            ),
            (
                is_hybrid,
                "fsdp_config.sharding_strategy",
                "the Python engine runs on one machine, within which nothing is hybrid",
            ),
            (
                shares && self.loss_scaling() == LossScaling::Dynamic,
                "loss_scaling",
                "the Python engine scales no loss under FSDP so far",
            ),
            (
                !computes,
                "loss",
                "the Python engine computes `full` and `liger` so far",
            ),
            (self.optim == Optimizer::Rsvd, "optim", "no package of Python has it"),
            (
                self.packing && self.torch.packing_strategy == PackingStrategy::Wrapped,
                "torch.packing_strategy",
                "the Python engine keeps packed samples apart, as `bfd` does",
            ),
            (
                self.prompt_tuning.init_text.is_some(),
                "prompt_tuning.init_text",
                "the Python engine starts virtual tokens at random so far",
            ),
        ];
        for (key, message) in limits
            .into_iter()
            .filter_map(|(is_met, key, message)| is_met.then_some((key, message)))
        {
            let invalid = Invalid::new(key, message).with("engine");
            found.add(invalid.help("use another value, or leave `engine` out for a plan"));
        }
    }
}
