//! A cell as a configuration of PyTorch's stack.

use arch::{ModelConfig, Module};
use base::text::Mistake;
use cell::{Adapter, AutoWrapPolicy, Cell, Checkpointing, Distributed, Elements, OffloadDevice, ZeroGrad};
use options::{AdapterOptions, ShardingStrategy};
use torch::gpu::{ComputeCapability, Context, Gpu};
use torch::{
    Backend, Bitsandbytes, Configuration, Ddp, Deepspeed, Dtype, Fsdp, Offload, Peft, Pytorch, Ranks, Transformers,
    Zero,
};

/// The configuration of `cell`, for a model of this shape.
///
/// # Errors
/// The release of a library that it names has not been studied with such a model.
pub(super) fn torch_configuration(
    cell: &Cell,
    model: ModelConfig,
    gpu: Option<&Gpu>,
) -> Result<Configuration, Mistake> {
    let compute = Dtype::floating(cell.bnb_4bit_compute_dtype.into());
    let mut transformers = match &cell.torch.transformers_version {
        Some(version) => Transformers::of(version, model.family)?,
        None => Transformers::TODAY,
    };
    transformers.use_reentrant = cell.torch.use_reentrant.unwrap_or(transformers.use_reentrant);
    transformers.repeats_heads = cell.torch.repeat_kv.unwrap_or(transformers.repeats_heads);
    let peft = match &cell.torch.peft_version {
        Some(version) => Peft::of(version)?,
        None => Peft::TODAY,
    };
    let bitsandbytes = match &cell.torch.bitsandbytes_version {
        Some(version) => Bitsandbytes::of(version)?,
        None => Bitsandbytes::TODAY,
    };
    let pytorch = match &cell.torch.torch_version {
        Some(version) => Pytorch::of(version)?,
        None => Pytorch::TODAY,
    };
    let deepspeed = match &cell.torch.deepspeed_version {
        Some(version) => Deepspeed::of(version)?,
        None => Deepspeed::TODAY,
    };
    cell.check_release(&model).map_err(|invalid| invalid.mistake)?;
    check_reentrant(cell, &model, &transformers)?;
    check_prefix(cell, &transformers)?;
    check_ddp(cell, &transformers)?;
    check_wrapped(cell, &model, &pytorch)?;
    check_generation(cell, &transformers)?;
    check_saves(cell, &bitsandbytes)?;
    let ranks = ranks(cell, &model, &transformers);
    Ok(Configuration {
        model,
        dtype: cell.dtype,
        torch_dtype: compute,
        adapter: adapter(cell, ranks.as_ref(), deepspeed),
        trainable: cell.trainable.clone(),
        bnb_4bit_blocksize: cell.bnb_4bit_blocksize as u64,
        bnb_4bit_use_double_quant: cell.bnb_4bit_use_double_quant,
        bnb_4bit_compute_dtype: compute,
        finds_outliers: cell.finds_outliers(),
        attn_implementation: cell.attn_implementation,
        upcast: cell.upcast,
        autocast: cell.autocast,
        use_cache: cell.torch.use_cache,
        gradient_checkpointing: cell.gradient_checkpointing.clone(),
        // PEFT asks for it where the model checkpoints, and newer releases of transformers.
        enable_input_require_grads: cell.gradient_checkpointing != Checkpointing::None
            && (cell.method().is_some() || transformers.requires_input_grads),
        optim: cell.optim,
        optim_rank: cell.optim_rank() as u32,
        update_proj_gap: cell.update_proj_gap() as u32,
        embedding_states_32bit: cell
            .torch
            .embedding_states_32bit
            .unwrap_or(transformers.embedding_states_32bit),
        weight_decay: cell.weight_decay,
        max_grad_norm: cell.max_grad_norm,
        loss: cell.loss(),
        outputs: cell.torch.keep_outputs,
        zero_grad: match cell.torch.zero_grad {
            // Only an emptied cache lies between the two.
            ZeroGrad::BeforeForward if cell.empty_cache_steps == 0 => ZeroGrad::AfterStep,
            other => other,
        },
        generation: cell.torch.generation,
        saves: cell.torch.save_steps.is_some(),
        capability: gpu.map_or(ComputeCapability(8, 0), |gpu| gpu.capability),
        multiprocessors: gpu.and_then(|gpu| gpu.multiprocessors),
        transformers,
        peft,
        bitsandbytes,
        pytorch,
        deepspeed,
        device_map: cell.torch.device_map == Some(true),
        ranks,
        free_bytes: gpu.map(|gpu| gpu.total_bytes - Context::of(Some(gpu), cell.world_size).likely),
        backend: Backend::Cuda,
    })
}

