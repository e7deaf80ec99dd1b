use std::path::Path;

use serde_json::json;
use yaml::place::Sources;

use super::*;

fn translated(text: &str) -> Result<Translation, Vec<String>> {
    let document = Document::read(Path::new("file.yaml"), text, &mut Sources::default()).unwrap();
    translate(&document, &Options::default()).map_err(|mistakes| {
        let mistakes = mistakes.in_order().into_iter();
        mistakes.map(|mistake| mistake.message).collect()
    })
}

/// Checks what settings a file comes to; null is a key that the spec leaves out.
#[track_caller]
fn comes_to(text: &str, expected: &[(&str, Json)]) {
    let found = translated(text).unwrap();
    for (key, value) in expected {
        let own = found.setting(key).map_or(Json::Null, |setting| setting.value.clone());
        assert_eq!(own, *value, "{key} of {text}");
    }
}

#[test]
fn axolotls_values_are_ours() {
    let base = "base_model: tiny\ndatasets: [{path: a}]\n";
    let of = |keys: &str, expected: &[(&str, Json)]| comes_to(&format!("{base}{keys}"), expected);
    of(
        "",
        &[
            ("batch_size", json!(1)),
            ("max_seq_length", json!(512)),
            ("optim", json!("adamw_torch_fused")),
            ("rank", json!(0)),
            ("dtype", json!("bfloat16")),
            ("attn_implementation", json!("sdpa")),
            ("pad_to_multiple_of", json!(64)),
        ],
    );
    of(
        "adapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_alpha: 4\nbf16: false\nfp16: true\n",
        &[
            ("dtype", json!("int4")),
            ("bnb_4bit_compute_dtype", json!("float16")),
            ("autocast", json!("float16")),
            ("rank", json!(8)),
            ("lora_alpha", json!(4)),
            ("target_modules", json!("peft")),
        ],
    );
    of(
        "adapter: lora\nlora_r: 4\nload_in_8bit: true\n",
        &[("dtype", json!("int8"))],
    );
    of(
        "sample_packing: true\n",
        &[("torch.packing_strategy", json!("wrapped")), ("padding", Json::Null)],
    );
    of(
        "sample_packing: true\nflash_attention: true\n",
        &[("torch.packing_strategy", json!("bfd"))],
    );
    of("batch_size: 8\n", &[("gradient_accumulation_steps", json!(8))]);
    of(
        "max_steps: 1_000\nnum_epochs: 3\n",
        &[("max_steps", json!(1000)), ("num_train_epochs", Json::Null)],
    );
    of(
        "gradient_checkpointing: true\n",
        &[("torch.use_reentrant", json!(true))],
    );
}

#[test]
fn llama_factorys_values_are_ours() {
    let base = "model_name_or_path: tiny\nstage: sft\ndataset: a\n";
    let of = |keys: &str, expected: &[(&str, Json)]| comes_to(&format!("{base}{keys}"), expected);
    of(
        "",
        &[
            ("batch_size", json!(8)),
            ("max_seq_length", json!(2048)),
            ("rank", json!(8)),
            ("target_modules", json!("all-linear")),
            ("gradient_checkpointing", json!("full")),
            ("num_train_epochs", json!(3.0)),
        ],
    );
    of(
        "lora_target: q_proj, v_proj\n",
        &[("target_modules", json!(["q_proj", "v_proj"]))],
    );
    of(
        "finetuning_type: full\nbf16: true\n",
        &[("dtype", json!("float32")), ("autocast", json!("bfloat16"))],
    );
    of(
        "finetuning_type: full\npure_bf16: true\n",
        &[("dtype", json!("bfloat16"))],
    );
    of("quantization_bit: 8\n", &[("dtype", json!("int8"))]);
    of(
        "finetuning_type: oft\noft_block_size: 16\n",
        &[("adapter", json!("oft")), ("oft.oft_block_size", json!(16))],
    );
}

#[test]
fn torchtunes_components_are_models_and_methods() {
    let rest = "tokenizer: {max_seq_len: 64}\noptimizer: {_component_: torch.optim.AdamW, lr: 1e-4}\n";
    let of = |model: &str, expected: &[(&str, Json)]| {
        comes_to(
            &format!("model:\n  _component_: torchtune.models.{model}\n{rest}dtype: bf16\n"),
            expected,
        );
    };
    of(
        "llama3_1.llama3_1_8b",
        &[
            ("model", json!("meta-llama/Llama-3.1-8B")),
            ("rank", json!(0)),
            ("autocast", json!("none")),
        ],
    );
    of(
        "qwen3.qlora_qwen3_8b_instruct\n  apply_lora_to_mlp: true\n  lora_attn_modules: [q_proj, output_proj]",
        &[
            ("model", json!("Qwen/Qwen3-8B")),
            ("dtype", json!("int4")),
            ("adapter_dtype", json!("bfloat16")),
            (
                "target_modules",
                json!(["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
            ),
        ],
    );
    of("gemma2.gemma2_2b", &[("attn_implementation", json!("eager"))]);
}

#[test]
fn trl_and_the_trainer_have_their_own_defaults() {
    comes_to(
        "model_name_or_path: tiny\nuse_peft: true\n",
        &[
            ("rank", json!(16)),
            ("gradient_checkpointing", json!("full")),
            ("dtype", json!("float32")),
            ("autocast", json!("bfloat16")),
            ("max_seq_length", json!(1024)),
        ],
    );
    comes_to(
        "model_name_or_path: tiny\noutput_dir: x\n",
        &[
            ("rank", json!(0)),
            ("batch_size", json!(8)),
            ("gradient_checkpointing", json!("none")),
        ],
    );
}

#[test]
fn a_lost_key_is_said_and_an_idle_one_too() {
    let found = translated(
        "base_model: tiny\ndatasets: []\ntorch_compile: true\ntiled_mlp: false\nwandb_name: x\nseed:\noptimzer: a\n",
    )
    .unwrap();
    let lost: Vec<&str> = found.lost.iter().map(|left| left.key.as_str()).collect();
    assert_eq!(lost, ["torch_compile", "optimzer"]);
    assert_eq!(found.lost[1].why, "not a key of axolotl 0.19.0; optimizer is one");
    let idle: Vec<&str> = found.idle.iter().map(|left| left.key.as_str()).collect();
    assert_eq!(idle, ["datasets", "tiled_mlp", "wandb_name"]);
    assert_eq!(found.empty, ["seed"]);
}

#[test]
fn another_training_is_refused() {
    for (text, message) in [
        (
            "base_model: tiny\ndatasets: []\nrl: dpo\n",
            "rl: losses of preferences and rewards are not planned; supervised training is",
        ),
        (
            "base_model: mistralai/Mixtral-8x7B-v0.1\ndatasets: []\n",
            "mistralai/Mixtral-8x7B-v0.1 is a mixture of experts, which is not planned",
        ),
        (
            "model_name_or_path: tiny\nstage: dpo\ndataset: a\n",
            "stage: losses of preferences and rewards are not planned; supervised training is",
        ),
        (
            "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\n",
            "the file has no `optimizer`: it evaluates, generates or quantises, and trains nothing",
        ),
        ("a: 1\n", "no tool has these keys"),
    ] {
        assert_eq!(translated(text).unwrap_err(), [message], "{text}");
    }
}
