//! What each software stack cannot do, and what is said of it.

use crate::parse;

/// What is said of a spec with these defaults: the message, and the help under it.
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
            "adapter_dtype: bfloat16",
            "lora_fa: frozen",
            "bnb_4bit_quant_type: fp4",
            "bnb_4bit_compute_dtype: float16",
            "attn_implementation: eager",
            "upcast: peft",
            "autocast: true",
            "use_cache: true",
            "empty_cache_steps: 1",
            "optim: adamw_8bit",
            "keep_outputs: none",
            "zero_grad: before_forward",
            "use_reentrant: true",
            "gpu: t4",
            "transformers_version: '4.37.2'",
            "bitsandbytes_version: '0.41.1'",
            "torch_version: '2.14'",
            "transformer_version: '4.37.2'",
            "allocator: { env: { PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True' } }",
            "model: llama-2-7b",
            "dtype: bfloat16; bnb_4bit_use_double_quant: false",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn torch() {
    let keys = [
        "measure: profile",
        "optim: galore",
        "device: cuda:0",
        "device_memory: 1GiB",
        "threads: 2",
        "instruction_set: avx2",
        "allocator: { backend: mimalloc }",
        "model: ./folder; weights: random",
        "gpu: rtx-3900",
        "gpu: a100",
        "gpu: quadro",
        "adapter_dtype: int8",
        "bnb_4bit_compute_dtype: int4",
        "dtype: bfloat16; upcast: peft",
        "dtype: bfloat16; rank: 0; lora_fa: frozen",
        "use_reentrant: true",
        "model: llama-2-7b; transformers_version: '4.38.2'",
        "dtype: bfloat16; bnb_4bit_use_double_quant: false",
        "transformers_version: newest",
        "transformers_version: '4.36.2'",
        "bitsandbytes_version: '0.41.1rc1'",
        "bitsandbytes_version: '0.39.0'",
        "dtype: int8; bitsandbytes_version: '0.43.1'",
        "dtype: bfloat16; bitsandbytes_version: '0.41.1'",
        "bitsandbytes: '0.41.1'",
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
        "transformers_version: '4.37.2'",
        "transformers_version: 4.37.2",
        "transformers_version: 4.40",
        "transformers_version: '99.0'",
        "bitsandbytes_version: 0.41.2.post2",
        "transformers_version: '4.40.0'; bitsandbytes_version: '0.43'",
    ] {
        let said = said(&format!("stack: torch; {versions}").replace("; ", "\n  "));
        assert!(said.ends_with("accepted"), "{said}");
    }
}
