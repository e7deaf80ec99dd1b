//! `expctl fit`: what to change so that a cell fits.

use serde_json::Value;

use crate::common::project::{Output, Project};

const SPEC: &str = "name: x\ndefaults: { model: tiny, dtype: float32, rank: 8, batch_size: 4, max_seq_length: 128, \
                    max_steps: 2, instruction_set: avx2 }\n";
const TORCH: &str = "name: x\ndefaults: { model: smollm2-360m, stack: torch, dtype: bfloat16, batch_size: 8, \
                     max_seq_length: 1024, torch: { keep_outputs: none } }\n";

impl Project {
    /// `expctl fit spec.yaml` with these arguments.
    fn fit(&self, arguments: &[&str]) -> Output {
        self.expctl(&[&["fit", "spec.yaml"], arguments].concat())
    }
}

#[test]
fn the_least_change_comes_first() {
    insta::assert_snapshot!("fit_ours", Project::new(SPEC).fit(&["--budget", "2200KiB"]));
    insta::assert_snapshot!("fit_torch", Project::new(TORCH).fit(&["--budget", "t4"]));
    let fits = Project::new(SPEC).fit(&["--budget", "1GiB"]).exits(0);
    fits.stdout_has("fits, ").stdout_has("of 1.00 GiB");
}

#[test]
fn a_recipe_starts_with_nothing_saved() {
    let output = Project::empty().expctl(&[
        "fit",
        "--model",
        "qwen2.5-0.5b",
        "--recipe",
        "lora",
        "--gpu",
        "rtx-2060-6gb",
        "--format",
        "json",
    ]);
    let [cell] = output.json().as_array().unwrap().clone().try_into().unwrap();
    let front = cell["front"].as_array().unwrap();
    assert_eq!(front[0]["changes"], Value::Object(serde_json::Map::new()));
    let needed: Vec<u64> = front
        .iter()
        .map(|row| row["predicted_needed_bytes"].as_u64().unwrap())
        .collect();
    assert!(needed.is_sorted_by(|a, b| a > b), "{needed:?}");
    assert_eq!(cell["least"]["predicted_verdict"], "fits");
    assert_eq!(cell["least"]["changes"]["gradient_accumulation_steps"], 16);
    assert!(cell["planned"].as_f64().unwrap() < cell["combinations"].as_f64().unwrap() / 10.0);
}

#[test]
fn keys_stay_and_vary_as_they_are_told() {
    let project = Project::new(SPEC);
    let kept = project.fit(&[
        "--budget",
        "4MiB",
        "--keep",
        "batch_size,gradient_checkpointing,autocast,adapter_dtype",
        "--format",
        "json",
    ]);
    assert_eq!(
        kept.json()[0]["least"]["changes"],
        serde_json::json!({ "dtype": "bfloat16" })
    );
    let only = [
        "--budget",
        "4MiB",
        "--vary",
        "rank=6,4",
        "--vary",
        "max_seq_length",
        "--format",
        "json",
    ];
    let only = project.fit(&only).json();
    assert_eq!(only[0]["least"]["changes"], serde_json::json!({ "max_seq_length": 96 }));
    let section = format!("{SPEC}fit: {{ budget: 4MiB, keep: [batch_size], vary: {{ gradient_checkpointing: }} }}\n");
    let in_spec = Project::new(&section).fit(&["--format", "json"]).json();
    let changes = in_spec[0]["least"]["changes"].as_object().unwrap();
    assert_eq!(changes.keys().collect::<Vec<_>>(), ["gradient_checkpointing"]);
}

#[test]
fn what_was_found_is_a_spec_that_fits() {
    let project = Project::new(SPEC);
    let written = ["--budget", "2200KiB", "--write", "fit.yaml", "--chart", "fit.svg"];
    project.fit(&written).exits(0).stderr_has("wrote fit.yaml");
    let plan = project.expctl(&["plan", "fit.yaml", "--budget", "2200KiB"]).exits(0);
    plan.stdout_has("by our trainer on the CPU: fits, ");
    let chart = project.read("fit.svg");
    assert!(
        chart.contains("as it is") && chart.contains("budget") && chart.contains("batch_size: 2"),
        "{chart}"
    );
}

