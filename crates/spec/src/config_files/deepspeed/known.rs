//! The fields that DeepSpeed 0.19.8 has, and what becomes of each.

use base::text::{Mistake, nearest};

/// Maps whose fields are known.
pub(super) const SECTIONS: &[&str] = &[
    "zero_optimization",
    OFFLOAD_OPTIMIZER,
    OFFLOAD_PARAM,
    "optimizer",
    "optimizer.params",
    "bf16",
    "fp16",
    "data_types",
    "activation_checkpointing",
];

/// Fields that decide memory.
pub(super) const READ: &[&str] = &[
    TRAIN_BATCH,
    MICRO_BATCH,
    ACCUMULATION,
    "gradient_clipping",
    BF16,
    BF16_MASTER,
    BF16_STATES,
    FP16,
    GRAD_DTYPE,
    PARAM_DTYPE,
    OPTIMIZER,
    TORCH_ADAM,
    FUSED,
    "optimizer.params.lr",
    BETAS,
    "optimizer.params.eps",
    "optimizer.params.weight_decay",
    STAGE,
    "zero_optimization.overlap_comm",
    "zero_optimization.contiguous_gradients",
    "zero_optimization.reduce_scatter",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.sub_group_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_model_persistence_threshold",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.memory_efficient_linear",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_optimizer.pin_memory",
    "zero_optimization.offload_param.device",
    "zero_optimization.offload_param.pin_memory",
    "zero_optimization.cpu_offload",
    "zero_optimization.cpu_offload_param",
];

/// Fields that change no memory of a GPU.
pub(super) const IDLE: &[&str] = &[
    // Numbers of training: the learning rate's schedule, what gradients are divided by, the scale of the loss, and how
    // weights decay.
    "scheduler",
    "prescale_gradients",
    "gradient_predivide_factor",
    "gradient_allreduce_op",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
    "fp16.loss_scale_window",
    "fp16.hysteresis",
    "fp16.consecutive_hysteresis",
    "fp16.min_loss_scale",
    "optimizer.params.adam_w_mode",
    "optimizer.params.bias_correction",
    // Casts of inputs, which are ids.
    "fp16.auto_cast",
    "bf16.auto_cast",
    // Gradients are looked at where they are.
    "bf16.check_grad_overflow",
    // Of BF16_Optimizer, which is an error of the cell.
    "bf16.immediate_grad_update",
    // Permissions, and the optimizer on the CPU.
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "optimizer.params.fp32_optimizer_states",
    "zero_optimization.offload_optimizer.cpuadam_cores_perc",
    // Of what no model of transformers or no Trainer uses: DeepSpeed's data loader, pipelines, experts, parallel sequences,
    // checkpoints of blocks, optimizers without ZeRO.
    "dataloader_drop_last",
    "pipeline",
    "use_data_before_expert_parallelism",
    "seq_parallel_communication_data_type",
    "activation_checkpointing.number_checkpoints",
    "activation_checkpointing.synchronize_checkpoint_boundary",
    "activation_checkpointing.profile",
    "optimizer.legacy_fusion",
    "optimizer.params.set_grad_none",
    // What is logged, measured or warned of.
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "log_level",
    "timers",
    "tensorboard",
    "wandb",
    "comet",
    "csv_monitor",
    "comms_logger",
    "flops_profiler",
    "vocabulary_size",
    "zero_optimization.log_trace_cache_warnings",
    "zero_optimization.enable_sanity_checks",
    "zero_optimization.ignore_unused_parameters",
    // How a model is made, a training saved, and gone on with.
    "checkpoint",
    "nebula",
    "datastates_ckpt",
    "zero_optimization.override_module_apply",
    "zero_optimization.load_from_fp32_weights",
    "zero_optimization.elastic_checkpoint",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.pipeline_loading_checkpoint",
    // Of disks, which are an error by their device.
    "aio",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.buffer_count",
    "zero_optimization.offload_optimizer.pipeline_read",
    "zero_optimization.offload_optimizer.pipeline_write",
    "zero_optimization.offload_optimizer.fast_init",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.offload_param.max_in_cpu",
    "zero_optimization.save_muon_momentum_buffer_in_memory",
    // Read by DeepSpeed and not used; weights are gathered part by part, each where it belongs.
    "disable_allgather",
    "zero_optimization.allgather_partitions",
    "zero_optimization.allgather_bucket_size",
    "zero_optimization.cpu_offload_use_pin_memory",
];

