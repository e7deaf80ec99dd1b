//! What DeepSpeed's ZeRO can share, and what it is planned with.

use options::invalid::Invalid;
use options::{AdapterMethod, Elements, FloatDtype, OffloadDevice, Optimizer, ZeroGrad};

use super::super::{Adapter, Autocast, Cell, Distributed, Dtype, Task, Upcast, ZeroOptimization};
use super::found::Found;

const NOT_YET: &str = "use another `distributed`, or leave the key out";
const LEAVE_OUT: &str = "leave the key out";

/// A key that some stages have, and what is wrong with it in the others.
struct OfStages {
    key: &'static str,
    is_set: fn(&ZeroOptimization, &ZeroOptimization) -> bool,
    stages: &'static [usize],
    message: &'static str,
}

/// The keys that not all stages have.
const OF_STAGES: [OfStages; 10] = [
    OfStages {
        key: "zero_optimization.offload_param_device",
        is_set: |zero, _| zero.offload_param_device == OffloadDevice::Cpu,
        stages: &[3],
        message: "weights are shared with stage 3 alone, so that they stay on the GPU",
    },
    OfStages {
        key: "zero_optimization.round_robin_gradients",
        is_set: |zero, default| zero.round_robin_gradients != default.round_robin_gradients,
        stages: &[1, 2],
        message: "stage 3 shares each weight by itself",
    },
    OfStages {
        key: "zero_optimization.sub_group_size",
        is_set: |zero, default| zero.sub_group_size != default.sub_group_size,
        stages: &[3],
        message: "the optimizer of stages 1 and 2 steps all at once",
    },
    OfStages {
        key: "zero_optimization.stage3_prefetch_bucket_size",
        is_set: |zero, _| zero.stage3_prefetch_bucket_size.is_some(),
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.stage3_param_persistence_threshold",
        is_set: |zero, _| zero.stage3_param_persistence_threshold.is_some(),
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.stage3_model_persistence_threshold",
        is_set: |zero, _| zero.stage3_model_persistence_threshold.is_some(),
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.stage3_max_live_parameters",
        is_set: |zero, default| zero.stage3_max_live_parameters != default.stage3_max_live_parameters,
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.stage3_max_reuse_distance",
        is_set: |zero, default| zero.stage3_max_reuse_distance != default.stage3_max_reuse_distance,
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.memory_efficient_linear",
        is_set: |zero, default| zero.memory_efficient_linear != default.memory_efficient_linear,
        stages: &[3],
        message: NOT_GATHERED,
    },
    OfStages {
        key: "zero_optimization.zero3_init_flag",
        is_set: |zero, default| zero.zero3_init_flag != default.zero3_init_flag,
        stages: &[3],
        message: NOT_GATHERED,
    },
];

const NOT_GATHERED: &str = "weights are whole below stage 3, and none is gathered";

impl Cell {
    /// True if DeepSpeed trains the model.
    pub fn is_deepspeed(&self) -> bool {
        self.distributed == Distributed::Deepspeed
    }

    /// True if DeepSpeed shares the weights.
    pub fn shares_weights_by_zero(&self) -> bool {
        self.is_deepspeed() && self.zero_optimization.stage == 3
    }

    /// The format that DeepSpeed gives what is not quantised.
    pub fn float_dtype(&self) -> Dtype {
        match self.dtype.is_quantised() {
            true => self.bnb_4bit_compute_dtype.into(),
            false => self.dtype,
        }
    }

    pub(super) fn check_zero(&self, found: &mut Found) {
        if !self.is_deepspeed() {
            return;
        }
        let zero = &self.zero_optimization;
        check_stage(zero, found);
        check_offload(zero, found);
        check_sizes(zero, found);
        self.check_zero_formats(zero, found);
        self.check_zero_optimizer(zero, found);
        self.check_zero_model(zero, found);
        self.check_zero_loop(found);
    }

