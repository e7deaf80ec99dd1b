//! Plans of one of several processes.

use crate::common::project::Project;

/// Bytes of gradients, and of their buckets, at the peak.
fn gradients(arguments: &[&str]) -> u64 {
    let model = [
        "plan",
        "--model",
        "smollm2-135m",
        "--data",
        "synthetic",
        "--format",
        "json",
    ];
    let full = ["--set", "rank=0", "--set", "dtype=bfloat16"];
    let output = Project::empty().expctl(&[&model[..], &full, arguments].concat());
    let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let bytes = rows[0]["predicted_allocated_peak_gradient_bytes"].as_u64();
    bytes.unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn each_rank_holds_its_gradients_once_more() {
    let alone = gradients(&[]);
    assert_eq!(alone, 2 * 134_515_008);
    for gpu in ["2xa100-80gb", "8×a100-80gb"] {
        assert_eq!(gradients(&["--gpu", gpu]), 2 * alone);
    }
    let in_buckets = ["--gpu", "2xa100-80gb", "--set", "torch.gradient_as_bucket_view=true"];
    let of = |accumulation: &str| gradients(&[&in_buckets[..], &["--set", accumulation]].concat());
    assert_eq!(of("gradient_accumulation_steps=1"), alone);
    assert_eq!(
        of("gradient_accumulation_steps=2"),
        2 * alone,
        "what is not reduced yet is not in them"
    );
}

#[test]
fn the_answer_says_whose_memory_it_is() {
    Project::empty()
        .expctl(&["plan", "--model", "qwen2.5-0.5b", "--gpu", "2xt4"])
        .exits(0)
        .stdout_has("qwen2.5-0.5b on each of 2 × t4, PyTorch")
        .stdout_has("world_size=2");
}

/// The ranks take samples of a list in turn: the first one's are the short ones.
#[test]
fn the_rank_with_the_largest_batch_is_planned() {
    let plan = |lengths: &str| {
        let spec = format!(
            "name: x\ndefaults: {{ stack: torch, model: tiny, world_size: 2, batch_size: 1, padding: longest, \
             max_seq_length: 256, max_steps: 2, data: {{ synthetic: {{ lengths: {lengths} }} }} }}\n"
        );
        let output = Project::new(&spec).expctl(&["plan", "spec.yaml", "--format", "json"]);
        let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
        rows[0].clone()
    };
    let (uneven, of_both) = (plan("[8, 200, 16, 250]"), plan("[200, 200, 250, 250]"));
    let peak = |row: &serde_json::Value| row["predicted_allocated_peak_bytes"].as_u64().expect("a peak");
    assert_eq!(peak(&uneven), peak(&of_both));
    assert!(peak(&uneven) > peak(&plan("[8, 8, 16, 16]")));
    let note = uneven["predicted_notes"].to_string();
    assert!(
        note.contains("rank 1 of ranks 0 to 1 has the largest micro-batch"),
        "{note}"
    );
    assert!(of_both["predicted_notes"].is_null(), "{of_both}");
}

#[test]
fn the_largest_batch_has_samples_for_all_ranks() {
    let fit = [
        "fit",
        "--model",
        "tiny",
        "--gpu",
        "8xt4",
        "--largest",
        "batch_size",
        "--data",
        "synthetic",
    ];
    let output = Project::empty().expctl(&[&fit[..], &["--format", "json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    assert_eq!(rows[0]["bound"], "memory", "{output}");
    assert!(rows[0]["value"].as_u64() > Some(1000), "{output}");
}

#[test]
fn what_is_not_of_ranks_is_refused() {
    for (keys, message) in [
        ("stack: torch, world_size: 0", "world_size: must be at least 1, got 0"),
        ("world_size: 2", "world_size"),
        (
            "stack: torch, torch: { ddp_bucket_cap_mb: 3 }",
            "says how several processes of DDP exchange gradients",
        ),
        (
            "stack: torch, world_size: 2, torch: { ddp_bucket_cap_mb: 0 }",
            "torch.ddp_bucket_cap_mb",
        ),
        ("stack: torch, fsdp: full_shard", "write `distributed: fsdp`"),
        (
            "stack: torch, fsdp_config: { forward_prefetch: true }",
            "says how FSDP shares a model",
        ),
        (
            "stack: torch, world_size: 2, fsdp_config: { forward_prefetch: true }",
            "use `distributed: fsdp`",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, torch: { ddp_bucket_cap_mb: 3 }",
            "says how several processes of DDP exchange gradients",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, adapter: vera",
            "FSDP is planned with LoRA and without adapters, and with vera not yet",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, dtype: int8",
            "FSDP cannot share int8 weights",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, dtype: int4, upcast: peft",
            "these leave float32 beside int4",
        ),
        (
            "stack: torch, world_size: 3, distributed: fsdp, fsdp_config: { sharding_strategy: hybrid_shard, num_machines: 2 }",
            "3 processes cannot be shared out among 2 machines evenly",
        ),
        (
            "stack: torch, world_size: 4, distributed: fsdp, fsdp_config: { num_machines: 2 }",
            "all GPUs share the model",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { sharding_strategy: full }",
            "full_shard",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { fsdp_sharding_strategy: FULL_SHARD }",
            "did you mean `sharding_strategy`?",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { version: 2, forward_prefetch: true }",
            "FSDP2 has no such option",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { reshard_after_forward: true }",
            "FSDP1 has no such option",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { version: 3 }",
            "there is no FSDP3",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, rank: 0, dtype: bfloat16, fsdp_config: { auto_wrap_policy: no_wrap, \
             forward_prefetch: true }",
            "the model is one unit",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { auto_wrap_policy: no_wrap }",
            "PEFT's policy",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, rank: 0, dtype: bfloat16, optim: rsvd",
            "rsvd projects whole ones",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, rank: 0, dtype: bfloat16, optim: adamw_8bit",
            "over embeddings",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, rank: 0, dtype: bfloat16, trainable: ['.*norm'], fsdp_config: { \
             use_orig_params: false }",
            "only with `use_orig_params`",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, fsdp_config: { offload_params: true, sharding_strategy: \
             no_shard }",
            "where something is shared",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, torch: { zero_grad: never }",
            "filled with zeros",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, dtype: bfloat16, torch: { device_map: true }",
            "the CPU loads what FSDP shares",
        ),
        ("stack: torch, deepspeed: ds.json", "write `deepspeed_config: ds.json`"),
        (
            "stack: torch, zero_optimization: { stage: 3 }",
            "says how DeepSpeed's ZeRO shares a model",
        ),
        (
            "stack: torch, world_size: 2, distributed: fsdp, zero_optimization: { contiguous_gradients: false }",
            "use `distributed: deepspeed`",
        ),
        (
            "stack: torch, distributed: deepspeed, fsdp_config: { version: 2 }",
            "says how FSDP shares a model",
        ),
        (
            "stack: torch, world_size: 2, distributed: deepspeed, torch: { ddp_bucket_cap_mb: 3 }",
            "says how several processes of DDP exchange gradients",
        ),
        ("distributed: deepspeed", "the candle stack cannot do this yet"),
        (
            "stack: torch, world_size: 0, distributed: deepspeed",
            "world_size: must be at least 1, got 0",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 0 }",
            "use 1, 2 or 3, or `distributed: ddp`",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 4 }",
            "ZeRO has no stage 4",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage3_prefetch_bucket_size: 5e7 }",
            "weights are whole below stage 3",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { sub_group_size: 5 }",
            "steps all at once",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, zero_optimization: { stage: 3, round_robin_gradients: true }",
            "stage 3 shares each weight by itself",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { offload_param_device: cpu }",
            "weights are shared with stage 3 alone",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { offload_optimizer_device: nvme }",
            "offloading to a disk (nvme) is not planned",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { offload_optimizer_pin_memory: false }",
            "use `offload_optimizer_device: cpu`",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { reduce_bucket_size: 0 }",
            "no gradient fits a bucket",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { reduce_bucket_size: 0.5 }",
            "a whole number of 0 or more, such as 500000000 or 5e8",
        ),
        (
            "stack: torch, distributed: deepspeed, autocast: bfloat16, dtype: float32",
            "write `dtype: bfloat16`, which is what the Trainer's bf16 or fp16 means here",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: int4, upcast: peft",
            "DeepSpeed casts to the format of the model",
        ),
        (
            "stack: torch, distributed: deepspeed, adapter_dtype: bfloat16",
            "DeepSpeed casts adapters to the format of the model",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: float16, zero_optimization: { bf16_master_weights_and_grads: true }",
            "an option of DeepSpeed's bf16",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, zero_optimization: { bf16_master_weights_and_grads: true }",
            "only where the CPU steps them",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, zero_optimization: { bf16_optimizer_states: true }",
            "states in bfloat16 only of weights in bfloat16",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, zero_optimization: { stage: 1, grad_accum_dtype: float32 }",
            "BF16_Optimizer",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 3 }, dtype: int4",
            "not planned with quantised weights yet",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 3 }, dtype: bfloat16, adapter: vera",
            "with vera not yet",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 3 }, dtype: bfloat16, modules_to_save: [lm_head]",
            "modules that are trained whole yet",
        ),
        (
            "stack: torch, distributed: deepspeed, zero_optimization: { stage: 3 }, dtype: bfloat16, torch: { device_map: true }",
            "transformers loads what stage 3 shares without one",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, rank: 0, optim: paged_adamw_8bit",
            "not planned with optimizers of bitsandbytes yet",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, rank: 0, optim: adafactor",
            "adafactor has sums over rows and columns",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, rank: 0, optim: rsvd",
            "rsvd projects matrices",
        ),
        (
            "stack: torch, distributed: deepspeed, dtype: bfloat16, optim: sgd, zero_optimization: { offload_optimizer_device: \
             cpu }",
            "puts DeepSpeed's Adam in the place of SGD",
        ),
        (
            "stack: torch, distributed: deepspeed, torch: { zero_grad: never }",
            "lets gradients go after each step",
        ),
        (
            "stack: torch, distributed: deepspeed, torch: { generation: { eval_steps: 1, batch_size: 1, prompt_tokens: 4, \
             max_new_tokens: 4 } }",
            "how a model generates under DeepSpeed",
        ),
        ("stack: torch, num_processes: 2", "write `world_size: 2`"),
        ("stack: torch, gpu: 2xt4", "several GPUs are `--gpu 2xa100-80gb`"),
    ] {
        let spec = format!("name: x\ndefaults: {{ model: tiny, {keys} }}\n");
        Project::new(&spec)
            .expctl(&["validate", "spec.yaml"])
            .exits(2)
            .stderr_has(message);
    }
}

