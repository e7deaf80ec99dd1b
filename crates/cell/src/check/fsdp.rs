//! What FSDP can share, and what it is planned with.

use options::invalid::{Invalid, at_least};
use options::{AdapterMethod, AutoWrapPolicy, Bias, LoraATraining, ShardingStrategy, ZeroGrad};

use super::super::{Adapter, Cell, Checkpointing, Distributed, Dtype, FsdpConfig, Optimizer, Task, Upcast};
use super::found::Found;

const OR_DDP: &str = "use `distributed: ddp`, or leave the key out";

impl Cell {
    /// True if FSDP shares the model among processes.
    pub fn is_fsdp(&self) -> bool {
        self.world_size > 1 && self.distributed == Distributed::Fsdp
    }

    pub(super) fn check_fsdp(&self, found: &mut Found) {
        if !self.is_fsdp() {
            return;
        }
        let fsdp = &self.fsdp_config;
        found.check(at_least("fsdp_config.num_machines", fsdp.num_machines, 1));
        self.check_version(fsdp, found);
        self.check_machines(fsdp, found);
        if fsdp.activation_checkpointing.is_some() && self.gradient_checkpointing == Checkpointing::None {
            let invalid = Invalid::idle("fsdp_config.activation_checkpointing", "no block is checkpointed");
            let invalid = invalid.with("gradient_checkpointing");
            found.add(invalid.help("leave the key out, or use `gradient_checkpointing: full`"));
        }
        self.check_shared_weights(found);
        self.check_shared_adapters(found);
        if self.task == Task::SequenceClassification {
            let invalid = Invalid::new("task", "FSDP is not planned with encoders yet");
            found.add(invalid.with("distributed").help(OR_DDP));
        }
        if self.torch.zero_grad == ZeroGrad::Never {
            let invalid = Invalid::new(
                "torch.zero_grad",
                "gradients that are filled with zeros are not planned under FSDP yet",
            );
            found.add(invalid.with("distributed").help("leave the key out"));
        }
        if self.torch.device_map.is_some() {
            let invalid = Invalid::idle("torch.device_map", "the CPU loads what FSDP shares");
            found.add(invalid.with("distributed").help("leave the key out"));
        }
        if self.optim.is_8bit() && self.method().is_none() {
            let message = "FSDP is not planned with an optimizer of 8 bits over embeddings: nobody has looked at how many bits \
                           their states have";
            let invalid = Invalid::new("optim", message).with("distributed").with("rank");
            found.add(invalid.help("use `optim: adamw`, or train adapters alone"));
        }
        let is_alone = self.world_size == fsdp.num_machines && fsdp.sharding_strategy.is_hybrid();
        if fsdp.offload_params && (is_alone || fsdp.sharding_strategy == ShardingStrategy::NoShard) {
            let invalid = Invalid::new(
                "fsdp_config.offload_params",
                "FSDP is planned with the CPU where something is shared",
            );
            found.add(
                invalid
                    .with("fsdp_config.sharding_strategy")
                    .help("use `sharding_strategy: full_shard`"),
            );
        }
        self.check_units(fsdp, found);
        if self.torch.generation.is_some() {
            let invalid = Invalid::new(
                "torch.generation",
                "how a model generates under FSDP is not planned yet",
            );
            found.add(invalid.with("distributed").help(OR_DDP));
        }
        if fsdp.offload_params && self.optim.is_from_bitsandbytes() {
            let invalid = Invalid::new(
                "optim",
                "bitsandbytes' optimizers are planned on a GPU, and shards are on the CPU",
            );
            found.add(invalid.with("fsdp_config.offload_params").help("use `optim: adamw`"));
        }
        if self.optim == Optimizer::Rsvd {
            let invalid = Invalid::new("optim", "FSDP shares matrices, and rsvd projects whole ones");
            found.add(invalid.with("distributed").help("use `optim: adamw`"));
        }
    }

    /// Each version has options of its own.
    fn check_version(&self, fsdp: &FsdpConfig, found: &mut Found) {
        let default = FsdpConfig::default();
        let of_other = |key: &str, is_set: bool| {
            let key = format!("fsdp_config.{key}");
            is_set.then(|| {
                let message = format!("FSDP{} has no such option", fsdp.version);
                Invalid::idle(key, message).with("fsdp_config.version")
            })
        };
        match fsdp.version {
            1 => {
                let is_set = fsdp.reshard_after_forward.is_some();
                let invalid = of_other("reshard_after_forward", is_set);
                let help = "use `sharding_strategy: shard_grad_op` for `reshard_after_forward: false`";
                invalid.into_iter().for_each(|invalid| found.add(invalid.help(help)));
            }
            2 => {
                for (key, is_set, help) in [
                    (
                        "sharding_strategy",
                        fsdp.sharding_strategy != default.sharding_strategy,
                        "use `reshard_after_forward: false` for `shard_grad_op`; hybrid sharding is planned of FSDP1 alone",
                    ),
                    (
                        "auto_wrap_policy",
                        fsdp.auto_wrap_policy != default.auto_wrap_policy,
                        "leave the key out: FSDP2 is planned with blocks as units",
                    ),
                    (
                        "backward_prefetch",
                        fsdp.backward_prefetch != default.backward_prefetch,
                        "leave the key out: the next unit is always gathered early",
                    ),
                    (
                        "forward_prefetch",
                        fsdp.forward_prefetch != default.forward_prefetch,
                        "leave the key out",
                    ),
                    (
                        "limit_all_gathers",
                        fsdp.limit_all_gathers != default.limit_all_gathers,
                        "leave the key out: streams wait for each other",
                    ),
                    (
                        "use_orig_params",
                        fsdp.use_orig_params != default.use_orig_params,
                        "leave the key out: the optimizer always has parts of each parameter",
                    ),
                ] {
                    let invalid = of_other(key, is_set);
                    invalid.into_iter().for_each(|invalid| found.add(invalid.help(help)));
                }
            }
            other => {
                let invalid = Invalid::new("fsdp_config.version", format!("there is no FSDP{other}"));
                found.add(invalid.help("use 1 or 2"));
            }
        }
    }

