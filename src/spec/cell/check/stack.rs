//! The keys that describe a software stack: what our trainer does of them, and what a plan of PyTorch's does.

use super::super::{
    Attention, Cell, Checkpointing, Dtype, InstructionSetChoice, KeepOutputs, LoraFa, Measure, Optimizer, QuantType,
    Stack, Upcast, Weights, ZeroGrad,
};
use super::{Checked, Invalid};
use crate::torch::caching_allocator::{Settings, SettingsError};
use crate::torch::gpu::Gpu;
use crate::torch::{self, Bitsandbytes, Transformers, VersionError};

/// The variables of PyTorch's allocator; the first is heeded where both are set.
const PYTORCH_VARIABLES: [&str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];

impl Cell {
    pub(super) fn check_stack(&self) -> Checked {
        if !self.bnb_4bit_use_double_quant && self.dtype != Dtype::Int4 {
            return Err(
                Invalid::new("bnb_4bit_use_double_quant", "only int4 has scales to quantise twice")
                    .with("dtype")
                    .help("leave the key out, or use `dtype: int4`"),
            );
        }
        match self.stack {
            Stack::Candle => self.check_candle(),
            Stack::Torch => self.check_torch(),
        }
    }

    fn check_candle(&self) -> Checked {
        let only = |key: &str, holds: bool, supported: &str| {
            if holds {
                return Ok(());
            }
            let message = format!("the candle stack cannot do this yet; supported: `{supported}`");
            Err(Invalid::new(key, message).help("`stack: torch` can be planned with it"))
        };
        only("adapter_dtype", self.adapter_dtype == Dtype::Float32, "float32")?;
        only("lora_fa", self.lora_fa == LoraFa::None, "none")?;
        only("bnb_4bit_quant_type", self.bnb_4bit_quant_type == QuantType::Nf4, "nf4")?;
        only(
            "bnb_4bit_compute_dtype",
            self.bnb_4bit_compute_dtype == Dtype::Bfloat16,
            "bfloat16",
        )?;
        only(
            "attn_implementation",
            self.attn_implementation == Attention::Sdpa,
            "sdpa",
        )?;
        only("upcast", self.upcast == Upcast::None, "none")?;
        only("autocast", !self.autocast, "false")?;
        only("use_cache", !self.use_cache, "false")?;
        only("empty_cache_steps", self.empty_cache_steps == 0, "0")?;
        let trains = self.optim == Optimizer::Adamw || self.optim.is_low_rank();
        only("optim", trains, "adamw`, `galore` or `rsvd")?;
        only("keep_outputs", self.keep_outputs == KeepOutputs::Step, "step")?;
        only("zero_grad", self.zero_grad == ZeroGrad::AfterStep, "after_step")?;
        only("use_reentrant", self.use_reentrant.is_none(), "null")?;
        if self.gpu.is_some() {
            return Err(Invalid::new("gpu", "names the GPU that `stack: torch` is planned for")
                .with("stack")
                .help("leave the key out; the device that is trained on is `device`"));
        }
        let versions = [
            ("transformers_version", &self.transformers_version),
            ("bitsandbytes_version", &self.bitsandbytes_version),
            ("torch_version", &self.torch_version),
        ];
        if let Some((key, _)) = versions.iter().find(|(_, version)| version.is_some()) {
            return Err(Invalid::new(*key, "the candle stack is without this library")
                .with("stack")
                .help("leave the key out, or use `stack: torch`"));
        }
        for (name, value) in &self.allocator.env {
            if value.is_some() && PYTORCH_VARIABLES.contains(&name.as_str()) {
                return Err(Invalid::new(
                    format!("allocator.env.{name}"),
                    "the candle stack has no such allocator",
                )
                .with("stack")
                .help("leave it out, or use `stack: torch`"));
            }
        }
        Ok(())
    }

