//! The keys that describe a software stack: those that our trainer supports, and those that a plan of PyTorch's stack
//! does.

use arch::{ModelConfig, Preset};
use base::text::{Mistake, either};
use options::saves_whole;
use serde_json::{Map, Value};
use torch::caching_allocator::Settings;
use torch::gpu::Gpu;
use torch::{Bitsandbytes, Deepspeed, Peft, Pytorch, Transformers, Trl};

use super::super::stacks::of_others;
use super::super::{
    Adapter, Attention, Autocast, Cell, Checkpointing, Dtype, Facts, FloatDtype, Generation, LossScaling, Optimizer,
    Stack, TargetModules, Task, Upcast, ZeroGrad,
};
use super::found::Found;
use super::idle::value;
use options::invalid::{Checked, Invalid, at_least, at_most};

/// The variables of PyTorch's allocator; the first is heeded where both are set.
pub(super) const PYTORCH_VARIABLES: [&str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];

impl Cell {
    pub(super) fn check_stack(&self, keys: &Map<String, Value>, found: &mut Found) {
        self.check_quantised(found);
        self.check_single_stack(keys, found);
        found.check(self.check_upcast());
        match self.stack {
            Stack::Candle => self.check_candle(found),
            Stack::Torch => self.check_torch(found),
        }
    }

    /// The keys that only the other stack heeds must have their defaults.
    fn check_single_stack(&self, keys: &Map<String, Value>, found: &mut Found) {
        for (key, facts) in of_others(self.stack) {
            match (value(keys, &key), value(Cell::default_map(), &key)) {
                (value, default) if value == default => {}
                (Value::Object(map), Value::Object(defaults)) if self.stack == Stack::Candle => {
                    let differing = map.iter().filter(|(name, value)| defaults.get(*name) != Some(*value));
                    for (name, _) in differing {
                        let message = "describes PyTorch's stack, and this cell's is candle";
                        found.add(
                            Invalid::idle(format!("{key}.{name}"), message)
                                .with("stack")
                                .help("leave the key out, or use `stack: torch`"),
                        );
                    }
                }
                (_, default) => found.add(self.only_in_other_stack(&key, facts, default)),
            }
        }
    }

    /// The error for the key `key`, which this cell's stack does not heed.
    fn only_in_other_stack(&self, key: &str, facts: &Facts, default: &Value) -> Invalid {
        if self.stack == Stack::Torch {
            let message = "is for our trainer alone";
            let invalid = match facts.of_process {
                true => Invalid::idle(key, message),
                false => Invalid::new(key, message),
            };
            return invalid.with("stack").help(match key {
                "offload" => {
                    "leave the key out: accelerate's `device_map` with hooks, which PyTorch's stack offloads by, is \
                         not planned"
                }
                "host_memory" => "leave the key out: nothing of PyTorch's stack is planned in the host's memory",
                _ => "leave the key out",
            });
        }
        if key == "gpu" {
            return Invalid::idle(key, "names the GPU that `stack: torch` is planned for")
                .with("stack")
                .help("leave the key out; the device that is trained on is `device`");
        }
        let only = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        Invalid::new(key, format!("the candle stack cannot do this yet; supported: `{only}`"))
            .help("`stack: torch` can be planned with it")
    }

    fn has_optimizer(&self) -> bool {
        Optimizer::of(self.stack).any(|optimizer| optimizer == self.optim)
    }

    fn check_candle(&self, found: &mut Found) {
        if !self.has_optimizer() {
            let ours: Vec<_> = Optimizer::of(Stack::Candle).map(Optimizer::name).collect();
            let message = format!("the candle stack cannot do this yet; supported: {}", either(&ours));
            found.add(Invalid::new("optim", message).help("`stack: torch` can be planned with it"));
        }
        if !self.loss().is_of_trainer() {
            let message = "a fused kernel of PyTorch's stack, and this cell's is candle";
            let invalid = Invalid::new("loss", message).with("stack");
            found.add(invalid.help("use `loss: chunked`, which does not hold the logits either"));
        }
        self.check_formats(found);
        if self.attn_implementation == Attention::FlashAttention2 {
            let message = "flash-attn is a package of PyTorch's stack, and this cell's is candle";
            let invalid = Invalid::new("attn_implementation", message).with("stack");
            found.add(invalid.help("use `attn_implementation: sdpa`, which does not hold the scores either"));
        }
    }

