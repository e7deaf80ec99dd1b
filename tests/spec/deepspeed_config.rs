//! `deepspeed_config`: what DeepSpeed's files stand for, beside keys and beside accelerate's file, and what is wrong with some.

use std::fs;

use expctl::cell::Cell;
use expctl::options::{Autocast, Distributed, Dtype, Elements, FloatDtype, OffloadDevice, Optimizer};
use expctl::spec::{self, Overrides, SpecError, Study};

/// transformers' `tests/deepspeed/ds_config_zero3.json`, with the optimizer on the CPU.
const ZERO3: &str = r#"{
    "fp16": {
        "enabled": "auto",
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "initial_scale_power": 16,
        "hysteresis": 2,
        "min_loss_scale": 1
    },
    "bf16": {
        "enabled": true
    },
    "optimizer": {
        "type": "AdamW",
        "params": {
            "lr": "auto",
            "betas": [0.9, 0.95],
            "eps": "auto",
            "weight_decay": 0.1
        }
    },
    "scheduler": {
        "type": "WarmupLR",
        "params": {
            "warmup_min_lr": "auto",
            "warmup_max_lr": "auto",
            "warmup_num_steps": "auto"
        }
    },
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {
            "device": "cpu",
            "pin_memory": false
        },
        "offload_param": {
            "device": "none",
            "pin_memory": true
        },
        "overlap_comm": true,
        "contiguous_gradients": true,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": 5e7,
        "stage3_max_live_parameters": 1e8,
        "stage3_gather_16bit_weights_on_model_save": true
    },
    "gradient_accumulation_steps": 4,
    "gradient_clipping": "auto",
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": false
}
"#;

/// Nothing but what a file must have.
const LEAST: &str =
    r#"{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}"#;

/// The cells of a spec beside these files; `keys` are of its defaults.
fn study(files: &[(&str, &str)], keys: &str) -> Result<Study, SpecError> {
    let dir = tempfile::tempdir().unwrap();
    for (name, file) in files {
        fs::write(dir.path().join(name), file).unwrap();
    }
    let rank = if keys.contains("rank") { "" } else { ", rank: 0" };
    let text = format!("name: x\ndefaults: {{model: tiny, stack: torch{rank}{keys}}}\n");
    spec::parse(&dir.path().join("x.yaml"), &text, &Overrides::default())
}

fn only(study: Result<Study, SpecError>) -> Cell {
    let study = study.unwrap_or_else(|error| panic!("{error}"));
    study.cells[0].cell.clone()
}

fn cell(file: &str, keys: &str) -> Cell {
    only(study(
        &[("ds.json", file)],
        &format!(", deepspeed_config: ds.json{keys}"),
    ))
}

fn told(files: &[(&str, &str)], keys: &str) -> String {
    study(files, keys).map_or_else(|error| error.to_string(), |_| "valid".into())
}

#[test]
fn a_file_stands_for_its_keys() {
    let read = cell(ZERO3, ", world_size: 2, batch_size: 3");
    let written = only(study(
        &[],
        ", world_size: 2, batch_size: 3, distributed: deepspeed, dtype: bfloat16, gradient_accumulation_steps: 4, optim: \
         adamw_torch_fused, adam_beta2: 0.95, weight_decay: 0.1, zero_optimization: {stage: 3, offload_optimizer_device: \
         cpu, offload_optimizer_pin_memory: false, stage3_prefetch_bucket_size: 5e7, stage3_max_live_parameters: 1e8, \
         stage3_param_persistence_threshold: 1e5}",
    ));
    assert_eq!(read.id(), written.id(), "{}\n{}", read.to_yaml(), written.to_yaml());
    assert_eq!(read.deepspeed_config.as_deref(), Some("ds.json"));
}