/// The adapters, which have a format of their own where DeepSpeed's engine does not cast them.
fn adapter(cell: &Cell, ranks: Option<&Ranks>, deepspeed: Deepspeed) -> Option<AdapterOptions> {
    let mut adapter = cell.model_options().adapter?;
    if let Some(Ranks::Zero(zero)) = ranks
        && zero.init
        && deepspeed.leaves_adapters
    {
        adapter.dtype = cell.adapter_dtype.into();
    }
    Some(adapter)
}

/// How several processes share the work. DeepSpeed changes that of one process, too.
fn ranks(cell: &Cell, model: &ModelConfig, transformers: &Transformers) -> Option<Ranks> {
    match cell.distributed {
        Distributed::Deepspeed => Some(Ranks::Zero(zero(cell, model))),
        _ if cell.world_size == 1 => None,
        Distributed::Ddp => Some(Ranks::Ddp(ddp(cell, transformers))),
        Distributed::Fsdp => Some(Ranks::Fsdp(fsdp(cell, transformers))),
    }
}

/// How FSDP shares a model. accelerate gives it the format of mixed precision, and makes what is trained float32 then;
/// of int4 with adapters, transformers' Trainer gives version 1 that of the storage (`_fsdp_qlora_plugin_updates`).
fn fsdp(cell: &Cell, transformers: &Transformers) -> Fsdp {
    let config = &cell.fsdp_config;
    let machines = match config.sharding_strategy.is_hybrid() {
        true => config.num_machines,
        false => 1,
    };
    let mixed = Dtype::of_autocast(cell.autocast);
    let (is_first, is_int4) = (config.version == 1, cell.dtype == options::Dtype::Int4);
    let storage = (is_first && is_int4).then(|| Dtype::floating(cell.bnb_4bit_compute_dtype.into()));
    Fsdp {
        per_parameter: !is_first,
        ranks: (cell.world_size / machines) as u64,
        strategy: match config.reshard_after_forward {
            Some(false) => ShardingStrategy::ShardGradOp,
            _ => config.sharding_strategy,
        },
        wraps_blocks: config.auto_wrap_policy == AutoWrapPolicy::TransformerBasedWrap,
        backward_prefetch: config.backward_prefetch,
        forward_prefetch: config.forward_prefetch,
        limit_all_gathers: config.limit_all_gathers,
        offload_params: config.offload_params,
        use_orig_params: config.use_orig_params && is_first,
        param_dtype: storage.or(mixed),
        upcasts: mixed.is_some() && (is_first || !is_int4),
        checkpoints_within: config
            .activation_checkpointing
            .unwrap_or(transformers.checkpoints_within),
        cpu_leads: true,
    }
}

/// `sys.maxsize`, DeepSpeed's word for no limit.
const NO_LIMIT: u64 = i64::MAX as u64;

/// How DeepSpeed's ZeRO shares a model. Sizes that are left out are those that transformers' Trainer fills in for `auto`
/// (`trainer_config_finalize` in `integrations/deepspeed.py`).
fn zero(cell: &Cell, model: &ModelConfig) -> Zero {
    let config = &cell.zero_optimization;
    let hidden = model.hidden_size as u64;
    let size = |elements: Option<Elements>, default: u64| elements.map_or(default, |elements| elements.0);
    let offload = |device: OffloadDevice, pinned: bool| (device == OffloadDevice::Cpu).then_some(Offload { pinned });
    Zero {
        stage: config.stage as u8,
        ranks: cell.world_size as u64,
        rank: None,
        offload_optimizer: offload(config.offload_optimizer_device, config.offload_optimizer_pin_memory),
        offload_param: offload(config.offload_param_device, config.offload_param_pin_memory),
        overlap_comm: config.overlaps(),
        contiguous_gradients: config.contiguous_gradients,
        reduce_scatter: config.reduce_scatter,
        round_robin_gradients: config.round_robin_gradients,
        reduce_bucket_size: size(config.reduce_bucket_size, hidden * hidden),
        sub_group_size: config.sub_group_size.0,
        // As Python's int(0.9 * hidden_size * hidden_size), whose factors are multiplied from the left.
        prefetch_bucket_size: size(
            config.stage3_prefetch_bucket_size,
            (0.9 * hidden as f64 * hidden as f64) as u64,
        ),
        param_persistence_threshold: size(config.stage3_param_persistence_threshold, 10 * hidden),
        model_persistence_threshold: size(config.stage3_model_persistence_threshold, NO_LIMIT),
        max_live_parameters: config.stage3_max_live_parameters.0,
        max_reuse_distance: config.stage3_max_reuse_distance.0,
        memory_efficient_linear: config.memory_efficient_linear,
        grad_accum_dtype: config.grad_accum_dtype.map(|dtype| Dtype::floating(dtype.into())),
        master_dtype: match config.bf16_master_weights_and_grads {
            true => Dtype::Bfloat16,
            false => Dtype::Float32,
        },
        init: config.stage == 3 && config.zero3_init_flag,
    }
}

