//! `accelerate_config`: what the files of `accelerate config` stand for, and what is wrong with some.

use std::fs;

use expctl::options::{AutoWrapPolicy, Autocast, BackwardPrefetch, Checkpointing, Distributed, ShardingStrategy};
use expctl::spec::{self, Overrides, SpecError, Study};

/// The file as accelerate 1.15 writes it for FSDP's version 1, with a class that older releases ask for.
const FSDP: &str = "\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch: BACKWARD_POST
  fsdp_cpu_ram_efficient_loading: true
  fsdp_forward_prefetch: true
  fsdp_offload_params: false
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_sync_module_states: true
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_use_orig_params: false
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 8
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
";

const FSDP2: &str = "\
distributed_type: FSDP
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch: NO_PREFETCH
  fsdp_reshard_after_forward: false
  fsdp_sharding_strategy: HYBRID_SHARD
  fsdp_version: 2
mixed_precision: 'no'
num_processes: 4
parallelism_config:
  parallelism_config_cp_size: 1
";

/// The cells of a spec beside this file; `keys` are others of its defaults.
fn study(file: &str, keys: &str) -> Result<Study, SpecError> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("accelerate.yaml"), file).unwrap();
    let rank = if keys.contains("rank") { "" } else { ", rank: 0" };
    let text = format!(
        "name: x\ndefaults: {{model: tiny, stack: torch, dtype: bfloat16, accelerate_config: \
         accelerate.yaml{rank}{keys}}}\n"
    );
    spec::parse(&dir.path().join("x.yaml"), &text, &Overrides::default())
}

fn cell(file: &str, keys: &str) -> expctl::cell::Cell {
    let study = study(file, keys).unwrap_or_else(|error| panic!("{error}"));
    study.cells[0].cell.clone()
}

#[test]
fn a_file_stands_for_its_keys() {
    let read = cell(FSDP, "");
    let written = cell(
        "distributed_type: NO",
        ", world_size: 8, distributed: fsdp, autocast: bfloat16, fsdp_config: {sharding_strategy: shard_grad_op, \
         backward_prefetch: backward_post, forward_prefetch: true, use_orig_params: false, \
         transformer_layer_cls_to_wrap: LlamaDecoderLayer}",
    );
    assert_eq!(read, written);
    let read = cell(FSDP2, "");
    let fsdp = &read.fsdp_config;
    assert_eq!((fsdp.version, fsdp.reshard_after_forward), (2, Some(false)));
    assert_eq!(
        (fsdp.sharding_strategy, read.autocast, read.world_size),
        (ShardingStrategy::FullShard, Autocast::None, 4),
        "accelerate heeds no strategy of version 2"
    );
}

#[test]
fn what_is_left_out_is_the_launcher_s_own() {
    let fsdp = |fields: &str, keys: &str| {
        let fields = fields.replace('|', "\n  ");
        cell(
            &format!("distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  {fields}\n"),
            keys,
        )
    };
    let whole = fsdp("fsdp_offload_params: false", "");
    assert_eq!(whole.fsdp_config.auto_wrap_policy, AutoWrapPolicy::NoWrap);
    let adapted = fsdp("fsdp_offload_params: false", ", rank: 8").fsdp_config;
    assert_eq!(
        adapted.auto_wrap_policy,
        AutoWrapPolicy::TransformerBasedWrap,
        "PEFT wraps a model with adapters"
    );
    let wrapped = "fsdp_auto_wrap_policy: transformer_based_wrap";
    let prefetch = |fields: &str| fsdp(&format!("{wrapped}{fields}"), "").fsdp_config.backward_prefetch;
    assert_eq!(prefetch(""), BackwardPrefetch::NoPrefetch);
    assert_eq!(
        prefetch("|fsdp_backward_prefetch_policy: BACKWARD_PRE"),
        BackwardPrefetch::NoPrefetch,
        "a name that 1.15 does not read"
    );
    assert_eq!(prefetch("|backward_prefetch: 2"), BackwardPrefetch::BackwardPost);
    let checkpointed = fsdp(&format!("{wrapped}|fsdp_activation_checkpointing: 'True'"), "");
    assert_eq!(checkpointed.gradient_checkpointing, Checkpointing::Full);
    assert_eq!(checkpointed.fsdp_config.activation_checkpointing, Some(true));
    let strategy = |fields: &str| fsdp(&format!("{wrapped}|{fields}"), "").fsdp_config;
    assert_eq!(
        strategy("fsdp_sharding_strategy: 3").sharding_strategy,
        ShardingStrategy::NoShard
    );
}

#[test]
fn what_asks_for_nothing_is_read_over() {
    let read = cell(
        "distributed_type: MULTI_GPU\nnum_processes: 2\nfp16: true\nfsdp_config: {}\ndeepspeed_config: {}\ndynamo_config: \
         {dynamo_backend: 'NO', dynamo_mode: default}\nparallelism_config: {parallelism_config_dp_shard_size: 2, \
         parallelism_config_tp_size: 1, parallelism_config_cp_comm_strategy: allgather}\n",
        "",
    );
    assert_eq!((read.world_size, read.autocast), (2, Autocast::Float16));
}

