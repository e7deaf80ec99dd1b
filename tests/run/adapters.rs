//! Adapters that a study trains: another one goes on with them, and `expctl merge` writes them into the model.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::Value;

use crate::common::project::Project;

/// A study of one cell on text.
fn study(name: &str, model: &str, keys: &str) -> String {
    format!(
        "
name: {name}
defaults:
  model: {model}
  dtype: float32
  data: sample
  eval_fraction: 0.1
  max_seq_length: 32
{keys}
"
    )
}

/// The folder of the study's cell.
fn cell(project: &Project, study: &str) -> PathBuf {
    let cells = project.path("results").join(study).join("cells");
    fs::read_dir(cells).unwrap().next().unwrap().unwrap().path()
}

fn record(project: &Project, study: &str) -> Value {
    serde_json::from_slice(&fs::read(cell(project, study).join("record.json")).unwrap()).unwrap()
}

/// A project with a model that was trained a little.
fn project() -> Project {
    let project = Project::empty();
    let base = study(
        "base",
        "tiny",
        "  rank: 0\n  max_steps: 2\nrecord: { model: ../models/base }",
    );
    project.write("specs/base.yaml", base);
    project.expctl(&["run", "specs/base.yaml"]).exits(0);
    project
}

#[test]
fn an_adapter_is_gone_on_with_and_merged() {
    let project = project();
    for (at, keys) in [
        "  rank: 4\n  lora: { use_rslora: true, rank_pattern: { q_proj: 2 } }",
        "  rank: 4\n  adapter: dora",
        "  rank: 4\n  lora: { init_lora_weights: pissa }\n  modules_to_save: [embed_tokens, input_layernorm]",
        "  rank: 4\n  target_modules: '.*\\.1\\.mlp\\..*'\n  modules_to_save: [lm_head]",
        "  adapter: ia3\n  modules_to_save: [model.norm]",
        "  rank: 5\n  adapter: miss",
        "  rank: 4\n  adapter: miss\n  miss: { init_weights: mini, mini_r: 4 }\n  target_modules: [v_proj, down_proj]",
        "  rank: 4\n  adapter: vera",
        "  rank: 4\n  adapter: vera\n  vera: { save_projection: false, projection_prng_key: 5 }\n  adapter_dtype: bfloat16",
        "  adapter: ln_tuning",
    ]
    .into_iter()
    .enumerate()
    {
        let [first, second, merged] = ["first", "second", "merged"].map(|name| format!("{name}{at}"));
        let run = |name: &str, model: &str, keys: &str| {
            let path = format!("specs/{name}.yaml");
            project.write(&path, study(name, model, keys));
            project.expctl(&["run", &path]).exits(0);
            record(&project, name)
        };
        let ended = run(
            &first,
            "../models/base",
            &format!("{keys}\n  max_steps: 4\n  learning_rate: 1.0e-2"),
        );
        let adapter = cell(&project, &first).join("adapter");
        let path = adapter.display();
        let still = "  max_steps: 1\n  learning_rate: 0.0";
        let went_on = run(
            &second,
            "../models/base",
            &format!("{keys}\n  init_adapter: {path}\n{still}"),
        );
        let loss = |record: &Value| record["measured"]["loss_eval"].as_f64().unwrap();
        assert_eq!(loss(&went_on), loss(&ended), "{keys}");
        let hash = went_on["provenance"]["init_adapter_sha256"].as_str().unwrap();
        assert_eq!((hash.len(), ended["provenance"].get("init_adapter_sha256")), (64, None));
        let weights = |folder: PathBuf| fs::read(folder.join("adapter_model.safetensors")).unwrap();
        assert!(
            weights(adapter.clone()) == weights(cell(&project, &second).join("adapter")),
            "{keys}"
        );

        let output = format!("models/{merged}");
        let model = ["--model", "models/base"];
        let arguments = [
            &["merge", adapter.to_str().unwrap()][..],
            &model,
            &["--output", &output],
        ]
        .concat();
        let output = project.expctl(&arguments).exits(0);
        output.stdout_has("wrote models/merged");
        let same = run(&merged, &format!("../models/{merged}"), &format!("  rank: 1\n{still}"));
        let (merged, ended) = (loss(&same), loss(&ended));
        assert!((merged / ended - 1.0).abs() < 1e-5, "{keys}: {merged} merged, {ended}");
    }
}