#[test]
fn limits_are_found() {
    let project = Project::new(SPEC);
    let largest = ["--budget", "8MiB", "--largest", "batch_size,max_seq_length,rank"];
    insta::assert_snapshot!("fit_largest", project.fit(&largest));
    insta::assert_snapshot!(
        "fit_smallest_gpu",
        Project::new(TORCH).fit(&["--smallest-gpu", "--format", "csv"])
    );
    project
        .fit(&["--smallest-gpu"])
        .exits(2)
        .stderr_has("of our own trainer");
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    let project = Project::new(SPEC);
    let impossible = project.fit(&["--budget", "10KiB"]).exits(3);
    impossible.stdout_has("no change that may be made makes it fit");
    project.fit(&[]).exits(0).stdout_has("there is no budget");
    project
        .fit(&["--largest", "rank"])
        .exits(2)
        .stderr_has("there is no budget");
    let everything = "attn_implementation,batch_size,gradient_checkpointing,offload,adapter_dtype,autocast,dtype,rank,\
                      optim,lora_fa,target_modules,max_seq_length";
    project
        .fit(&["--keep", everything])
        .exits(2)
        .stderr_has("nothing may change");
    project
        .fit(&["--budget", "rtx-3900"])
        .exits(2)
        .stderr_has("did you mean `rtx-3090`?");
    project
        .fit(&["--keep", "dtype,seed"])
        .exits(2)
        .stderr_has("is not a key that saves memory")
        .stderr_has("1 | --keep dtype,seed\n  |              ^^^^");
    project
        .fit(&["--vary", "rnak"])
        .exits(2)
        .stderr_has("did you mean `rank`?");
    project
        .fit(&["--vary", "rank=many"])
        .exits(2)
        .stderr_has("fit.vary.rank")
        .stderr_has("--> --vary rank=many");
    project
        .fit(&["--vary", "gradient_accumulation_steps=2"])
        .exits(2)
        .stderr_has("follows `batch_size`");
    project
        .fit(&["--vary", "rank", "--keep", "rank"])
        .exits(2)
        .stderr_has("is to change and to stay");
    project
        .fit(&["--cell", "nothing"])
        .exits(2)
        .stderr_has("has no cell `nothing`");
    Project::empty()
        .expctl(&["fit"])
        .exits(2)
        .stderr_has("give a spec, or a model by name");
}

#[test]
fn options_of_a_search_have_errors_of_their_own() {
    let project = Project::new(SPEC);
    for (option, text, error, place) in [
        ("--vary", "", "there is no key", "--> --vary"),
        ("--vary", "rank=", "`rank` has no values", "--> --vary rank="),
        (
            "--vary",
            "rank,dtype=int4",
            "write `--vary rank --vary dtype=int4`",
            "--> --vary rank,dtype=int4",
        ),
        ("--vary", "rank=[4", "unclosed bracket", "--vary rank=[4"),
        ("--keep", "rank,", "there is no key", "1 | --keep rank,"),
    ] {
        let output = project.fit(&["--budget", "4MiB", option, text]).exits(2);
        output.stderr_has(error).stderr_has(place);
    }
    let twice = ["--budget", "4MiB", "--vary", "rank", "--vary", "rank=4"];
    project.fit(&twice).exits(2).stderr_has("`rank` is given twice");
}

#[test]
fn a_value_that_no_cell_can_have_is_an_error() {
    let project = Project::new(SPEC);
    for (vary, error) in [
        ("target_modules=[nope]", "`nope` is not a linear layer"),
        ("max_seq_length=0", "must be at least 2, got 0"),
        (
            "max_seq_length=4096",
            "4096 cannot be planned: the model `tiny` has 512 positions",
        ),
        ("lora_dropout=5", "less than 1, got 5"),
        ("batch_size=2,0", "must be at least 1, got 0"),
        ("gradient_checkpointing={every: 0}", "0 is not an interval"),
    ] {
        let output = project.fit(&["--budget", "4MiB", "--vary", vary]).exits(2);
        output.stderr_has(error);
    }
    let in_spec = format!("{SPEC}fit: {{ vary: {{ batch_size: [2, 0] }} }}\n");
    let output = Project::new(&in_spec).expctl(&["plan", "spec.yaml"]).exits(2);
    output.stderr_has("fit.vary.batch_size: must be at least 1, got 0");

    // Every weight is trained: not where they are quantised, unless their format may change as well.
    let quantised = SPEC.replace("float32", "int4");
    let alone = ["--budget", "1GiB", "--vary", "rank=0"];
    let output = Project::new(&quantised).fit(&alone).exits(2);
    output.stderr_has("quantised weights cannot be trained");
    let together = [&alone[..], &["--vary", "dtype=float32"]].concat();
    Project::new(&quantised).fit(&together).exits(0);
    let swept = format!("{quantised}sweep: {{ grid: {{ dtype: [int4, float32] }} }}\n");
    Project::new(&swept).fit(&alone).exits(0);
}

