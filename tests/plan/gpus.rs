//! The known GPUs, and what they cannot do.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::project::Project;

/// The table of `docs/gpus.md`; `INSTA_UPDATE=always` writes it.
#[test]
fn the_page_has_the_table_that_is_printed() {
    let output = Project::empty().expctl(&["list", "--gpus", "--format=json"]);
    assert_eq!(output.code, 0, "{output}");
    let gpus: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let mut table = String::from(
        "| GPU | generation | capability | GiB by the box | MiB by CUDA | source | context, MiB |\n\
         | --- | --- | --- | ---: | ---: | --- | --- |\n",
    );
    for gpu in &gpus {
        let mib = |key: &str| gpu[key].as_u64().map(|bytes| bytes >> 20);
        let text = |key: &str| gpu[key].as_str().unwrap_or_default();
        let mib_of = |key: &str| mib(key).unwrap();
        let context = match gpu["context_source"].as_str() {
            Some(source) => format!("{} ({source})", mib_of("context_bytes")),
            None => format!(
                "**{}, {} to {}**",
                mib_of("context_bytes"),
                mib_of("context_low_bytes"),
                mib_of("context_high_bytes")
            ),
        };
        let estimate = if gpu["is_estimate"] == true { "**" } else { "" };
        table += &format!(
            "| `{}` | {} | {} | {} | {} | {estimate}{}{estimate} | {context} |\n",
            text("gpu"),
            text("generation"),
            text("compute_capability"),
            gpu["nominal_gib"],
            mib("total_bytes").unwrap(),
            text("total_source"),
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gpus.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, printed) = page.split_once("## The table\n\n").unwrap();
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, format!("{before}## The table\n\n{table}")).unwrap();
    } else {
        assert!(
            printed == table,
            "docs/gpus.md is stale: run this test with INSTA_UPDATE=always"
        );
    }
}

fn spec(keys: &str) -> String {
    format!("name: gpus\ndefaults: {{ stack: torch, model: tiny, max_seq_length: 32, {keys} }}\n")
}

#[test]
fn what_a_gpu_cannot_do_is_an_error_with_its_place() {
    for (keys, message, help) in [
        (
            "gpu: t4, attn_implementation: flash_attention_2",
            "FlashAttention-2 needs Ampere or newer (compute capability 8.0); `t4` has 7.5",
            "use `attn_implementation: sdpa`",
        ),
        (
            "gpu: v100-16gb, dtype: int8",
            "bitsandbytes' LLM.int8() needs Turing or newer (compute capability 7.5); `v100-16gb` has 7.0",
            "use `dtype: int4`",
        ),
        (
            "gpu: t4, autocast: bfloat16, torch: { torch_version: 2.2.0 }",
            "this release of PyTorch has no autocast to bfloat16 on `t4`",
            "use `autocast: float16`",
        ),
    ] {
        let output = Project::new(&spec(keys)).plan(&[]);
        assert_eq!(output.code, 2, "{output}");
        for text in [message, help, "spec.yaml:2:"] {
            assert!(output.stderr.contains(text), "{text}: {output}");
        }
    }
    // A budget's GPU takes the place of the spec's.
    let flash = Project::new(&spec("gpu: a10, attn_implementation: flash_attention_2"));
    assert_eq!(flash.plan(&[]).code, 0);
    let output = flash.plan(&["--budget", "rtx-2080-ti"]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("`rtx-2080-ti` has 7.5"), "{output}");
}

#[test]
fn what_a_gpu_does_slowly_and_what_is_estimated_is_a_note() {
    let notes = |keys: &str| {
        let planned = Project::new(&spec(keys)).planned(&[]);
        planned[0]["predicted_notes"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(notes("gpu: a10"), "");
    assert_eq!(notes("gpu: t4, bnb_4bit_compute_dtype: float16"), "");
    let emulated = notes("gpu: t4, dtype: bfloat16");
    assert!(
        emulated.contains("bfloat16 is emulated on Turing") && emulated.contains("all scores"),
        "{emulated}"
    );
    assert!(!notes("gpu: t4, dtype: bfloat16, attn_implementation: eager").contains("scores"));
    assert!(!notes("gpu: t4, dtype: bfloat16, autocast: float16").contains("emulated"));
    let wheels = notes("gpu: p100-16gb, dtype: float16");
    assert!(wheels.contains("no kernels for Pascal from 2.15.0 on"), "{wheels}");
    let estimate = notes("gpu: rtx-4070-super");
    assert!(estimate.contains("an estimate from rtx-4070"), "{estimate}");
    let printed = Project::new(&spec("gpu: rtx-4070-super")).plan(&[]).stdout;
    assert!(
        printed.contains("\nnote: the memory of `rtx-4070-super` is an estimate"),
        "{printed}"
    );
}

/// PyTorch's kernels take bfloat16 from Ampere on; before, the scores of all heads are held.
#[test]
fn emulated_bfloat16_holds_the_scores() {
    let peak = |keys: &str| {
        let spec = spec(keys).replace("max_seq_length: 32", "max_seq_length: 512, dtype: bfloat16");
        Project::new(&spec).planned(&[])[0]["predicted_allocated_peak_bytes"]
            .as_u64()
            .unwrap()
    };
    let scores = 4 * 4 * 512 * 512;
    let fused = peak("gpu: t4, autocast: float16");
    let (sdpa, eager) = (peak("gpu: t4"), peak("gpu: t4, attn_implementation: eager"));
    assert!(sdpa > fused + scores && sdpa < 2 * eager, "{fused} {sdpa} {eager}");
    assert!(peak("gpu: a10") < sdpa - scores);
}

#[test]
fn a_first_spec_just_plans() {
    for keys in [
        "weights: random",
        "weights: pretrained",
        "model: qwen2.5-7b, weights: pretrained",
        "gpu: NVIDIA GeForce RTX 3090",
    ] {
        let spec = format!("name: first\ndefaults: {{ stack: torch, max_seq_length: 32, {keys} }}\n");
        let output = Project::new(&spec).plan(&[]);
        assert_eq!(output.code, 0, "{keys}: {output}");
    }
    let project = Project::new(&spec("model: ./shape, weights: random").replace("model: tiny, ", ""));
    project.write(
        "shape/config.json",
        include_str!("../../crates/arch/src/presets/tiny.json"),
    );
    assert_eq!(project.plan(&[]).code, 0);
}