/// The hashes in the records of a study of one `adapter_config`, by cell.
fn configurations(project: &Project, study: &str) -> BTreeMap<String, String> {
    let cells = fs::read_dir(project.path("results").join(study).join("cells")).unwrap();
    let cells = cells.map(|cell| cell.unwrap().path());
    let hash = |cell: PathBuf| {
        let record: Value = serde_json::from_slice(&fs::read(cell.join("record.json")).unwrap()).unwrap();
        let hash = record["provenance"]["adapter_config_sha256"].as_str().unwrap();
        (record["cell_id"].as_str().unwrap().to_owned(), hash.to_owned())
    };
    cells.map(hash).collect()
}

#[test]
fn a_configuration_that_says_something_else_makes_another_cell() {
    let project = Project::empty();
    let keys = "  adapter_config: adapter_config.json\n  max_steps: 1";
    project.write("specs/changed.yaml", study("changed", "tiny", keys));
    let run = |rank: usize, remark: &str| {
        let config =
            format!(r#"{{"peft_type": "LORA", "target_modules": ["q_proj"], "r": {rank}, "revision": "{remark}"}}"#);
        project.write("specs/adapter_config.json", config);
        project.expctl(&["run", "specs/changed.yaml"]).exits(0);
        configurations(&project, "changed")
    };
    let first = run(2, "a");
    assert_eq!(first.len(), 1);
    // A remark changes no key, so the record stays, with the file that it was trained by.
    assert_eq!(run(2, "b"), first);
    let both = run(4, "b");
    assert_eq!(both.len(), 2);
    assert!(first.iter().all(|(id, hash)| both.get(id) == Some(hash)), "{both:?}");
    assert_eq!(both.values().collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn a_cell_is_trained_by_the_configuration_of_peft() {
    let project = Project::empty();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for adapter in [
        "tiny_llama_adapter",
        "tiny_llama_miss_mini_adapter",
        "tiny_llama_ia3_inputs_adapter",
    ] {
        let name = adapter.replace('_', "-");
        let folder = fixtures.join(adapter);
        let keys = format!(
            "  adapter_config: {}\n  init_adapter: {0}\n  max_steps: 1",
            folder.display()
        );
        let model = fixtures.join("tiny_llama");
        let text = study(&name, model.to_str().unwrap(), &keys).replace("data: sample", "data: synthetic");
        let path = format!("specs/{name}.yaml");
        project.write(&path, text.replace("  eval_fraction: 0.1\n", ""));
        project.expctl(&["run", &path]).exits(0);
        let record = record(&project, &name);
        let hash = record["provenance"]["adapter_config_sha256"].as_str().unwrap();
        assert_eq!(hash.len(), 64);
        let cell = cell(&project, &name);
        let keys = fs::read_to_string(cell.join("cell.yaml")).unwrap();
        assert!(
            keys.contains(&format!("adapter_config: {}", folder.display())),
            "{keys}"
        );
        let json = |folder: &Path| -> Value {
            serde_json::from_slice(&fs::read(folder.join("adapter_config.json")).unwrap()).unwrap()
        };
        let (ours, theirs) = (json(&cell.join("adapter")), json(&folder));
        let names = |config: &Value| -> BTreeSet<String> {
            let list = config["target_modules"].as_array().unwrap().iter();
            list.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let is_of = |name: &String| names(&theirs).iter().any(|theirs| name.ends_with(theirs.as_str()));
        assert!(names(&ours).iter().all(is_of), "{ours}");
        for field in ["peft_type", "r", "mini_r", "init_weights", "task_type"] {
            assert_eq!(ours[field], theirs[field], "{adapter}: {field}");
        }
    }
}

#[test]
fn virtual_tokens_start_from_a_text_and_are_gone_on_with() {
    let project = project();
    let run = |name: &str, keys: &str| {
        let path = format!("specs/{name}.yaml");
        let keys = format!("  adapter: prompt_tuning\n{keys}");
        project.write(&path, study(name, "../models/base", &keys));
        project.expctl(&["run", &path]).exits(0);
        record(&project, name)
    };
    let prompts = |name: &str| {
        let file = fs::read(cell(&project, name).join("adapter/adapter_model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let prompts = tensors.tensor("prompt_embeddings").unwrap();
        assert_eq!(tensors.len(), 1);
        let values = prompts
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes));
        values
            .collect::<Vec<_>>()
            .chunks(prompts.shape()[1])
            .map(<[f32]>::to_vec)
            .collect::<Vec<_>>()
    };
    let still = "  max_steps: 1\n  learning_rate: 0.0";
    run(
        "random",
        &format!("  prompt_tuning: {{ num_virtual_tokens: 3 }}\n{still}"),
    );
    let text = "init: text, init_text: the";
    run(
        "text",
        &format!("  prompt_tuning: {{ num_virtual_tokens: 9, {text} }}\n{still}"),
    );
    let (random, of_text) = (prompts("random"), prompts("text"));
    assert_eq!((random.len(), of_text.len()), (3, 9));
    // The embeddings of one text or its tokens, over and over: much smaller than random ones.
    let period = (1..=4)
        .find(|&at| of_text[at] == of_text[0])
        .expect("a short text is repeated");
    assert!((0..9 - period).all(|at| of_text[at] == of_text[at + period]));
    let size = |rows: &[Vec<f32>]| rows.iter().flatten().map(|value| value * value).sum::<f32>() / rows.len() as f32;
    assert!(size(&of_text) < 0.1 * size(&random));

    let ended = run(
        "first",
        "  prompt_tuning: { num_virtual_tokens: 3 }\n  max_steps: 4\n  learning_rate: 1.0e-2",
    );
    let adapter = cell(&project, "first").join("adapter");
    let from = format!("  init_adapter: {}\n{still}", adapter.display());
    let went_on = run(
        "second",
        &format!("  prompt_tuning: {{ num_virtual_tokens: 3 }}\n{from}"),
    );
    assert_eq!(went_on["measured"]["loss_eval"], ended["measured"]["loss_eval"]);
    assert_eq!(prompts("second"), prompts("first"));
    assert_ne!(prompts("first"), random);

    let keys = format!("  adapter: prompt_tuning\n{from}");
    project.write("specs/other.yaml", study("other", "../models/base", &keys));
    let other = project.expctl(&["run", "specs/other.yaml"]).exits(2);
    other.stderr_has("`num_virtual_tokens` is 3, and the cell's `prompt_tuning.num_virtual_tokens` is 20");
    let merge = [
        "merge",
        adapter.to_str().unwrap(),
        "--model",
        "models/base",
        "--output",
        "models/merged",
    ];
    project
        .expctl(&merge)
        .exits(2)
        .stderr_has("virtual tokens change no weight");
}

#[test]
fn fields_and_tensors_of_each_method_must_be_the_cells() {
    let project = project();
    let run = |name: &str, keys: &str| {
        let path = format!("specs/{name}.yaml");
        project.write(&path, study(name, "../models/base", &format!("{keys}\n  max_steps: 1")));
        project.expctl(&["run", &path])
    };
    for (name, keys, other, code, expected) in [
        (
            "miss",
            "  rank: 4",
            "  rank: 8",
            2,
            "`r` is 4, and the cell's `rank` is 8",
        ),
        (
            "miss",
            "  rank: 4",
            "  rank: 4\n  miss: { init_weights: mini }",
            2,
            "`init_weights` is true, and the cell's `miss.init_weights` is mini",
        ),
        (
            "vera",
            "  rank: 4",
            "  rank: 4\n  vera: { projection_prng_key: 1 }",
            2,
            "`projection_prng_key` is 0, and the cell's `vera.projection_prng_key` is 1",
        ),
        (
            "ia3",
            "",
            "  ia3: { feedforward_modules: [v_proj] }",
            1,
            "v_proj.ia3_l: its shape is [",
        ),
    ] {
        let method = format!("  adapter: {name}");
        run("first", &format!("{method}\n{keys}")).exits(0);
        let adapter = cell(&project, "first").join("adapter");
        let from = format!("{method}\n  init_adapter: {}\n{other}", adapter.display());
        run("second", &from).exits(code).stderr_has(expected);
        fs::remove_dir_all(project.path("results")).unwrap();
    }

    let vera = "  adapter: vera\n  rank: 4";
    run("first", vera).exits(0);
    let adapter = cell(&project, "first").join("adapter");
    let path = adapter.join("adapter_model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let first = {
        let file = SafeTensors::deserialize(&bytes).unwrap();
        file.tensor("base_model.vera_A").unwrap().data().as_ptr() as usize - bytes.as_ptr() as usize
    };
    bytes[first] ^= 1;
    fs::write(&path, bytes).unwrap();
    let other = run("second", &format!("{vera}\n  init_adapter: {}", adapter.display())).exits(1);
    other.stderr_has("vera_A: `projection_prng_key` draws other numbers");
}

#[test]
fn another_adapter_is_a_mistake() {
    let project = project();
    project.write(
        "specs/first.yaml",
        study("first", "../models/base", "  rank: 4\n  max_steps: 1"),
    );
    project.expctl(&["run", "specs/first.yaml"]).exits(0);
    let adapter = cell(&project, "first").join("adapter");
    let mistake = |keys: &str, path: &str| {
        let keys = format!("  init_adapter: {path}\n  max_steps: 1\n{keys}");
        project.write("specs/second.yaml", study("second", "../models/base", &keys));
        project.expctl(&["run", "specs/second.yaml"])
    };
    let path = adapter.to_str().unwrap();
    for (keys, expected) in [
        ("  rank: 8", "`r` is 4, and the cell's `rank` is 8"),
        (
            "  rank: 4\n  lora_alpha: 3",
            "`lora_alpha` is 8, and the cell's `lora_alpha` is 3",
        ),
        (
            "  rank: 4\n  adapter: dora",
            "`peft_type` is lora, and the cell's `adapter` is dora",
        ),
        (
            "  rank: 4\n  lora: { use_rslora: true }",
            "`use_rslora` is false, and the cell's `lora.use_rslora` is true",
        ),
    ] {
        mistake(keys, path)
            .exits(2)
            .stderr_has(expected)
            .stderr_has("`init_adapter: ");
    }
    mistake("  rank: 4", "nowhere")
        .exits(2)
        .stderr_has("nowhere/adapter_config.json");
    // The modules are those of the tensors.
    let fewer = mistake("  rank: 4\n  target_modules: [q_proj]", path).exits(1);
    fewer.stderr_has("the cell does not train it");

    let output = ["--output", "models/merged"];
    let merge = |arguments: &[&str]| project.expctl(&[&["merge"], arguments, &output].concat());
    merge(&[path])
        .exits(2)
        .stderr_has("is not a folder here; name its folder with --model");
    merge(&["specs"]).exits(2).stderr_has("specs/adapter_config.json");
    merge(&[path, "--model", "specs"])
        .exits(2)
        .stderr_has("cannot read specs/config.json");
    project.write("models/merged/README.md", "mine");
    merge(&[path, "--model", "models/base"])
        .exits(2)
        .stderr_has("models/merged is there already");
}

/// The file suits some family, so the spec can be read.
#[test]
fn norms_of_another_family_are_neither_planned_nor_trained() {
    let norms = r#"["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm", "norm"]"#;
    let project = Project::new("name: norms\ndefaults: {model: tiny, dtype: float32, adapter_config: norms.json}\n");
    project.write(
        "norms.json",
        format!(r#"{{"peft_type": "LN_TUNING", "target_modules": {norms}}}"#),
    );
    for command in ["plan", "run"] {
        project
            .expctl(&[command, "spec.yaml"])
            .exits(2)
            .stderr_has("norms that are tuned are input_layernorm, norm, post_attention_layernorm");
    }
}