/// Options of what is not planned, with the words that ask for nothing. A map asks for something if it is enabled.
pub(super) const UNPLANNED: &[(&str, &[&str], &str)] = &[
    (
        "communication_data_type",
        OFF,
        "gradients that are reduced in another format than they have are not planned",
    ),
    (
        "zero_optimization.compute_grad_norm",
        &["true"],
        "steps without the norm of gradients are not planned",
    ),
    (
        "zero_optimization.parameter_alignment",
        OFF,
        "parameters that are aligned in their flat tensor are not planned",
    ),
    (
        "managed_gradient_accumulation",
        &["true"],
        "micro-batches that a script counts itself are not planned",
    ),
    (
        "sparse_gradients",
        OFF,
        "sparse gradients of embeddings are not planned",
    ),
    ("sparse_attention", OFF, "sparse attention is not planned"),
    (
        "amp",
        OFF,
        "apex's amp is not planned, and DeepSpeed refuses it with ZeRO",
    ),
    ("torch_autocast", OFF, "autocast under DeepSpeed is not planned"),
    ("activation_checkpointing.partition_activations", OFF, OTHER_CHECKPOINTS),
    ("activation_checkpointing.cpu_checkpointing", OFF, OTHER_CHECKPOINTS),
    (
        "activation_checkpointing.contiguous_memory_optimization",
        OFF,
        OTHER_CHECKPOINTS,
    ),
    ("graph_harvesting", OFF, "CUDA graphs of the optimizer are not planned"),
    (
        "tensor_parallel",
        &["0", "1", "false"],
        "tensor parallelism is not planned",
    ),
    ("sequence_parallel_size", &["1"], "parallel sequences are not planned"),
    ("expert_parallel", OFF, "mixtures of experts are not planned"),
    ("compile", OFF, "code that torch.compile made is not planned"),
    ("compression_training", OFF, QUANTISED),
    ("quantize_training", OFF, QUANTISED),
    ("weight_quantization", OFF, QUANTISED),
    (
        "progressive_layer_drop",
        OFF,
        "layers that are left out while training are not planned",
    ),
    ("eigenvalue", OFF, "eigenvalues of blocks are not planned"),
    (
        "hybrid_engine",
        OFF,
        "generation by DeepSpeed between steps is not planned",
    ),
    ("curriculum_learning", OFF, GROWING),
    ("data_efficiency", OFF, GROWING),
    (
        "elasticity",
        OFF,
        "batches that follow the number of GPUs are not planned",
    ),
    ("autotuning", OFF, "a search for the configuration is not planned"),
    ("msamp", OFF, "training in 8-bit floating point is not planned"),
    (
        "fp16.fp16_master_weights_and_grads",
        OFF,
        "master weights in float16 are not planned",
    ),
    (
        "data_types.buffer_dtype",
        OFF,
        "buffers in another format than they are loaded in are not planned",
    ),
    (
        "optimizer.params.foreach",
        &["true"],
        "PyTorch's Adam under DeepSpeed is planned in one kernel or over all weights at once",
    ),
    (
        "optimizer.params.amsgrad",
        OFF,
        "Adam's third state (amsgrad) is not planned",
    ),
    (
        "optimizer.params.max_grad_norm",
        &[],
        "DeepSpeed refuses it here: it has `gradient_clipping` beside `optimizer`",
    ),
    (
        "zero_optimization.use_multi_rank_bucket_allreduce",
        &["true"],
        "gradients that are reduced to one GPU after the other are not planned",
    ),
    ("zero_optimization.stage3_module_granularity_threshold", &["0"], LEAVES),
    ("zero_optimization.leaf_module", OFF, LEAVES),
    (
        "zero_optimization.stage3_use_all_reduce_for_fetch_params",
        OFF,
        "weights that are gathered by sums are not planned",
    ),
    (
        "zero_optimization.stage3_allgather_sequential",
        OFF,
        "weights that are gathered one after the other are not planned",
    ),
    (
        "zero_optimization.legacy_stage1",
        OFF,
        "DeepSpeed refuses its old stage 1",
    ),
    (
        "zero_optimization.zero_hpz_partition_size",
        &["0", "1"],
        "ZeRO++'s second copy of the weights on each machine is not planned",
    ),
    ("zero_optimization.zero_quantized_weights", OFF, QUANTISED),
    ("zero_optimization.zero_quantized_nontrainable_weights", OFF, QUANTISED),
    ("zero_optimization.zero_quantized_gradients", OFF, QUANTISED),
    ("zero_optimization.zeropp_loco_param", OFF, QUANTISED),
    ("zero_optimization.mics_shard_size", &["-1", "0"], MICS),
    ("zero_optimization.mics_hierarchical_params_gather", OFF, MICS),
    ("zero_optimization.zenflow", OFF, "ZenFlow is not planned"),
    (
        "zero_optimization.offload_optimizer.ratio",
        &["1", "1.0"],
        "an optimizer on GPU and CPU is not planned",
    ),
    (
        "zero_optimization.offload_optimizer.super_offload",
        OFF,
        "SuperOffload is not planned",
    ),
];