#[test]
fn what_is_left_out_is_deepspeed_s_own_and_auto_is_the_cell_s() {
    let left_out = cell(LEAST, ", batch_size: 3");
    let zero = &left_out.zero_optimization;
    assert_eq!(zero.reduce_bucket_size, Some(Elements(500_000_000)));
    assert_eq!(zero.stage3_prefetch_bucket_size, None, "stage 2 has none");
    assert_eq!((left_out.batch_size, left_out.gradient_accumulation_steps), (3, 1));
    assert_eq!(left_out.max_grad_norm, 1.0);
    assert_eq!(left_out.optim, Optimizer::Adamw, "the Trainer's");
    let auto = LEAST.replace(r#""stage": 2"#, r#""stage": "auto", "reduce_bucket_size": "auto""#);
    let auto = auto.replace("true", r#""auto""#).replace(
        r#""bf16""#,
        r#""gradient_clipping": "auto", "gradient_accumulation_steps": "auto", "bf16""#,
    );
    let auto = cell(
        &auto,
        ", dtype: float16, max_grad_norm: 0.5, gradient_accumulation_steps: 7, zero_optimization: {stage: 1}",
    );
    assert_eq!((auto.dtype, auto.max_grad_norm), (Dtype::Float16, 0.5));
    assert_eq!(auto.gradient_accumulation_steps, 7);
    assert_eq!(
        (auto.zero_optimization.stage, auto.zero_optimization.reduce_bucket_size),
        (1, None)
    );
    let plain = LEAST.replace("true", "false");
    assert_eq!(cell(&plain, "").dtype, Dtype::Float32);
    let half = LEAST.replace("bf16", "fp16");
    assert_eq!(cell(&half, "").dtype, Dtype::Float16);
    let int4 = cell(LEAST, ", dtype: int4, rank: 8, bnb_4bit_compute_dtype: bfloat16");
    assert_eq!(
        (int4.dtype, int4.bnb_4bit_compute_dtype),
        (Dtype::Int4, FloatDtype::Bfloat16)
    );
}

#[test]
fn older_names_and_torch_s_adam_are_read() {
    let zero = |fields: &str| {
        let file = LEAST.replace(r#""stage": 2"#, &format!(r#""stage": 3, {fields}"#));
        cell(&file, "").zero_optimization
    };
    assert_eq!(
        zero(r#""cpu_offload": true"#).offload_optimizer_device,
        OffloadDevice::Cpu
    );
    assert_eq!(
        zero(r#""cpu_offload_param": true"#).offload_param_device,
        OffloadDevice::Cpu
    );
    assert_eq!(
        zero(r#""prefetch_bucket_size": 7"#).stage3_prefetch_bucket_size,
        Some(Elements(7))
    );
    let accumulated = LEAST.replace(r#""bf16""#, r#""data_types": {"grad_accum_dtype": "fp32"}, "bf16""#);
    let accumulated = accumulated.replace(r#""stage": 2"#, r#""stage": 3"#);
    assert_eq!(
        cell(&accumulated, "").zero_optimization.grad_accum_dtype,
        Some(FloatDtype::Float32)
    );
    let optim = |fields: &str| {
        let file = LEAST.replace(r#""bf16""#, &format!(r#""optimizer": {{{fields}}}, "bf16""#));
        cell(&file, "").optim
    };
    assert_eq!(
        optim(r#""type": "Adam", "params": {"torch_adam": true}"#),
        Optimizer::Adamw
    );
    assert_eq!(optim(r#""type": "Lion""#), Optimizer::Lion);
}

#[test]
fn a_micro_batch_follows_from_the_whole_batch() {
    let whole = LEAST.replace(
        r#""train_micro_batch_size_per_gpu": "auto""#,
        r#""train_batch_size": 24, "gradient_accumulation_steps": 3"#,
    );
    assert_eq!(cell(&whole, ", world_size: 2").batch_size, 4);
    let told = told(&[("ds.json", &whole)], ", deepspeed_config: ds.json, world_size: 5");
    assert!(
        told.contains("24 is not 1 samples in 3 micro-batches on each of 5 GPUs"),
        "{told}"
    );
}

/// The Trainer has no keys of ZeRO's own, which a sweep may vary.
#[test]
fn keys_of_zero_beside_a_file_have_the_last_word() {
    let read = cell(ZERO3, ", zero_optimization: {stage: 2, reduce_bucket_size: 1e6}");
    let zero = &read.zero_optimization;
    assert_eq!((zero.stage, zero.reduce_bucket_size), (2, Some(Elements(1_000_000))));
    assert_eq!(zero.stage3_max_live_parameters, Elements(1_000_000_000), "stage 3's");
    let same = cell(ZERO3, ", dtype: bfloat16, gradient_accumulation_steps: 4");
    assert_eq!(same.id(), cell(ZERO3, "").id());
    for (keys, expected) in [
        (
            ", gradient_accumulation_steps: 2",
            "another value than that of `gradient_accumulation_steps`",
        ),
        (", dtype: float16", "dtype: another value than that of `bf16.enabled`"),
        (", distributed: ddp, world_size: 2", "distributed: another value"),
        (", optim: sgd", "another value than that of `optimizer.type`"),
        (", autocast: bfloat16", "write `dtype: bfloat16`"),
        (
            ", batch_size: 3, adapter_dtype: bfloat16, rank: 8",
            "DeepSpeed casts adapters",
        ),
    ] {
        let told = told(&[("ds.json", ZERO3)], &format!(", deepspeed_config: ds.json{keys}"));
        assert!(told.contains(expected), "{keys}: {told}");
    }
    let unclipped = told(&[("ds.json", LEAST)], ", deepspeed_config: ds.json, max_grad_norm: 0");
    assert!(unclipped.contains("max_grad_norm: another value"), "{unclipped}");
}

const ACCELERATE: &str = "\
compute_environment: LOCAL_MACHINE
deepspeed_config:
  deepspeed_multinode_launcher: standard
  gradient_accumulation_steps: 2
  gradient_clipping: 0.5
  offload_optimizer_device: none
  offload_param_device: cpu
  zero3_init_flag: false
  zero3_save_16bit_model: true
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 4
";

#[test]
fn accelerate_s_file_may_stand_for_zero_or_for_a_file() {
    let files = [("accelerate.yaml", ACCELERATE)];
    let read = only(study(&files, ", accelerate_config: accelerate.yaml"));
    let zero = &read.zero_optimization;
    assert_eq!((read.distributed, read.world_size), (Distributed::Deepspeed, 4));
    assert_eq!((read.dtype, read.autocast), (Dtype::Bfloat16, Autocast::None));
    assert_eq!((read.gradient_accumulation_steps, read.max_grad_norm), (2, 0.5));
    assert_eq!((zero.stage, zero.offload_param_device), (3, OffloadDevice::Cpu));
    assert_eq!(
        (zero.reduce_bucket_size, zero.stage3_param_persistence_threshold),
        (Some(Elements(500_000_000)), Some(Elements(100_000))),
        "the plugin leaves them out"
    );
    assert!(zero.zero3_init_flag, "the Trainer does not look at accelerate's");
    let stage2 = ", accelerate_config: accelerate.yaml, zero_optimization: {stage: 2}, gradient_accumulation_steps: 1";
    let swept = only(study(&files, stage2));
    assert_eq!(swept.zero_optimization.offload_param_device, OffloadDevice::None);
    assert_eq!(swept.gradient_accumulation_steps, 1, "a key has the last word");

    let named = "deepspeed_config: {deepspeed_config_file: ds.json, zero3_init_flag: true}\ndistributed_type: \
                 DEEPSPEED\nnum_processes: 2\n";
    let files = [("accelerate.yaml", named), ("ds.json", ZERO3)];
    let read = only(study(&files, ", accelerate_config: accelerate.yaml"));
    assert_eq!(read.id(), cell(ZERO3, ", world_size: 2").id());
    let told_without = told(&files[..1], ", accelerate_config: accelerate.yaml");
    assert!(told_without.contains("accelerate.yaml:1:"), "{told_without}");
    for (file, expected) in [
        (
            named.replace("zero3_init_flag: true", "zero_stage: 2"),
            "zero_stage: accelerate refuses it beside `deepspeed_config_file`",
        ),
        (
            format!("{named}mixed_precision: bf16\n"),
            "mixed_precision: accelerate refuses it",
        ),
        (ACCELERATE.replace("zero_stage: 3", "zero_stage: 0"), "shares nothing"),
        (
            ACCELERATE.replace("zero_stage: 3", "zero_stage: 4"),
            "ZeRO has no stage `4`",
        ),
        (ACCELERATE.replace("zero_stage: 3", "zero_stage: 2"), "the stage is 2"),
        (
            ACCELERATE.replace("device: cpu", "device: nvme"),
            "(nvme) is not planned",
        ),
        (
            ACCELERATE.replace("device: cpu", "device: gpu"),
            "there is no device `gpu`",
        ),
        (
            ACCELERATE.replace("clipping: 0.5", "clipping: much"),
            "a number is expected",
        ),
        (
            ACCELERATE.replace("DEEPSPEED", "MULTI_GPU"),
            "the launcher uses DeepSpeed with `distributed_type: DEEPSPEED` alone",
        ),
    ] {
        let told = told(
            &[("accelerate.yaml", &file), ("ds.json", ZERO3)],
            ", accelerate_config: accelerate.yaml",
        );
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let plain = ACCELERATE
        .replace("bf16", "'no'")
        .replace("zero_stage: 3", "zero_stage: 2");
    let plain = plain.replace("device: cpu", "device: none");
    let keys = ", accelerate_config: accelerate.yaml, dtype: int4, rank: 8";
    let uncast = told(&[("accelerate.yaml", &plain)], keys);
    assert!(uncast.contains("DeepSpeed casts nothing by it"), "{uncast}");
}

#[test]
fn mistakes_show_their_place_in_the_file() {
    let zero = |fields: &str| LEAST.replace(r#""stage": 2"#, &format!("\"stage\": 2,\n    {fields}"));
    let top = |fields: &str| LEAST.replace(r#""bf16""#, &format!("\n  {fields},\n  \"bf16\""));
    for (file, expected) in [
        (zero(r#""overlap_com": true"#), "did you mean `overlap_comm`?"),
        (
            zero(r#""overlap_comm": "auto""#),
            "the Trainer fills nothing in for \"auto\" here",
        ),
        (zero(r#""overlap_comm": 3"#), "true or false is expected"),
        (
            zero(r#""reduce_bucket_size": 0.5"#),
            "a whole number of 0 or more is expected",
        ),
        (zero(r#""offload_param": {"device": "cpu"}"#), "the stage is 2"),
        (
            zero(r#""offload_optimizer": {"device": "nvme", "nvme_path": "/x"}"#),
            "offloading to a disk (nvme) is not planned",
        ),
        (
            zero(r#""offload_optimizer": {"device": "tpu"}"#),
            "DeepSpeed has no device `tpu`",
        ),
        (
            zero(r#""offload_optimizer": {"device": "cpu", "ratio": 0.5}"#),
            "on GPU and CPU",
        ),
        (zero(r#""offload_optimizer": true"#), "a map of fields is expected"),
        (
            zero(r#""cpu_offload": true, "offload_optimizer": {"device": "cpu"}"#),
            "an older name of `zero_optimization.offload_optimizer`",
        ),
        (
            zero(r#""prefetch_bucket_size": 1, "stage3_prefetch_bucket_size": 1"#),
            "here twice",
        ),
        (zero(r#""zero_quantized_weights": true"#), "DeepSpeed quantises"),
        (zero(r#""zero_hpz_partition_size": 8"#), "second copy of the weights"),
        (zero(r#""mics_shard_size": 4"#), "MiCS"),
        (zero(r#""zenflow": {"topk_ratio": 0.1}"#), "ZenFlow is not planned"),
        (zero(r#""stage": 3"#), "`stage` is here twice"),
        (
            LEAST.replace(r#""stage": 2"#, r#""stage": 0"#),
            "use 1, 2 or 3, or `distributed: ddp`",
        ),
        (LEAST.replace(r#""stage": 2"#, r#""stage": 4"#), "ZeRO has no stage 4"),
        (LEAST.replace(r#"{"stage": 2}"#, "true"), "a map of fields is expected"),
        (
            top(r#""fp16": {"enabled": true}"#),
            "DeepSpeed refuses bf16 and fp16 at once",
        ),
        (
            top(r#""data_types": {"param_dtype": "fp16"}"#),
            "`bf16` and `fp16` say bfloat16",
        ),
        (
            top(r#""data_types": {"grad_accum_dtype": "fp64"}"#),
            "there is no format `fp64`",
        ),
        (
            top(r#""train_batch_size": 9"#),
            "9 is not 1 samples in 1 micro-batches on each of 1 GPUs, which are 1",
        ),
        (top(r#""train_batch_size": 0"#), "a whole number from 1 on is expected"),
        (
            top(r#""optimizer": {"type": "OneBitAdam"}"#),
            "planned are Adam, AdamW and Lion",
        ),
        (top(r#""optimizer": {"params": {}}"#), "it has no `type`"),
        (
            top(r#""optimizer": {"type": "Adam", "params": {"betas": 0.9}}"#),
            "two numbers in a list are expected",
        ),
        (
            top(r#""optimizer": {"type": "Adam", "params": {"amsgrad": true}}"#),
            "amsgrad",
        ),
        (
            top(r#""optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}}"#),
            "it has `gradient_clipping` beside `optimizer`",
        ),
        (top(r#""gradient_clipping": "much""#), "a number is expected"),
        (
            top(r#""torch_autocast": {"enabled": true}"#),
            "autocast under DeepSpeed",
        ),
        (top(r#""amp": {"enabled": true}"#), "apex's amp"),
        (top(r#""tensor_parallel": {"autotp_size": 2}"#), "tensor parallelism"),
        (top(r#""sparse_gradients": true"#), "sparse gradients"),
        (
            top(r#""activation_checkpointing": {"partition_activations": true}"#),
            "the cell has `gradient_checkpointing`",
        ),
        (
            top(r#""scheduler": {"type": "x", "params": {"last_batch_iteration": "auto"}}"#),
            "\"auto\" here",
        ),
        (top(r#""moe": {}"#), "DeepSpeed 0.19.8 has no such field"),
        (
            top(r#""wall_clock_breakdwon": true"#),
            "did you mean `wall_clock_breakdown`?",
        ),
        (
            LEAST.replace("train_micro_batch_size_per_gpu", "log_level"),
            "\"auto\" here",
        ),
        (r#"{"zero_optimization": {"stage": 1}}"#.into(), "and neither is here"),
        (r#"{"train_batch_size": 1}"#.into(), "it has no `zero_optimization`"),
        (
            "train_batch_size: 1".into(),
            "not a configuration of DeepSpeed: expected ident",
        ),
        (r#"{"train_batch_size": 1,}"#.into(), "trailing comma"),
        ("[1]".into(), "not a configuration of DeepSpeed, but a list"),
    ] {
        let told = told(&[("ds.json", &file)], ", deepspeed_config: ds.json");
        assert!(told.contains(expected), "{expected}: {told}");
        assert!(told.contains("ds.json:"), "{told}");
    }
    let uncast = LEAST.replace("true", "false");
    let uncast = told(
        &[("ds.json", &uncast)],
        ", deepspeed_config: ds.json, dtype: int4, rank: 8",
    );
    assert!(uncast.contains("enable bf16 in the file"), "{uncast}");
}

#[test]
fn what_asks_for_nothing_is_read_over() {
    let file = LEAST.replace(
        r#""bf16""#,
        r#""amp": {"enabled": false, "opt_level": "O1"}, "tensorboard": {"enabled": true, "job_name": "x"}, "compile": {},
        "flops_profiler": {"enabled": false}, "comms_logger": {"enabled": false}, "aio": {"block_size": 1048576},
        "activation_checkpointing": {"partition_activations": false, "number_checkpoints": null}, "bf16""#,
    );
    assert_eq!(cell(&file, "").id(), cell(LEAST, "").id());
}