/// Cells without adapters leave `adapter_config` out, and that alone.
#[test]
fn rank_0_of_a_sweep_has_the_file_as_well() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("accelerate.yaml"), FSDP2).unwrap();
    let text = "name: x\ndefaults: {model: tiny, stack: torch, dtype: bfloat16}\nsweep: {grid: {rank: [0, 8], \
                accelerate_config: [accelerate.yaml, null]}}\n";
    let study = spec::parse(&dir.path().join("x.yaml"), text, &Overrides::default()).unwrap();
    let sizes: Vec<usize> = study.cells.iter().map(|cell| cell.cell.world_size).collect();
    assert_eq!(sizes, [4, 1, 4, 1]);
}

#[test]
fn machines_are_those_of_hybrid_sharding() {
    let of = |strategy: &str| {
        let fields = format!(
            "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 2\nfsdp_config: {{fsdp_auto_wrap_policy: \
             TRANSFORMER_BASED_WRAP, fsdp_sharding_strategy: {strategy}}}\n"
        );
        cell(&fields, "").fsdp_config.num_machines
    };
    assert_eq!((of("HYBRID_SHARD"), of("FULL_SHARD")), (2, 1));
}

#[test]
fn keys_beside_a_file_have_the_last_word() {
    let read = cell(FSDP, ", world_size: 2, fsdp_config: {sharding_strategy: full_shard}");
    assert_eq!((read.world_size, read.autocast), (2, Autocast::Bfloat16));
    assert_eq!(read.fsdp_config.sharding_strategy, ShardingStrategy::FullShard);
    assert!(!read.fsdp_config.use_orig_params);
    let alone = cell("distributed_type: MULTI_GPU\ngpu_ids: all\n", ", world_size: 2");
    assert_eq!((alone.world_size, alone.distributed), (2, Distributed::Ddp));
}

#[test]
fn a_cell_is_named_for_what_its_file_says() {
    let renamed = cell(FSDP2, "").id();
    let written = cell(
        "distributed_type: NO",
        ", world_size: 4, distributed: fsdp, fsdp_config: {version: 2, reshard_after_forward: false}",
    );
    assert_eq!(renamed, written.id());
}

#[test]
fn what_is_not_planned_is_said() {
    let told = |file: &str| study(file, "").err().map(|error| error.to_string()).unwrap_or_default();
    for (file, expected) in [
        (FSDP.replace("SHARD_GRAD_OP", "FULL_SHRAD"), "did you mean FULL_SHARD?"),
        (
            FSDP.replace("num_processes", "num_proceses"),
            "did you mean `num_processes`?",
        ),
        (FSDP.replace("fsdp_use_orig", "use_orig_parms_fsdp"), "unknown field"),
        (
            FSDP.replace("num_processes: 8", "num_processes: many"),
            "a whole number from 1 on is expected",
        ),
        (
            FSDP.replace("mixed_precision: bf16", "mixed_precision: fp8"),
            "`fp8` is not planned",
        ),
        (
            FSDP.replace("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"),
            "units by size are not planned",
        ),
        (
            FSDP.replace("use_cpu: false", "use_cpu: true"),
            "on the CPU is not planned",
        ),
        (
            FSDP.replace("fsdp_forward_prefetch: true", "fsdp_forward_prefetch: perhaps"),
            "true or false is expected",
        ),
        (
            FSDP.replace("distributed_type: FSDP", "distributed_type: XLA"),
            "`XLA` is not planned",
        ),
        (
            FSDP.replace("distributed_type: FSDP", "distributed_type: NO"),
            "one process alone",
        ),
        (
            FSDP.replace("num_processes: 8", "num_processes: 1"),
            "one process shares nothing",
        ),
        (
            FSDP.replace("mixed_precision: bf16", "mixed_precision: {a: 1}"),
            "a word or a number is expected, not a map",
        ),
        (
            FSDP.replace("SHARD_GRAD_OP", "[NO_SHARD]"),
            "a word or a number is expected, not a list",
        ),
        ("distributed_type: [FSDP]\n".into(), "a word or a number is expected"),
        (
            "distributed_type: FSDP\nfsdp_config: text\n".into(),
            "a map of fields is expected",
        ),
        (FSDP2.replace("cp_size: 1", "tp_size: 2"), "parallelism of tensors"),
        (FSDP2.replace("TRANSFORMER_BASED_WRAP", "NO_WRAP"), "blocks as units"),
        (FSDP2.replace("fsdp_version: 2", "fsdp_version: 3"), "there is no FSDP3"),
        (
            "deepspeed_config: {zero_stages: 3}\ndistributed_type: DEEPSPEED\n".into(),
            "did you mean `zero_stage`?",
        ),
        (
            "distributed_type: MULTI_GPU\ndynamo_config: {dynamo_backend: INDUCTOR}\n".into(),
            "torch.compile",
        ),
        ("model: tiny\n".into(), "unknown field"),
        ("debug: false\n".into(), "it has no `distributed_type`"),
        ("- a\n".into(), "but a list"),
        (String::new(), "not a configuration of accelerate"),
        ("a: [\n".into(), "accelerate.yaml"),
    ] {
        let told = told(&file);
        assert!(told.contains(expected), "{expected}: {told}");
        assert!(told.contains("accelerate.yaml:"), "{told}");
    }
}