    /// One unit has no next, and one that is whole is not gathered.
    fn check_units(&self, fsdp: &FsdpConfig, found: &mut Found) {
        let default = FsdpConfig::default();
        let (by, message) = if fsdp.auto_wrap_policy == AutoWrapPolicy::NoWrap {
            ("fsdp_config.auto_wrap_policy", "the model is one unit")
        } else if fsdp.sharding_strategy == ShardingStrategy::NoShard {
            ("fsdp_config.sharding_strategy", "no unit is gathered")
        } else {
            return;
        };
        for (key, is_set) in [
            ("backward_prefetch", fsdp.backward_prefetch != default.backward_prefetch),
            ("forward_prefetch", fsdp.forward_prefetch),
            ("limit_all_gathers", !fsdp.limit_all_gathers),
        ] {
            if is_set {
                let invalid = Invalid::idle(format!("fsdp_config.{key}"), message);
                found.add(invalid.with(by).help("leave the key out"));
            }
        }
    }

    fn check_machines(&self, fsdp: &FsdpConfig, found: &mut Found) {
        let (machines, key) = (fsdp.num_machines, "fsdp_config.num_machines");
        if machines > 1 && !fsdp.sharding_strategy.is_hybrid() {
            let message = "all GPUs share the model, whatever machine they are in";
            let invalid = Invalid::idle(key, message).with("fsdp_config.sharding_strategy");
            found.add(invalid.help("leave the key out, or use `sharding_strategy: hybrid_shard`"));
        } else if machines > 1 && !self.world_size.is_multiple_of(machines) {
            let message = format!(
                "{} processes cannot be shared out among {machines} machines evenly",
                self.world_size
            );
            found.add(
                Invalid::new(key, message)
                    .with("world_size")
                    .help("use a divisor of `world_size`"),
            );
        }
    }

    /// The flat tensor of a unit has one format.
    fn check_shared_weights(&self, found: &mut Found) {
        match self.dtype {
            Dtype::Int8 => {
                let message = "FSDP cannot share int8 weights of bitsandbytes, whose scales lie beside them";
                let invalid = Invalid::new("dtype", message).with("distributed");
                found.add(invalid.help("use `dtype: int4` or `bfloat16`"));
            }
            Dtype::Int4 if self.upcast != Upcast::None => {
                let message = "FSDP flattens weights of one format, and these leave float32 beside int4";
                let invalid = Invalid::new("upcast", message).with("distributed").with("dtype");
                found.add(invalid.help("leave the key out: TRL does not cast where FSDP shares int4"));
            }
            _ => {}
        }
        if self.trainable.is_some() && self.method().is_none() && !self.fsdp_config.use_orig_params {
            let message = "FSDP flattens what is trained and what is not together only with `use_orig_params`";
            let invalid = Invalid::new("fsdp_config.use_orig_params", message).with("trainable");
            found.add(invalid.help("leave the key out"));
        }
    }

    fn check_shared_adapters(&self, found: &mut Found) {
        let Some(method) = self.method() else { return };
        let not_yet = |key: &str, message: &str| Invalid::new(key, message).with("distributed").help(OR_DDP);
        if method != Adapter::Lora {
            let message = format!(
                "FSDP is planned with LoRA and without adapters, and with {} not yet",
                method.name()
            );
            found.add(not_yet("adapter", &message));
        }
        if self.fsdp_config.auto_wrap_policy == AutoWrapPolicy::NoWrap {
            let message = "transformers' Trainer wraps a model with LoRA by PEFT's policy: blocks, and each factor";
            let invalid = Invalid::idle("fsdp_config.auto_wrap_policy", message).with("adapter");
            found.add(invalid.help("leave the key out"));
        }
        if self.modules_to_save.is_some() {
            found.add(not_yet(
                "modules_to_save",
                "FSDP is not planned with modules that are trained whole yet",
            ));
        }
        if self.lora_fa != LoraATraining::Trained {
            found.add(not_yet(
                "lora_fa",
                "FSDP is planned with adapters whose factors are both trained",
            ));
        }
        let Some(AdapterMethod::Lora(lora)) = self.model_options().adapter.map(|adapter| adapter.method) else {
            return;
        };
        if lora.bias != Bias::None {
            found.add(not_yet("lora.bias", "FSDP is not planned with trained biases yet"));
        }
        if lora.init_lora_weights.changes_weight() {
            let message = "FSDP is not planned with factors that are taken out of the weights yet";
            found.add(not_yet("lora.init_lora_weights", message));
        }
        if lora.loraplus_lr_ratio() != 1.0 && !self.fsdp_config.use_orig_params {
            let message = "LoRA+ has groups of parameters, and the optimizer has flat shards";
            let invalid = Invalid::new("lora.loraplus_lr_ratio", message).with("fsdp_config.use_orig_params");
            found.add(invalid.help("use `use_orig_params: true`"));
        }
    }
}