    /// DeepSpeed casts the model, so that nothing else does.
    fn check_zero_formats(&self, zero: &ZeroOptimization, found: &mut Found) {
        if self.autocast != Autocast::None {
            let name = match self.autocast {
                Autocast::Float16 => "float16",
                _ => "bfloat16",
            };
            let message = "DeepSpeed casts the model itself, and nothing is cast while it computes";
            let invalid = Invalid::new("autocast", message).with("distributed");
            let help = match self.dtype.is_quantised() {
                true => format!("leave the key out, and write `bnb_4bit_compute_dtype: {name}`"),
                false => {
                    format!(
                        "leave the key out, and write `dtype: {name}`, which is what the Trainer's bf16 or fp16 means here"
                    )
                }
            };
            found.add(invalid.help(help));
        }
        if self.upcast != Upcast::None {
            let message = "DeepSpeed casts to the format of the model what these would make float32";
            let invalid = Invalid::idle("upcast", message).with("distributed");
            found.add(invalid.help(LEAVE_OUT));
        }
        let is_bfloat16 = self.float_dtype() == Dtype::Bfloat16;
        for (key, is_set) in [
            ("bf16_master_weights_and_grads", zero.bf16_master_weights_and_grads),
            ("bf16_optimizer_states", zero.bf16_optimizer_states),
        ] {
            if is_set && !is_bfloat16 {
                let message = "an option of DeepSpeed's bf16, and the model has another format";
                let invalid = Invalid::new(format!("zero_optimization.{key}"), message).with("dtype");
                found.add(invalid.help("use `dtype: bfloat16`, or leave the key out"));
            }
        }
        let is_offloaded = zero.offload_optimizer_device == OffloadDevice::Cpu;
        if zero.bf16_optimizer_states && !zero.bf16_master_weights_and_grads {
            let message = "DeepSpeed has states in bfloat16 only of weights in bfloat16";
            let invalid = Invalid::new("zero_optimization.bf16_optimizer_states", message);
            let invalid = invalid.with("zero_optimization.bf16_master_weights_and_grads");
            found.add(invalid.help("use `bf16_master_weights_and_grads: true`, or leave the key out"));
        } else if zero.bf16_master_weights_and_grads && !zero.bf16_optimizer_states && !is_offloaded {
            let message = "DeepSpeed has float32 states of bfloat16 weights only where the CPU steps them";
            let invalid = Invalid::new("zero_optimization.bf16_master_weights_and_grads", message);
            let invalid = invalid.with("zero_optimization.bf16_optimizer_states");
            found.add(invalid.help("use `bf16_optimizer_states: true`, or `offload_optimizer_device: cpu`"));
        }
        if zero.stage == 1 && is_bfloat16 && zero.grad_accum_dtype == Some(FloatDtype::Float32) && !is_offloaded {
            let message = "DeepSpeed then has another optimizer (`BF16_Optimizer`), which is not planned yet";
            let invalid = Invalid::new("zero_optimization.grad_accum_dtype", message);
            let invalid = invalid.with("zero_optimization.stage").with("dtype");
            found.add(invalid.help("use `stage: 3`, or leave the key out"));
        } else if zero.stage < 3
            && zero
                .grad_accum_dtype
                .is_some_and(|dtype| Dtype::from(dtype) != self.float_dtype())
        {
            let message =
                "gradients that are added up in another format than the weights' are planned with stage 3 alone";
            let invalid = Invalid::new("zero_optimization.grad_accum_dtype", message);
            let invalid = invalid.with("zero_optimization.stage").with("dtype");
            found.add(invalid.help("use `stage: 3`, or leave the key out"));
        }
    }

    fn check_zero_optimizer(&self, zero: &ZeroOptimization, found: &mut Found) {
        if self.optim.is_8bit() || self.optim.is_paged() {
            let message = "ZeRO steps flat tensors, and is not planned with optimizers of bitsandbytes yet";
            let invalid = Invalid::new("optim", message).with("distributed");
            found.add(invalid.help("use `optim: adamw`"));
        }
        let projected = match self.optim {
            Optimizer::Rsvd => "ZeRO steps flat tensors, and rsvd projects matrices",
            Optimizer::Adafactor => "ZeRO steps flat tensors, and adafactor has sums over rows and columns",
            _ => "",
        };
        if !projected.is_empty() {
            let invalid = Invalid::new("optim", projected).with("distributed");
            found.add(invalid.help("use `optim: adamw`"));
        }
        if self.optim == Optimizer::Sgd && zero.offload_optimizer_device == OffloadDevice::Cpu {
            let message = "accelerate puts DeepSpeed's Adam in the place of SGD where the CPU steps";
            let invalid = Invalid::new("optim", message).with("zero_optimization.offload_optimizer_device");
            found.add(invalid.help("use `optim: adamw`"));
        }
    }