#[test]
fn a_cell_that_cannot_be_planned_says_why() {
    let spec = TORCH.replace("batch_size", "attn_implementation: flash_attention_2, batch_size");
    let project = Project::new(&spec);
    project
        .fit(&["--budget", "t4"])
        .exits(2)
        .stderr_has("FlashAttention-2 needs Ampere");
    // Another GPU may do it.
    let on_t4 = spec.replace("stack: torch", "stack: torch, gpu: a100-40gb");
    let only = ["--smallest-gpu", "--vary", "batch_size"];
    Project::new(&on_t4)
        .fit(&only)
        .exits(0)
        .stdout_has("as it is: rtx-5090-laptop, ");
}

#[test]
fn nothing_is_written_without_a_budget_or_a_cell_that_fits() {
    let project = Project::new(SPEC);
    let files = ["--write", "fit.yaml", "--chart", "fit.svg"];
    project.fit(&files).exits(2).stderr_has("there is no budget");
    assert!(!project.path("fit.yaml").exists() && !project.path("fit.svg").exists());
    let impossible = [&["--budget", "10KiB"], &files[..2]].concat();
    let output = project.fit(&impossible).exits(3);
    output.stderr_has("nothing fits, so fit.yaml is not written");
    assert!(!project.path("fit.yaml").exists());
    for question in [&["--largest", "rank"][..], &["--smallest-gpu"]] {
        for file in [&files[..2], &files[2..]] {
            let output = project.fit(&[question, file].concat()).exits(2);
            output.stderr_has("cannot be used with");
        }
    }
    let png = ["--budget", "4MiB", "--chart", "fit.png"];
    project.fit(&png).exits(2).stderr_has("end the name in `.svg`");
}

#[test]
fn a_limit_has_its_reason() {
    let project = Project::new(SPEC);
    let output = project.fit(&["--budget", "1KiB", "--largest", "rank"]).exits(3);
    output.stdout_has("as it is: none");
    // Three samples, which no memory makes more.
    let samples = "{\"text\": \"some text\"}\n".repeat(3);
    let spec = SPEC.replace(
        "batch_size: 4",
        "weights: random, data: { path: d.jsonl }, batch_size: 1",
    );
    let project = Project::new(&spec);
    project.write("d.jsonl", &samples);
    let largest = ["--budget", "1GiB", "--largest", "batch_size"];
    let output = project.fit(&largest).exits(0);
    output
        .stdout_has("as it is: 3, ")
        .stdout_has("the data has no more samples");
    let csv = [&largest[..], &["--format", "csv"]].concat();
    project.fit(&csv).stdout_has("batch_size,3,data,none");
}

#[test]
fn ranges_and_notes_are_told() {
    let spec = TORCH.replace(
        "dtype: bfloat16, batch_size: 8",
        "dtype: int4, autocast: bfloat16, batch_size: 1",
    );
    let project = Project::new(&spec.replace("1024", "64"));
    let arguments = ["--budget", "900MiB", "--headroom", "0"];
    let output = project.fit(&arguments).exits(0);
    output.stdout_has("may not fit");
    let json = project.fit(&["--budget", "t4", "--format", "json"]).json();
    let least = &json[0]["least"];
    assert!(least["predicted_needed_high_bytes"].as_u64() > least["predicted_needed_bytes"].as_u64());
    assert_eq!(json[0]["configuration"], Value::Null);
    insta::assert_snapshot!("fit_range", project.fit(&["--budget", "t4"]));
    let named = ["fit", "--model", "tiny", "--budget", "1GiB", "--format", "json"];
    let named = Project::empty().expctl(&named).json();
    assert_eq!(named[0]["configuration"]["model"], "tiny");
}