/// How several processes exchange gradients. Trainer asks DDP to look for unused parameters, except of a model of
/// transformers' own that checkpoints (`_wrap_model` in `trainer.py`). DDP cannot where checkpoints are reentrant, so that
/// who trains so has asked it not to.
fn ddp(cell: &Cell, transformers: &Transformers) -> Ddp {
    let looks = match cell.gradient_checkpointing {
        Checkpointing::None => true,
        _ => cell.method().is_some() && !transformers.use_reentrant,
    };
    Ddp {
        find_unused_parameters: cell.torch.ddp_find_unused_parameters.unwrap_or(looks),
        bucket_cap_mb: cell.torch.ddp_bucket_cap_mb,
        gradient_as_bucket_view: cell.torch.gradient_as_bucket_view,
    }
}

/// Checks that gradients come to the blocks. A reentrant checkpoint gives none to a block whose input wants none, which
/// is so until something is trained before it.
fn check_reentrant(cell: &Cell, model: &ModelConfig, transformers: &Transformers) -> Result<(), Mistake> {
    let is_reentrant = transformers.use_reentrant && !transformers.requires_input_grads;
    if cell.method().is_some() || !is_reentrant {
        return Ok(());
    }
    let options = cell.model_options();
    let is_trained = |name: &str, module: &Module| {
        options.trains(&name, "weight") || module.bias.of(model) && options.trains(&name, "bias")
    };
    let mut embeddings = model.family.description().embeddings.iter();
    if embeddings.any(|module| is_trained(module.path, module)) {
        return Ok(());
    }
    for block in 0..model.num_hidden_layers {
        let mut within = model.modules().filter(|(name, _)| model.block_of(name) == Some(block));
        let is_trained = within.any(|(name, module)| is_trained(&name, module));
        match (cell.gradient_checkpointing.recomputes(block), is_trained) {
            (_, false) => {}
            (false, true) => return Ok(()),
            (true, true) => {
                let message = format!(
                    "block {block} is a reentrant checkpoint, and nothing before it is trained, so it gets no gradients"
                );
                return Err(Mistake::new(message).help("use `torch: { use_reentrant: false }`"));
            }
        }
    }
    Ok(())
}

/// Checks that DDP can look for unused parameters. A reentrant checkpoint hides those of its block until it is recomputed.
fn check_ddp(cell: &Cell, transformers: &Transformers) -> Result<(), Mistake> {
    let looks = cell.world_size > 1 && cell.torch.ddp_find_unused_parameters == Some(true);
    if !looks || cell.gradient_checkpointing == Checkpointing::None || !transformers.use_reentrant {
        return Ok(());
    }
    let message =
        "DDP cannot look for unused parameters where checkpoints are reentrant: training ends in its first step";
    Err(Mistake::new(message)
        .help("leave `torch.ddp_find_unused_parameters` out, or use `torch: { use_reentrant: false }`"))
}