    /// The number formats of our trainer.
    fn check_formats(&self, found: &mut Found) {
        if self.adapter_dtype == FloatDtype::Float16 && self.heeds("adapter_dtype") {
            let message = "adapters are trained in float32 or bfloat16";
            found.add(Invalid::new("adapter_dtype", message).help("use `adapter_dtype: bfloat16`"));
        }
        if self.upcast == Upcast::Trl {
            let invalid = Invalid::new("upcast", "TRL's casts to bfloat16 are those of PyTorch's stack");
            found.add(invalid.with("stack").help("use `upcast: peft`"));
        }
        let model = self.model_options();
        let is_float16 = self.autocast == Autocast::Float16 || model.hidden_dtype() == Dtype::Float16;
        if self.loss_scaling == Some(LossScaling::Dynamic) && !is_float16 {
            let invalid = Invalid::idle(
                "loss_scaling",
                "nothing is computed in float16, so no gradient is too small",
            );
            found.add(invalid.with("dtype").with("autocast").help("leave the key out"));
        }
        if self.loss_scaling == Some(LossScaling::Dynamic)
            && self.method().is_none()
            && model.hidden_dtype() == Dtype::Float16
        {
            let message = "gradients of float16 weights have no room for the scale; PyTorch refuses it too";
            let invalid = Invalid::new("loss_scaling", message).with("rank").with("dtype");
            found.add(invalid.help("use `dtype: float32` with `autocast: float16`"));
        }
        let is_wide = model.hidden_dtype() == Dtype::Float32;
        if self.autocast != Autocast::None && !is_wide {
            let message = "hidden states are not float32, so products have 16 bits already";
            let help = match self.dtype.is_quantised() {
                true => "leave the key out, or use `upcast: peft`",
                false => "leave the key out, or use `dtype: float32`",
            };
            found.add(Invalid::idle("autocast", message).with("dtype").help(help));
        }
    }

    fn check_torch(&self, found: &mut Found) {
        if !self.has_optimizer() {
            let theirs: Vec<_> = Optimizer::of(Stack::Torch).map(Optimizer::name).collect();
            let message = format!(
                "PyTorch's stack is not planned with {} yet; it is with {}",
                self.optim.name(),
                either(&theirs)
            );
            let help = "use one of these, or `stack: candle`, our trainer";
            found.add(Invalid::new("optim", message).with("stack").help(help));
        }
        if self.trainable.is_some() && self.method().is_none() && self.dtype.is_quantised() {
            let message = "transformers' Trainer refuses quantised weights without adapters";
            let invalid = Invalid::new("trainable", message).with("dtype");
            found.add(invalid.help("use `dtype: bfloat16`, or an adapter"));
        }
        if self.modules_to_save.is_some() && self.task == Task::SequenceClassification {
            let message = "PyTorch's stack is planned with what decoders train whole, and not with encoders yet";
            let invalid = Invalid::new("modules_to_save", message).with("task");
            found.add(invalid.help("leave the key out: the new head is trained and saved anyway"));
        }
        if let Some(name) = &self.gpu {
            let gpu = Gpu::named(name).map_err(|mistake| Invalid::of("gpu", mistake));
            found.check(gpu.and_then(|gpu| self.check_gpu(gpu)));
        }
        found.check(self.pytorch_allocator().map(drop));
        self.check_padding_free(found);
        found.check(self.check_transformers());
        found.check(self.check_peft());
        found.check(self.check_trl());
        found.check(self.check_deepspeed());
        found.check(self.check_bitsandbytes());
        found.check(self.check_attention());
        if self.loss().is_partial() {
            found.check(self.check_partial_loss());
        }
        let saved = self.modules_to_save.as_deref().unwrap_or_default();
        let saves_embedding = saves_whole(saved, "model.embed_tokens");
        let method = self.method();
        let trains_embedding = method.is_none_or(Adapter::has_virtual_tokens) || saves_embedding;
        if self.torch.embedding_states_32bit.is_some() && !(trains_embedding && self.optim.is_8bit()) {
            found.add(
                Invalid::idle("torch.embedding_states_32bit", "no embedding has states of 8 bits")
                    .with("rank")
                    .with("optim")
                    .help("leave the key out, or train every weight by such as `optim: adamw_8bit` with `rank: 0`"),
            );
        }
        if let Some(generation) = &self.torch.generation {
            self.check_generation(generation, found);
        }
        if let Some(every) = self.torch.save_steps {
            self.check_saves(every, found);
        }
        self.check_loop(found);
        self.check_fsdp(found);
        self.check_zero(found);
        if self.torch.use_reentrant.is_some() && self.gradient_checkpointing == Checkpointing::None {
            found.add(
                Invalid::idle("torch.use_reentrant", "no block is checkpointed")
                    .with("gradient_checkpointing")
                    .help("leave the key out, or use `gradient_checkpointing: full`"),
            );
        }
    }

