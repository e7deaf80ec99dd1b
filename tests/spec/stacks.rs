//! The limits of each software stack, and their messages.

use std::path::Path;

use expctl::spec::{self, Overrides};

use crate::parse;

/// The mistakes of a spec with these defaults: each message, and the help under it.
fn said(defaults: &str) -> String {
    let text = format!("name: example\ndefaults:\n  {defaults}\n");
    match parse(&text, &[]) {
        Ok(_) => format!("{defaults}\n    accepted"),
        Err(error) => {
            let error = error.to_string();
            let told = error.lines().enumerate();
            let lines = told.filter(|(at, line)| *at == 0 || line.contains("help:") || line.contains('^'));
            let lines = lines.map(|(_, line)| line.trim_start_matches([' ', '|', '=']));
            let lines: Vec<&str> = lines.collect();
            format!("{defaults}\n    {}", lines.join("\n    "))
        }
    }
}

fn all_said(stack: &str, defaults: &[&str]) -> String {
    let said: Vec<String> = defaults.iter().map(|keys| said(&keys.replace("; ", "\n  "))).collect();
    assert!(
        !said.iter().any(|said| said.contains("accepted")),
        "{stack}: {}",
        said.join("\n")
    );
    said.join("\n")
}

#[test]
fn our_trainer() {
    let said = all_said(
        "candle",
        &[
            "adapter_dtype: float16",
            "lora_fa: optimizer",
            "lora: { init_lora_weights: pissa }",
            "lora: { bias: some }",
            "use_rslora: true",
            "model: bert-base; task: sequence_classification; lora: { bias: all }",
            "target_modules: all-liner",
            "trainable: [bias]",
            "rank: 0; dtype: bfloat16; trainable: []",
            "rank: 0",
            "target_modules: '.*(q_proj'",
            "target_modules: '.*q_proj'; layers_to_transform: [0]",
            "layers_to_transform: [1, 0, 1]",
            "dtype: bfloat16; adapter: dora; lora: { init_lora_weights: olora }",
            "lora: { rank_pattern: { q_proj: 0 } }",
            "lora: { rank_pattern: { '(': 1 } }",
            "bnb_4bit_blocksize: 96",
            "dtype: bfloat16; bnb_4bit_quant_type: fp4",
            "llm_int8_threshold: 6",
            "dtype: int8; llm_int8_threshold: -1",
            "dtype: int8; bnb_4bit_compute_dtype: float16",
            "attn_implementation: flash_attention_2",
            "upcast: trl",
            "autocast: bfloat16",
            "dtype: float32; upcast: peft",
            "torch: { use_cache: true }",
            "empty_cache_steps: 1",
            "optim: paged_adamw_8bit",
            "optim: lion; adam_epsilon: 1e-6",
            "torch: { keep_outputs: none }",
            "torch: { zero_grad: before_forward }",
            "torch: { use_reentrant: true }",
            "torch: { repeat_kv: true }",
            "torch: { embedding_states_32bit: false }",
            "gpu: t4",
            "torch: { transformers_version: '4.37.2' }",
            "torch: { bitsandbytes_version: '0.41.1' }",
            "torch: { torch_version: '2.14' }",
            "torch: { transformer_version: '4.37.2' }",
            "allocator: { env: { PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True' } }",
            "dtype: bfloat16; bnb_4bit_use_double_quant: false",
            "allocator: { env: { FOO: '1' } }",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn torch() {
    let keys = [
        "measure: profile",
        "optim: galore",
        "optim_rank: 4",
        "galore_scale: 1.0",
        "device: cuda:0",
        "device_memory: 1GiB",
        "threads: 2",
        "instruction_set: avx2",
        "allocator: { backend: mimalloc }",
        "env: { A: '1' }",
        "gpu: rtx-3900",
        "gpu: a100",
        "gpu: quadro",
        "gpu: t4; attn_implementation: flash_attention_2",
        "gpu: v100-16gb; dtype: int8",
        "adapter_dtype: int8",
        "bnb_4bit_compute_dtype: int4",
        "dtype: bfloat16; upcast: peft",
        "dtype: int8; upcast: trl",
        "dtype: int4; upcast: trl",
        "dtype: bfloat16; rank: 0; lora_fa: frozen",
        "dtype: int8; lora: { init_lora_weights: olora }",
        "dtype: int4; lora: { init_lora_weights: pissa }",
        "dtype: int4; adapter: ia3",
        "dtype: bfloat16; adapter: ia3; layers_to_transform: [0]",
        "dtype: bfloat16; adapter: prefix_tuning; gradient_checkpointing: full",
        "dtype: bfloat16; adapter: prompt_tuning; loss: chunked",
        "dtype: bfloat16; adapter: ln_tuning; adapter_dtype: bfloat16",
        "model: bert-base; task: sequence_classification; dtype: float32; modules_to_save: [pooler]",
        "rank: 0; dtype: int4; trainable: ['.*norm']",
        "bnb_4bit_blocksize: 32; torch: { bitsandbytes_version: '0.49.1' }",
        "adapter: dora; upcast: peft; torch: { peft_version: '0.17.0' }",
        "lora: { init_lora_weights: olora }; upcast: peft; torch: { peft_version: '0.19.1' }",
        "torch: { use_reentrant: true }",
        "torch: { embedding_states_32bit: false }",
        "loss: chunked; target_modules: [q_proj, lm_head]",
        "model: bert-base; task: sequence_classification; dtype: float32; rank: 0; loss: chunked",
        "torch: { torch_version: '1.13.1' }",
        "torch: { torch_version: '1.9.1' }",
        "model: llama-2-7b; torch: { transformers_version: '4.38.2' }",
        "dtype: bfloat16; bnb_4bit_use_double_quant: false",
        "torch: { transformers_version: newest }",
        "torch: { transformers_version: '4.29.2' }",
        "torch: { bitsandbytes_version: '0.41.1rc1' }",
        "torch: { bitsandbytes_version: '0.36.0' }",
        "torch: { bitsandbytes_version: '0.38.1' }",
        "torch: { peft_version: '0.3.0' }",
        "dtype: int8; optim: paged_adamw_8bit; torch: { bitsandbytes_version: '0.38.1' }",
        "bitsandbytes: '0.41.1'",
        "dtype: bfloat16; bnb_4bit_compute_dtype: float32",
    ]
    .map(|keys| format!("stack: torch; {keys}"));
    insta::assert_snapshot!(all_said("torch", &keys.each_ref().map(String::as_str)));
}

#[test]
fn pytorchs_allocator() {
    let with = |variables: &str| format!("stack: torch; allocator: {{ env: {{ {variables} }} }}");
    let said = [
        with("PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:true'"),
        with("PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True,max_split_size:128'"),
        with("PYTORCH_ALLOC_CONF: 'max_split_size_mb:19'"),
        with("PYTORCH_CUDA_ALLOC_CONF: 'backend:cudaMallocAsync'"),
        with("PYTORCH_CUDA_ALOC_CONF: 'expandable_segments:True'"),
        with("MALLOC_ARENA_MAX: '1'"),
    ];
    insta::assert_snapshot!(all_said("torch", &said.each_ref().map(String::as_str)));
    for variables in [
        "PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'",
        "PYTORCH_ALLOC_CONF: 'max_split_size_mb:64,garbage_collection_threshold:0.8'",
        "PYTORCH_CUDA_ALLOC_CONF: null",
    ] {
        assert!(
            self::said(&with(variables).replace("; ", "\n  ")).ends_with("accepted"),
            "{variables}"
        );
    }
}

#[test]
fn releases_that_are_planned() {
    for versions in [
        "torch: { transformers_version: '4.37.2' }",
        "torch: { transformers_version: 4.37.2 }",
        "torch: { transformers_version: 4.40 }",
        "torch: { transformers_version: '99.0' }",
        "torch: { bitsandbytes_version: 0.41.2.post2 }",
        "dtype: bfloat16; torch: { bitsandbytes_version: '0.41.1', peft_version: '0.19.1' }",
        "dtype: float32; optim: adamw_8bit; torch: { bitsandbytes_version: 0.43.3 }",
        "dtype: float32; rank: 0; optim: lion_8bit; torch: { embedding_states_32bit: false }",
        "optim: adamw_8bit; modules_to_save: [embed_tokens]; torch: { embedding_states_32bit: false }",
        "attn_implementation: eager; torch: { torch_version: 1.10.1, zero_grad: never }; loss: chunked",
        "torch: { transformers_version: '4.40.0', bitsandbytes_version: '0.43' }",
    ] {
        let said = said(&format!("stack: torch; {versions}").replace("; ", "\n  "));
        assert!(said.ends_with("accepted"), "{said}");
    }
}

/// The old place of each key, in every section that can have it, and what booleans of autocast are called elsewhere.
#[test]
fn moved_keys_name_their_new_place() {
    let defaults = [
        "use_cache: true",
        "keep_outputs: none",
        "zero_grad: before_forward",
        "use_reentrant: true",
        "transformers_version: '4.37.2'",
        "bitsandbytes_version: '0.41.1'",
        "torch_version: '2.14'",
        "torch: { loss: chunked }",
        "autocast: true",
        "autocast: false",
        "bf16: true",
        "fp16: true",
        "monitor_tensors: true",
    ]
    .map(|keys| format!("stack: torch; {keys}"));
    insta::assert_snapshot!(all_said("torch", &defaults.each_ref().map(String::as_str)));

    let text = |sections: &str| format!("name: example\ndefaults: {{ stack: torch, rank: 4 }}\n{sections}\n");
    for (sections, settings) in [
        ("sweep: { grid: { use_cache: [true, false] } }", &[][..]),
        ("sweep: { include: [{ torch_version: '2.14' }] }", &[]),
        (
            "sweep: { grid: { rank: [4, 8] }, exclude: 'use_cache and rank == 4' }",
            &[],
        ),
        ("report: { baseline: { zero_grad: after_step } }", &[]),
        ("", &["use_cache=true"]),
    ] {
        let error = parse(&text(sections), settings).unwrap_err();
        insta::assert_snapshot!(error.to_string());
    }
    let variable = Overrides::new([("EXPCTL_USE_CACHE".into(), "true".into())], Vec::new());
    let error = spec::parse(Path::new("experiments/example.yaml"), &text(""), &variable).unwrap_err();
    insta::assert_snapshot!(error.to_string());
}

/// What guides to memory tell one to write, and what to write here.
#[test]
fn keys_of_the_guides() {
    let keys = [
        "device_map: auto",
        "low_cpu_mem_usage: true",
        "load_in_4bit: true",
        "quantization_config: { load_in_4bit: true }",
        "per_device_train_batch_size: 1",
        "gradient_checkpointing: true",
        "gradient_checkpointing: false",
        "fp16: true",
        "bf16: true",
        "use_cache: false",
        "dataloader_pin_memory: false",
        "pin_memory: false",
        "dataloader_num_workers: 0",
        "remove_unused_columns: false",
        "ddp_find_unused_parameters: false",
        "pack_sequences: true",
        "offload_optimizer: true",
        "torch_empty_cache_steps: 4",
        "log_interval: 100",
        "TOKENIZERS_PARALLELISM: false",
        "PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'",
    ];
    insta::assert_snapshot!(all_said("candle", &keys));
    let text = "name: example\n";
    let by_setting = parse(text, &["load_in_4bit=true", "pin_memory=false", "fp16=true"]).unwrap_err();
    insta::assert_snapshot!(by_setting.to_string());
    let variables = ["EXPCTL_LOAD_IN_4BIT", "EXPCTL_TOKENIZERS_PARALLELISM"].map(|name| (name.into(), "true".into()));
    let overrides = Overrides::new(variables, Vec::new());
    let by_variable = spec::parse(Path::new("experiments/example.yaml"), text, &overrides).unwrap_err();
    insta::assert_snapshot!(by_variable.to_string());
}

#[test]
fn keys_of_pytorchs_loop_are_axes() {
    let spec = "name: example\ndefaults: { stack: torch, torch: { torch_version: '2.14' } }\nsweep: { grid: { torch.use_cache: [true, false] } }\n";
    let study = parse(spec, &[]).unwrap();
    let cells: Vec<_> = study.cells.iter().map(|planned| &planned.cell.torch).collect();
    assert_eq!(
        cells.iter().map(|torch| torch.use_cache).collect::<Vec<_>>(),
        [true, false]
    );
    assert!(cells.iter().all(|torch| torch.torch_version.as_deref() == Some("2.14")));
}