#[test]
fn an_answer_about_fsdp_proposes_nothing_that_it_refuses() {
    let of = |distributed: &str| {
        let gpus = ["plan", "--model", "smollm2-135m", "--gpu", "2xt4", "--set", distributed];
        let output = Project::empty().expctl(&gpus);
        assert!(output.stdout.contains("trained:"), "{output}");
        output.stdout.contains("prepare_model_for_kbit_training")
    };
    assert!(of("distributed=ddp"));
    assert!(!of("distributed=fsdp"));
}

/// A recipe's casts give way to DeepSpeed's, and a user's own do not.
#[test]
fn a_recipe_has_no_casts_beside_deepspeed_s() {
    let plan = |settings: &[&str]| {
        let arguments = [
            "plan",
            "--model",
            "llama-3.2-1b",
            "--gpu",
            "2xa100-40gb",
            "--set",
            "distributed=deepspeed",
        ];
        Project::empty().expctl(&[&arguments[..], settings].concat())
    };
    plan(&["--recipe", "trl-sft"])
        .exits(0)
        .stdout_has("as DeepSpeed casts the model itself");
    plan(&["--recipe", "trl-sft", "--set", "autocast=bfloat16"])
        .exits(2)
        .stderr_has("write `--set bnb_4bit_compute_dtype=bfloat16`");
}