    /// What the training loop keeps, where there is something to keep.
    fn check_loop(&self, found: &mut Found) {
        if let Some(mib) = self.torch.ddp_bucket_cap_mb {
            let key = "torch.ddp_bucket_cap_mb";
            found.check(at_least(key, mib as usize, 1).and_then(|()| at_most(key, mib as usize, 1 << 20)));
        }
        if self.torch.zero_grad == ZeroGrad::BeforeForward && self.empty_cache_steps == 0 {
            let message = "only an emptied cache lies between `after_step` and `before_forward`";
            let invalid = Invalid::idle("torch.zero_grad", message).with("empty_cache_steps");
            found.add(invalid.help("leave the key out, or give `empty_cache_steps`"));
        }
        if !self.torch.use_cache {
            return;
        }
        let (message, with) = if self.task == Task::SequenceClassification {
            ("an encoder has no key-value cache", "task")
        } else if self.method().is_some_and(Adapter::is_cached) {
            ("a prefix is a key-value cache already", "adapter")
        } else if self.gradient_checkpointing == Checkpointing::Full {
            let message = "transformers builds no key-value cache where every block is checkpointed";
            (message, "gradient_checkpointing")
        } else {
            return;
        };
        let invalid = Invalid::idle("torch.use_cache", message).with(with);
        found.add(invalid.help("leave the key out"));
    }

    /// Text that is generated between steps.
    fn check_generation(&self, generation: &Generation, found: &mut Found) {
        for (key, value, most) in [
            ("eval_steps", generation.eval_steps, 1 << 30),
            ("batch_size", generation.batch_size, 1 << 20),
            ("prompt_tokens", generation.prompt_tokens, 1 << 20),
            // A trace has every operation of every token.
            ("max_new_tokens", generation.max_new_tokens, 4096),
        ] {
            let key = format!("torch.generation.{key}");
            found.check(at_least(&key, value, 1).and_then(|()| at_most(&key, value, most)));
        }
        if self.task == Task::SequenceClassification {
            let invalid = Invalid::new("torch.generation", "a classifier generates no text").with("task");
            found.add(invalid.help("leave the key out"));
        }
        self.check_interval("torch.generation.eval_steps", generation.eval_steps, "", found);
    }

    /// The model is saved within the training.
    fn check_saves(&self, every: usize, found: &mut Found) {
        let key = "torch.save_steps";
        found.check(at_least(key, every, 1));
        self.check_interval(key, every, ", or leave the key out", found);
    }

    /// What is done after every so many steps is done in the training. `or` is what may be done besides writing less.
    fn check_interval(&self, key: &str, every: usize, or: &str, found: &mut Found) {
        if let Some(steps) = self.max_steps().filter(|steps| *steps < every) {
            let invalid = Invalid::new(key, format!("the training ends after {steps} steps")).with("max_steps");
            found.add(invalid.help(format!("write {steps} or less{or}")));
        }
    }