    fn check_torch(&self) -> Checked {
        self.check_ours_alone()?;
        if let Some(name) = &self.gpu {
            Gpu::named(name).map_err(|error| Invalid {
                help: error.help,
                ..Invalid::new("gpu", error.message)
            })?;
        }
        self.pytorch_allocator().map(drop)?;
        for (key, dtype) in [
            ("adapter_dtype", self.adapter_dtype),
            ("bnb_4bit_compute_dtype", self.bnb_4bit_compute_dtype),
        ] {
            if matches!(dtype, Dtype::Int8 | Dtype::Int4) {
                return Err(Invalid::new(key, "must be a format of floating-point numbers")
                    .help("such as `float32` or `bfloat16`"));
            }
        }
        self.check_versions()?;
        let is_quantised = matches!(self.dtype, Dtype::Int4 | Dtype::Int8);
        if self.upcast == Upcast::Peft && !is_quantised {
            return Err(
                Invalid::new("upcast", "PEFT's k-bit preparation is for quantised weights")
                    .with("dtype")
                    .help("leave the key out, or use `dtype: int4` or `int8`"),
            );
        }
        if self.use_reentrant.is_some() && self.gradient_checkpointing == Checkpointing::None {
            return Err(Invalid::new("use_reentrant", "no block is checkpointed")
                .with("gradient_checkpointing")
                .help("leave the key out, or use `gradient_checkpointing: full`"));
        }
        if self.lora_fa != LoraFa::None && self.rank == 0 {
            return Err(Invalid::new("lora_fa", "rank 0 trains every weight and has no adapter")
                .with("rank")
                .help("leave the key out, or use `rank: 1` or more"));
        }
        Ok(())
    }

    fn check_versions(&self) -> Checked {
        if let Some(version) = &self.transformers_version {
            let checked = match torch::ModelConfig::preset(&self.model) {
                Some(model) => Transformers::of(version, model.family).map(drop),
                None => Transformers::check(version),
            };
            checked.map_err(|error| invalid_version("transformers_version", error))?;
        }
        let Some(version) = &self.bitsandbytes_version else {
            return Ok(());
        };
        let key = "bitsandbytes_version";
        let for_int4 = |message: &str| {
            Err(Invalid::new(key, message)
                .with("dtype")
                .help("leave the key out, or use `dtype: int4`"))
        };
        let release = Bitsandbytes::of(version);
        match self.dtype {
            Dtype::Int8 if release == Ok(Bitsandbytes::TODAY) => Ok(()),
            Dtype::Int4 => release.map(drop).map_err(|error| invalid_version(key, error)),
            Dtype::Int8 => for_int4("what older releases do with int8 has not been studied"),
            _ => for_int4("these weights are not quantised by bitsandbytes"),
        }
    }

    /// The keys of our trainer, which would do nothing to PyTorch's.
    fn check_ours_alone(&self) -> Checked {
        let given = [
            ("measure", self.measure != Measure::Epoch),
            ("optim", self.optim.is_low_rank()),
            ("device", self.device != "cpu"),
            ("device_memory", self.device_memory.is_some()),
            ("threads", self.threads.is_some()),
            ("instruction_set", self.instruction_set != InstructionSetChoice::Auto),
            ("allocator.backend", self.allocator.backend.is_some()),
            ("weights", self.weights == Some(Weights::Random) && !self.is_preset()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(Invalid::new(key, "the torch stack cannot be planned with this yet")
                .with("stack")
                .help("leave the key out")),
            None => Ok(()),
        }
    }

    /// How PyTorch's allocator is set.
    ///
    /// # Errors
    /// What is wrong with its variable, or a variable that it does not read.
    pub fn pytorch_allocator(&self) -> Result<Settings, Invalid> {
        let key = |name: &str| format!("allocator.env.{name}");
        let given = |name: &&str| self.allocator.env.get(*name).is_some_and(Option::is_some);
        if let Some(name) = self
            .allocator
            .env
            .keys()
            .find(|name| !PYTORCH_VARIABLES.contains(&name.as_str()))
        {
            return Err(
                Invalid::new(key(name), "PyTorch's allocator does not read this variable")
                    .help(format!("it reads {}", PYTORCH_VARIABLES.join(" and "))),
            );
        }
        let ties = match &self.torch_version {
            Some(version) => torch::ties(version).map_err(|error| invalid_version("torch_version", error))?,
            None => Settings::default().ties,
        };
        let Some(name) = PYTORCH_VARIABLES.into_iter().find(given) else {
            return Ok(Settings {
                ties,
                ..Settings::default()
            });
        };
        let text = self.allocator.env[name].as_deref().unwrap_or_default();
        text.parse()
            .map(|settings| Settings { ties, ..settings })
            .map_err(|error: SettingsError| Invalid {
                help: error.help,
                at: Some(error.at),
                ..Invalid::new(key(name), error.message)
            })
    }
}

fn invalid_version(key: &str, error: VersionError) -> Invalid {
    Invalid::new(key, error.message).help(error.help)
}