    fn check_zero_model(&self, zero: &ZeroOptimization, found: &mut Found) {
        let not_yet = |key: &str, message: &str| Invalid::new(key, message).with("distributed").help(NOT_YET);
        if self.task == Task::SequenceClassification {
            let invalid = Invalid::new("task", "DeepSpeed is not planned with encoders yet");
            found.add(invalid.with("distributed").help("use another `distributed`"));
        }
        if zero.stage != 3 {
            return;
        }
        const OR_STAGE: &str = "use `stage: 2`, or leave the key out";
        let stage3 = |key: &str, message: &str| {
            Invalid::new(key, message)
                .with("zero_optimization.stage")
                .help(OR_STAGE)
        };
        if self.dtype.is_quantised() {
            let message = "stage 3 of ZeRO is not planned with quantised weights yet";
            let invalid = Invalid::new("dtype", message).with("zero_optimization.stage");
            found.add(invalid.help("use `dtype: bfloat16`, or `zero_optimization: {stage: 2}`"));
        }
        if let Some(method) = self.method().filter(|method| *method != Adapter::Lora) {
            let message = format!(
                "stage 3 of ZeRO is planned with LoRA and without adapters, and with {} not yet",
                method.name()
            );
            found.add(stage3("adapter", &message));
        }
        if self.modules_to_save.is_some() {
            let message = "stage 3 of ZeRO is not planned with modules that are trained whole yet";
            found.add(stage3("modules_to_save", message));
        }
        if let Some(AdapterMethod::Lora(lora)) = self.adapter_options().map(|adapter| adapter.method)
            && lora.init_lora_weights.changes_weight()
        {
            let message = "stage 3 of ZeRO is not planned with factors that are taken out of the weights yet";
            found.add(not_yet("lora.init_lora_weights", message));
        }
        if self.torch.device_map.is_some() {
            let invalid = Invalid::idle("torch.device_map", "transformers loads what stage 3 shares without one");
            found.add(invalid.with("zero_optimization.stage").help(LEAVE_OUT));
        }
    }

    fn check_zero_loop(&self, found: &mut Found) {
        if self.torch.zero_grad == ZeroGrad::Never {
            let message = "DeepSpeed lets gradients go after each step";
            let invalid = Invalid::new("torch.zero_grad", message).with("distributed");
            found.add(invalid.help(LEAVE_OUT));
        }
        if self.torch.generation.is_some() {
            let message = "how a model generates under DeepSpeed is not planned yet";
            let invalid = Invalid::new("torch.generation", message).with("distributed");
            found.add(invalid.help(NOT_YET));
        }
    }
}

fn check_stage(zero: &ZeroOptimization, found: &mut Found) {
    const KEY: &str = "zero_optimization.stage";
    let invalid = match zero.stage {
        1..=3 => None,
        0 => {
            let message = "with stage 0 DeepSpeed shares nothing, which is not planned";
            Some(Invalid::new(KEY, message).help("use 1, 2 or 3, or `distributed: ddp`"))
        }
        other => Some(Invalid::new(KEY, format!("ZeRO has no stage {other}")).help("use 1, 2 or 3")),
    };
    if let Some(invalid) = invalid {
        return found.add(invalid);
    }
    let default = ZeroOptimization::default();
    for of in OF_STAGES {
        if (of.is_set)(zero, &default) && !of.stages.contains(&zero.stage) {
            let help = match of.stages {
                [3] => "leave the key out, or use `stage: 3`",
                _ => LEAVE_OUT,
            };
            found.add(Invalid::idle(of.key, of.message).with(KEY).help(help));
        }
    }
}

fn check_offload(zero: &ZeroOptimization, found: &mut Found) {
    let default = ZeroOptimization::default();
    for (device, device_key, pins, pin_key) in [
        (
            zero.offload_optimizer_device,
            "zero_optimization.offload_optimizer_device",
            zero.offload_optimizer_pin_memory == default.offload_optimizer_pin_memory,
            "zero_optimization.offload_optimizer_pin_memory",
        ),
        (
            zero.offload_param_device,
            "zero_optimization.offload_param_device",
            zero.offload_param_pin_memory == default.offload_param_pin_memory,
            "zero_optimization.offload_param_pin_memory",
        ),
    ] {
        if device == OffloadDevice::Nvme {
            let invalid = Invalid::new(device_key, "offloading to a disk (nvme) is not planned");
            found.add(invalid.help("use cpu or none"));
        }
        if !pins && device == OffloadDevice::None {
            let invalid = Invalid::idle(pin_key, "nothing of it is on the CPU").with(device_key);
            let help = format!(
                "leave the key out, or use `{}: cpu`",
                &device_key["zero_optimization.".len()..]
            );
            found.add(invalid.help(help));
        }
    }
}

/// Elements of which a bucket has bytes that can be counted.
const LARGEST_BUCKET: u64 = 1 << 50;

fn check_sizes(zero: &ZeroOptimization, found: &mut Found) {
    if zero.reduce_bucket_size == Some(Elements(0)) {
        let invalid = Invalid::new(
            "zero_optimization.reduce_bucket_size",
            "no gradient fits a bucket without elements",
        );
        found.add(invalid.help("use 1 or more, or leave the key out"));
    }
    if zero.reduce_bucket_size > Some(Elements(LARGEST_BUCKET)) {
        let invalid = Invalid::new(
            "zero_optimization.reduce_bucket_size",
            "no GPU has memory for a bucket of so many elements",
        );
        found.add(invalid.help("use 5e8, DeepSpeed's own, or leave the key out"));
    }
}