const OFF: &[&str] = &["false"];
const OTHER_CHECKPOINTS: &str =
    "transformers' checkpoints of blocks are PyTorch's, which do not heed it; the cell has `gradient_checkpointing`";
const QUANTISED: &str = "weights and gradients that DeepSpeed quantises are not planned";
const GROWING: &str = "data that changes while training is not planned";
const LEAVES: &str = "modules whose weights are gathered together are not planned";
const MICS: &str = "MiCS, which shares among some of the GPUs, is not planned";

/// Other names of fields: older ones, and those without `stage3_`.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("bfloat16", "bf16"),
    (
        "zero_optimization.stage3_gather_fp16_weights_on_model_save",
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    ),
    (
        "zero_optimization.gather_16bit_weights_on_model_save",
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    ),
    (
        "zero_optimization.prefetch_bucket_size",
        "zero_optimization.stage3_prefetch_bucket_size",
    ),
    (
        "zero_optimization.param_persistence_threshold",
        "zero_optimization.stage3_param_persistence_threshold",
    ),
    (
        "zero_optimization.model_persistence_threshold",
        "zero_optimization.stage3_model_persistence_threshold",
    ),
    (
        "zero_optimization.max_live_parameters",
        "zero_optimization.stage3_max_live_parameters",
    ),
    (
        "zero_optimization.max_reuse_distance",
        "zero_optimization.stage3_max_reuse_distance",
    ),
    (
        "zero_optimization.module_granularity_threshold",
        "zero_optimization.stage3_module_granularity_threshold",
    ),
    (
        "zero_optimization.use_all_reduce_for_fetch_params",
        "zero_optimization.stage3_use_all_reduce_for_fetch_params",
    ),
    (
        "zero_optimization.allgather_sequential",
        "zero_optimization.stage3_allgather_sequential",
    ),
];

/// Fields that may be "auto", which the Trainer and accelerate fill in. Of others accelerate refuses it.
pub(super) const FILLED_IN: &[&str] = &[
    TRAIN_BATCH,
    MICRO_BATCH,
    ACCUMULATION,
    "gradient_clipping",
    BF16,
    FP16,
    "optimizer.params.lr",
    BETAS,
    "optimizer.params.eps",
    "optimizer.params.weight_decay",
    "scheduler.params.warmup_min_lr",
    "scheduler.params.warmup_max_lr",
    "scheduler.params.warmup_num_steps",
    "scheduler.params.total_num_steps",
    STAGE,
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_param.device",
    "zero_optimization.offload_param.nvme_path",
];

pub(super) const TRAIN_BATCH: &str = "train_batch_size";
pub(super) const MICRO_BATCH: &str = "train_micro_batch_size_per_gpu";
pub(super) const ACCUMULATION: &str = "gradient_accumulation_steps";
pub(super) const BF16: &str = "bf16.enabled";
pub(super) const FP16: &str = "fp16.enabled";
pub(super) const BF16_MASTER: &str = "bf16.bf16_master_weights_and_grads";
pub(super) const BF16_STATES: &str = "bf16.bf16_optimizer_states";
pub(super) const GRAD_DTYPE: &str = "data_types.grad_accum_dtype";
pub(super) const PARAM_DTYPE: &str = "data_types.param_dtype";
pub(super) const OPTIMIZER: &str = "optimizer.type";
pub(super) const TORCH_ADAM: &str = "optimizer.params.torch_adam";
pub(super) const FUSED: &str = "optimizer.params.fused";
pub(super) const BETAS: &str = "optimizer.params.betas";
pub(super) const STAGE: &str = "zero_optimization.stage";
pub(super) const OFFLOAD_OPTIMIZER: &str = "zero_optimization.offload_optimizer";
pub(super) const OFFLOAD_PARAM: &str = "zero_optimization.offload_param";

/// The mistake of a field that DeepSpeed does not have.
pub(super) fn unknown(section: &str, name: &str) -> Mistake {
    let all = SECTIONS.iter().chain(READ).chain(IDLE).copied();
    let all = all
        .chain(UNPLANNED.iter().map(|(known, ..)| *known))
        .chain(RENAMED.iter().map(|(older, _)| *older));
    let beside = all.filter_map(|known| match known.rsplit_once('.') {
        Some((around, last)) => (around == section).then_some(last),
        None => section.is_empty().then_some(known),
    });
    let near = nearest(name, beside).map(|near| format!("did you mean `{near}`?"));
    Mistake::new("DeepSpeed 0.19.8 has no such field").help_if(near)
}