/// What only a model or a release can tell.
#[test]
fn what_fsdp_cannot_wrap_is_refused_by_the_plan() {
    for (keys, message) in [
        (
            "fsdp_config: { transformer_layer_cls_to_wrap: GPTBlock }",
            "its blocks are LlamaDecoderLayer",
        ),
        (
            "fsdp_config: { version: 2 }, torch: { torch_version: '2.5.1' }",
            "from PyTorch 2.6 on",
        ),
        (
            "attn_implementation: eager, torch: { torch_version: '1.13.1' }",
            "before PyTorch 2.0",
        ),
    ] {
        let spec =
            format!("name: x\ndefaults: {{ model: tiny, stack: torch, world_size: 2, distributed: fsdp, {keys} }}\n");
        Project::new(&spec).plan(&[]).exits(2).stderr_has(message);
    }
}

/// A file is preferred to a recipe, and a user's own key to both.
#[test]
fn a_recipe_gives_way_to_accelerate_s_file() {
    let project = Project::empty();
    project.write(
        "accelerate.yaml",
        "distributed_type: FSDP\nnum_processes: 2\nmixed_precision: 'no'\nfsdp_config: {fsdp_auto_wrap_policy: \
         TRANSFORMER_BASED_WRAP, fsdp_activation_checkpointing: true}\n",
    );
    let plan = |settings: &[&str]| {
        let model = "plan --model llama-3.2-1b --gpu a100-40gb --recipe lora --set accelerate_config=accelerate.yaml";
        let arguments: Vec<&str> = model.split(' ').chain(settings.iter().copied()).collect();
        project.expctl(&arguments).exits(0)
    };
    plan(&[])
        .stdout_has("autocast=none")
        .stdout_has("gradient_checkpointing=full");
    plan(&["--set", "autocast=bfloat16"]).stdout_has("autocast=bfloat16");
}