/// Checks that there is such an FSDP, and that the class of blocks is one of the model's.
fn check_wrapped(cell: &Cell, model: &ModelConfig, pytorch: &Pytorch) -> Result<(), Mistake> {
    if cell.is_fsdp() && !pytorch.has_fsdp {
        let message = "FSDP before PyTorch 2.0 has not been studied";
        return Err(Mistake::new(message).help("use a newer `torch_version`, or `distributed: ddp`"));
    }
    if cell.is_fsdp() && cell.fsdp_config.version == 2 && !pytorch.has_fully_shard {
        let message = "accelerate has FSDP2 from PyTorch 2.6 on";
        return Err(Mistake::new(message).help("use `fsdp_config: { version: 1 }`, or a newer `torch_version`"));
    }
    let Some(named) = &cell.fsdp_config.transformer_layer_cls_to_wrap else {
        return Ok(());
    };
    let of_model = model.family.description().block_class();
    if *named == of_model {
        return Ok(());
    }
    let message = format!("FSDP would wrap no module: the model has none of class {named}; its blocks are {of_model}");
    Err(Mistake::new(message).help("leave `fsdp_config.transformer_layer_cls_to_wrap` out"))
}

/// Checks that it is known how a prefix gets into the cache.
fn check_prefix(cell: &Cell, transformers: &Transformers) -> Result<(), Mistake> {
    if !cell.method().is_some_and(Adapter::is_cached) || transformers.copies_into_cache {
        return Ok(());
    }
    let message =
        "how transformers before 4.56.0 puts the prefix of `prefix_tuning` into its cache has not been studied";
    Err(Mistake::new(message).help("use a newer `transformers_version`, or leave it out for today's"))
}

/// Checks that it is known how the release generates.
fn check_generation(cell: &Cell, transformers: &Transformers) -> Result<(), Mistake> {
    // Both since 5.0.0.
    if cell.torch.generation.is_none() || transformers.requires_input_grads {
        return Ok(());
    }
    let message = "how transformers before 5.0.0 generates has not been studied";
    Err(Mistake::new(message).help("leave `torch.generation` out, or use a newer `transformers_version`"))
}