    fn check_partial_loss(&self) -> Checked {
        let invalid = |message: &str| Invalid::new("loss", message);
        let adapts_head = match &self.target_modules {
            None | Some(TargetModules::AllLinear | TargetModules::Peft) => false,
            Some(named) => named.contains("lm_head"),
        };
        if self.method().is_some() && adapts_head {
            let message = "the loss reads the head's weight, so the head cannot have an adapter";
            return Err(invalid(message)
                .with("target_modules")
                .help("leave lm_head out of `target_modules`, or use `loss: full`"));
        }
        Ok(())
    }

    fn check_upcast(&self) -> Checked {
        if self.upcast == Upcast::Trl && self.dtype != Dtype::Int4 {
            return Err(Invalid::new("upcast", "TRL casts weights to bfloat16 only with int4")
                .with("dtype")
                .help("use `upcast: peft`, or `dtype: int4`"));
        }
        if self.upcast == Upcast::Trl && self.autocast != Autocast::Bfloat16 {
            return Err(
                Invalid::new("upcast", "TRL casts weights to bfloat16 only with autocast to bfloat16")
                    .with("autocast")
                    .help("use `upcast: peft`, or `autocast: bfloat16`"),
            );
        }
        Ok(())
    }

    fn check_attention(&self) -> Checked {
        let Some(Ok(release)) = self.torch.torch_version.as_deref().map(Pytorch::of) else {
            return Ok(());
        };
        match self.attn_implementation {
            Attention::Sdpa if !release.has_sdpa => Err(Invalid::new(
                "attn_implementation",
                "PyTorch has scaled_dot_product_attention since 2.0",
            )
            .with("torch.torch_version")
            .help("use `attn_implementation: eager`")),
            _ => Ok(()),
        }
    }

    fn check_transformers(&self) -> Checked {
        let Some(version) = &self.torch.transformers_version else {
            return Ok(());
        };
        let preset = Preset::named(&self.model).or_else(|| Preset::of_hub_name(&self.model));
        match preset {
            Some(preset) => self.check_release(&preset.config()),
            None => Transformers::check(version).map_err(|mistake| Invalid::of("torch.transformers_version", mistake)),
        }
    }