/// Checks that the release takes memory of the GPU to save.
fn check_saves(cell: &Cell, bitsandbytes: &Bitsandbytes) -> Result<(), Mistake> {
    if cell.torch.save_steps.is_none() || bitsandbytes.copies_int8_to_save {
        return Ok(());
    }
    let message = "saving takes nothing of the GPU, but with bitsandbytes 0.38.0 to 0.39.0";
    Err(Mistake::new(message).help("leave `torch.save_steps` out, or write such a `torch.bitsandbytes_version`"))
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use options::{Generation, NamePattern, Stack};

    use super::*;

    /// What is said of a cell that trains some weights with reentrant checkpoints.
    fn told(trainable: &str, checkpointing: Checkpointing) -> Option<String> {
        let model = Preset::named("tiny").unwrap();
        let mut cell = Cell {
            stack: Stack::Torch,
            rank: 0,
            dtype: options::Dtype::Float32,
            trainable: Some(vec![NamePattern::new(trainable).unwrap()]),
            gradient_checkpointing: checkpointing,
            ..Cell::default()
        };
        cell.torch.use_reentrant = Some(true);
        cell.torch.transformers_version = Some("4.57.0".into());
        let made = torch_configuration(&cell, model.config(), None);
        made.err().map(|mistake| mistake.to_string())
    }

    /// Tiles, copies of them, and rows: three times the 8-bit weights while they save, and twice from then on.
    #[test]
    fn saving_copies_8_bit_weights() {
        let of = |version: &str, saves: bool| {
            let mut cell = Cell {
                stack: Stack::Torch,
                dtype: options::Dtype::Int8,
                model: "smollm2-135m".into(),
                attn_implementation: options::Attention::Eager,
                ..Cell::default()
            };
            cell.torch.transformers_version = Some("4.31.0".into());
            cell.torch.peft_version = Some("0.3.0".into());
            cell.torch.bitsandbytes_version = Some(version.into());
            cell.torch.save_steps = saves.then_some(1);
            torch_configuration(&cell, Preset::named("smollm2-135m").unwrap().config(), None)
        };
        let micro = torch::MicroBatchShape {
            batch: 1,
            len: 1,
            padded: false,
            apart: 0,
            unpadded: 0,
        };
        let account = |saves| {
            let configuration = of("0.38.1", saves).unwrap();
            trace::Account::of(&torch::trace(&configuration, &[&[micro]]), 512, 1)
        };
        let (plain, saved) = (account(false), account(true));
        // Per block q, o: 576 × 576, k, v: 192 × 576, gate, up, down: 1536 × 576, all of whole tiles.
        let weights = 30 * (2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576);
        assert_eq!(saved.at_end - plain.at_end, weights);
        // In the order of loading, a projection of values is the last.
        let untiled = 192 * 576;
        assert_eq!(saved.peak.bytes, plain.at_end + 2 * weights + untiled);
        assert_eq!(saved.peak.module.map(|module| module.name), Some("save"));
        let told = of("0.39.1", true).unwrap_err().to_string();
        assert!(told.contains("0.38.0 to 0.39.0"), "{told}");
    }

    #[test]
    fn zero_takes_its_sizes_from_the_model() {
        let of = |change: fn(&mut Cell)| {
            let mut cell = Cell {
                stack: Stack::Torch,
                dtype: options::Dtype::Bfloat16,
                distributed: Distributed::Deepspeed,
                ..Cell::default()
            };
            change(&mut cell);
            let made = torch_configuration(&cell, Preset::named("smollm2-135m").unwrap().config(), None).unwrap();
            match made.ranks {
                Some(Ranks::Zero(zero)) => (zero, made.adapter.map(|adapter| adapter.dtype)),
                other => panic!("{other:?}"),
            }
        };
        let (zero, adapter) = of(|_| ());
        // The hidden size is 576.
        assert_eq!((zero.reduce_bucket_size, zero.prefetch_bucket_size), (331_776, 298_598));
        assert_eq!(
            (zero.param_persistence_threshold, zero.model_persistence_threshold),
            (5760, NO_LIMIT)
        );
        assert_eq!(
            (zero.stage, zero.ranks, zero.overlap_comm, zero.init),
            (2, 1, false, false)
        );
        assert_eq!((zero.master_dtype, zero.offload_optimizer), (Dtype::Float32, None));
        assert_eq!(
            adapter,
            Some(options::Dtype::Bfloat16),
            "adapters are cast with the model"
        );
        let (zero, _) = of(|cell| {
            let config = &mut cell.zero_optimization;
            (config.stage, config.bf16_master_weights_and_grads) = (3, true);
            config.reduce_bucket_size = Some(Elements(7));
            (config.offload_param_device, config.offload_param_pin_memory) = (OffloadDevice::Cpu, false);
        });
        assert_eq!((zero.reduce_bucket_size, zero.overlap_comm, zero.init), (7, true, true));
        assert_eq!(
            (zero.master_dtype, zero.offload_param),
            (Dtype::Bfloat16, Some(Offload { pinned: false }))
        );
    }

    #[test]
    fn older_releases_generate_otherwise() {
        let told = |version: &str| {
            let mut cell = Cell {
                stack: Stack::Torch,
                ..Cell::default()
            };
            cell.torch.transformers_version = Some(version.into());
            cell.torch.generation = Some(Generation {
                eval_steps: 1,
                batch_size: 1,
                prompt_tokens: 1,
                max_new_tokens: 1,
            });
            let made = torch_configuration(&cell, Preset::named("tiny").unwrap().config(), None);
            made.err().map(|mistake| mistake.to_string())
        };
        assert_eq!(told("5.0.0"), None);
        assert!(told("4.57.6").unwrap().contains("before 5.0.0"));
    }

    #[test]
    fn older_caches_take_no_prefix() {
        let told = |version: &str| {
            let mut cell = Cell {
                stack: Stack::Torch,
                adapter: Adapter::PrefixTuning,
                ..Cell::default()
            };
            cell.torch.transformers_version = Some(version.into());
            let made = torch_configuration(&cell, Preset::named("tiny").unwrap().config(), None);
            made.err().map(|mistake| mistake.to_string())
        };
        assert_eq!(told("4.56.0"), None);
        assert!(told("4.55.4").unwrap().contains("before 4.56.0"));
    }

    #[test]
    fn reentrant_checkpoints_need_something_trained_before_them() {
        let full = Checkpointing::Full;
        let norms = told(".*norm", full.clone()).unwrap();
        assert!(norms.contains("block 0 is a reentrant checkpoint"), "{norms}");
        assert_eq!(told("embed_tokens", full.clone()), None);
        // Nothing in a block waits for a gradient.
        assert_eq!(told(r"model\.norm", full), None);
        let last = told(r"layers\.1\..*", Checkpointing::Every(2));
        assert_eq!(last, None, "block 1 is no checkpoint");
        let second = told(".*norm", Checkpointing::Every(2)).unwrap();
        assert!(second.contains("block 0"), "{second}");
    }
}