    /// Checks that the release of transformers is known with a model of this shape, and has what the cell asks for.
    ///
    /// # Errors
    /// The key at fault.
    pub fn check_release(&self, model: &ModelConfig) -> Checked {
        const KEY: &str = "torch.transformers_version";
        let Some(version) = &self.torch.transformers_version else {
            return Ok(());
        };
        let (family, class) = (model.family, model.family.description().class);
        let release = Transformers::of(version, family).map_err(|mistake| Invalid::of(KEY, mistake))?;
        let named = Transformers::planned(version, family).unwrap_or_else(|| version.clone());
        let lacks = |what: String, with: &'static str, help: &str| {
            let invalid = Invalid::new(KEY, format!("transformers {named} has {what}")).with(with);
            Err(invalid.help(format!("{help}, or a release that has it")))
        };
        let is_grouped = model.num_key_value_heads < model.num_attention_heads;
        match self.attn_implementation {
            Attention::Sdpa if !release.has_sdpa => lacks(
                format!("no sdpa for {class}"),
                "attn_implementation",
                "use `attn_implementation: eager`",
            ),
            Attention::FlashAttention2 if !release.has_flash => lacks(
                format!("no flash_attention_2 for {class}"),
                "attn_implementation",
                "use `attn_implementation: eager`",
            ),
            _ if !release.groups_heads && is_grouped => lacks(
                format!("no {class} whose queries share keys and values"),
                "model",
                "use another `model`",
            ),
            _ if !release.rotates_shares && model.rotary_dim() < model.head_dim => lacks(
                format!("no {class} that rotates a share of each head"),
                "model",
                "use another `model`",
            ),
            _ if !release.checkpoints && self.gradient_checkpointing != Checkpointing::None => lacks(
                format!("no checkpoints of blocks for {class}"),
                "gradient_checkpointing",
                "use `gradient_checkpointing: none`",
            ),
            _ if !release.chooses_reentrant && self.torch.use_reentrant == Some(false) => lacks(
                "no choice of checkpoints that are not reentrant".into(),
                "torch.use_reentrant",
                "leave `torch.use_reentrant` out",
            ),
            _ => Ok(()),
        }
    }

    fn check_peft(&self) -> Checked {
        let Some(version) = &self.torch.peft_version else {
            return Ok(());
        };
        if self.method().is_none() {
            // No release is loaded.
            return Ok(());
        }
        let release = Peft::of(version).map_err(|mistake| Invalid::of("torch.peft_version", mistake))?;
        if self.dtype == Dtype::Int4 && !release.has_int4 {
            let invalid = Invalid::new("torch.peft_version", "4 bits came with PEFT 0.4.0").with("dtype");
            return Err(invalid.help("use `dtype: int8`, or a newer release"));
        }
        let is_plain = self.adapter == Adapter::Lora && !self.lora.init_lora_weights.changes_weight();
        if !is_plain && !release.has_methods {
            let message = "what releases of PEFT before 0.20.0 do has been studied for LoRA alone";
            let key = if self.adapter == Adapter::Lora {
                "lora.init_lora_weights"
            } else {
                "adapter"
            };
            let invalid = Invalid::new("torch.peft_version", message).with(key);
            return Err(invalid.help("leave the key out, or use `adapter: lora`"));
        }
        Ok(())
    }

    fn check_deepspeed(&self) -> Checked {
        let Some(version) = &self.torch.deepspeed_version else {
            return Ok(());
        };
        Deepspeed::of(version)
            .map(drop)
            .map_err(|mistake| Invalid::of("torch.deepspeed_version", mistake))
    }

    fn check_trl(&self) -> Checked {
        let Some(version) = &self.torch.trl_version else {
            return Ok(());
        };
        Trl::of(version)
            .map(drop)
            .map_err(|mistake| Invalid::of("torch.trl_version", mistake))
    }

    fn check_bitsandbytes(&self) -> Checked {
        let Some(version) = &self.torch.bitsandbytes_version else {
            return Ok(());
        };
        let key = "torch.bitsandbytes_version";
        if !self.heeds(key) {
            // No release is loaded.
            return Ok(());
        }
        let release = Bitsandbytes::of(version).map_err(|mistake| Invalid::of(key, mistake))?;
        let invalid = |message: &str| Invalid::new(key, message).with("dtype");
        if self.dtype == Dtype::Int4 && self.bnb_4bit_blocksize < release.least_block {
            let message = format!(
                "blocks of {} weights came with bitsandbytes 0.49.2",
                self.bnb_4bit_blocksize
            );
            let invalid = Invalid::new(key, message).with("bnb_4bit_blocksize");
            return Err(invalid.help("leave the key out, or use `bnb_4bit_blocksize: 64`"));
        }
        if self.dtype == Dtype::Int4 && !release.has_int4 {
            return Err(invalid("4 bits came with bitsandbytes 0.39.0").help("use `dtype: int8`, or a newer release"));
        }
        if self.optim.is_paged() && !release.has_int4 {
            let invalid = Invalid::new(key, "paged optimizers came with bitsandbytes 0.39.0").with("optim");
            return Err(invalid.help("use an `optim` without pages, or a newer release"));
        }
        Ok(())
    }

    /// The settings of PyTorch's allocator.
    ///
    /// # Errors
    /// A mistake in its variable, or a variable that it does not read.
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
        let tie_break = match &self.torch.torch_version {
            Some(version) => {
                Pytorch::of(version)
                    .map_err(|mistake| Invalid::of("torch.torch_version", mistake))?
                    .tie_break
            }
            None => Settings::default().tie_break,
        };
        let Some(name) = PYTORCH_VARIABLES.into_iter().find(given) else {
            return Ok(Settings {
                tie_break,
                ..Settings::default()
            });
        };
        let text = self.allocator.env[name].as_deref().unwrap_or_default();
        text.parse()
            .map(|settings| Settings { tie_break, ..settings })
            .map_err(|mistake: Mistake| Invalid::of(key(name), mistake))
    }
}
