//! The commands with names of the hub, as a user types them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use expctl::records::Record;
use expctl::records::store::read_record;
use serde_json::{Value, json};

use crate::common::project::{Output, Project};
use crate::server::{Faults, Repository, Server, commit};

const SPEC: &str = "
name: walk
defaults: {model: owner/tiny, max_seq_length: 16, batch_size: 2, max_steps: 2, data: {synthetic: {samples: 8}}}
sweep: {grid: {rank: [2, 4]}}
";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The files of a fixture, and a tokenizer.
fn tiny() -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(fixture("tiny_llama3"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut files: BTreeMap<_, _> = files.map(|path| (name(&path), fs::read(&path).unwrap())).collect();
    files.insert("README.md".into(), b"A tiny model.".to_vec());
    files.insert("pytorch_model.bin".into(), b"not read".to_vec());
    files
}

/// A model that the tokenizer of the presets is for, without weights.
fn shape() -> BTreeMap<String, Vec<u8>> {
    let config = fs::read_to_string(fixture("tiny_llama").join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["vocab_size"] = json!(512);
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/data/embedded/tokenizer.json");
    BTreeMap::from([
        ("config.json".to_owned(), config.to_string().into_bytes()),
        ("tokenizer.json".to_owned(), fs::read(tokenizer).unwrap()),
    ])
}

fn repository(files: BTreeMap<String, Vec<u8>>) -> Repository {
    let mut repository = Repository::default();
    repository.push(commit(1), files);
    repository
}

fn quotes(range: std::ops::Range<usize>) -> String {
    range
        .map(|number| json!({ "quote": format!("Quote {number} says: be brief.") }).to_string() + "\n")
        .collect()
}

struct Walk {
    server: Server,
    project: Project,
}

impl Walk {
    fn new(spec: &str) -> Self {
        let set = Repository::new(
            commit(3),
            [
                ("README.md", "Quotes.".to_owned()),
                ("data/train-00000-of-00002.jsonl", quotes(0..10)),
                ("data/train-00001-of-00002.jsonl", quotes(10..16)),
                ("data/test-00000-of-00001.jsonl", quotes(16..20)),
            ],
        );
        let subsets = [
            "main/train-00000-of-00001.jsonl",
            "socratic/train-00000-of-00001-0a1b2c.jsonl",
            "tests/dev-00000-of-00001.jsonl",
            "tests/test-00000-of-00001.jsonl",
        ];
        let subsets = Repository::new(commit(4), subsets.map(|file| (file, quotes(0..8))));
        let adapter = r#"{"peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["q_proj"]}"#;
        let adapter = Repository::new(commit(5), [("adapter_config.json", adapter), ("README.md", "LoRA.")]);
        let readme = "---\nconfigs:\n- config_name: short\n  data_files: {train: a/*.jsonl, test: b/0.jsonl}\n\
            - config_name: long\n  data_files: b/*.jsonl\n---\n";
        let configs = Repository::new(
            commit(6),
            [
                ("README.md", readme.to_owned()),
                ("a/0.jsonl", quotes(0..3)),
                ("a/1.jsonl", quotes(3..6)),
                ("b/0.jsonl", quotes(6..8)),
            ],
        );
        let repositories = [
            ("datasets/owner/configs", configs),
            ("owner/adapter", adapter),
            ("owner/tiny", repository(tiny())),
            ("owner/shape", repository(shape())),
            ("datasets/owner/quotes", set),
            ("datasets/owner/subsets", subsets),
        ];
        Self {
            server: Server::start(repositories, Faults::none()),
            project: Project::new(spec),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HF_")) {
            command.env_remove(name);
        }
        command.env_remove("HF_HUB_OFFLINE");
        command.env("HF_ENDPOINT", self.server.endpoint());
        command.env("HF_HOME", self.project.path("cache"));
        command
    }

    fn expctl(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.command(arguments))
    }

    /// The files that were downloaded since the last call.
    fn downloads(&self) -> Vec<String> {
        let paths = self.server.seen().into_iter().map(|seen| seen.path);
        let mut files: Vec<_> = paths
            .filter_map(|path| Some(path.split_once("/resolve/")?.1.split_once('/')?.1.to_owned()))
            .collect();
        files.sort();
        files
    }

    fn records(&self) -> Vec<Record> {
        let cells = self.project.results_of("walk").cells().unwrap();
        cells.iter().map(|cell| read_record(cell).unwrap().unwrap()).collect()
    }
}

#[test]
fn a_readme_says_which_files_a_configuration_has() {
    let walk = Walk::new(SPEC);
    let look = |name: &str, more: &[&str]| {
        let known = [
            "data",
            name,
            "--model",
            "owner/shape",
            "--format",
            "json",
            "--set",
            "data.column=quote",
        ];
        walk.expctl(&[&known, more].concat())
    };
    let short = look("hf://datasets/owner/configs/short", &[]);
    short.exits(0).stdout_has("\"samples\": 6");
    let files = ["README.md", "a/0.jsonl", "a/1.jsonl", "config.json", "tokenizer.json"];
    assert_eq!(walk.downloads(), files);
    let test = look("hf://datasets/owner/configs/short", &["--set", "data.split=test"]);
    test.exits(0).stdout_has("\"samples\": 2");
    look("hf://datasets/owner/configs/long", &[])
        .exits(0)
        .stdout_has("\"samples\": 2");
    let several = look("owner/configs", &[]).exits(2);
    several
        .stderr_has("has several configurations, and none is the default; it has short, long")
        .stderr_has("such as `hf://datasets/owner/configs/short`");
    look("hf://datasets/owner/configs/shrt", &[])
        .exits(2)
        .stderr_has("shrt")
        .stderr_has("short");
}

#[test]
fn an_adapters_configuration_is_one_of_the_hub() {
    let walk = Walk::new("name: walk\ndefaults: {model: tiny, dtype: float32, adapter_config: owner/adapter}\n");
    let plan = |walk: &Walk| walk.expctl(&["plan", "spec.yaml", "--format", "json"]).exits(0);
    // Three for each of 64 inputs and outputs, in each of two blocks.
    plan(&walk).stdout_has("\"predicted_trainable_count\": 768");
    assert_eq!(walk.downloads(), ["adapter_config.json"]);
    let mut offline = walk.command(&["plan", "spec.yaml", "--format", "json"]);
    let offline = Output::of(offline.env("HF_HUB_OFFLINE", "1")).exits(0);
    offline.stdout_has("\"predicted_trainable_count\": 768");
    // A folder of that name comes first.
    fs::create_dir_all(walk.project.path("owner/adapter")).unwrap();
    let own = r#"{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]}"#;
    fs::write(walk.project.path("owner/adapter/adapter_config.json"), own).unwrap();
    plan(&walk).stdout_has("\"predicted_trainable_count\": 1024");

    let other = Walk::new("name: walk\ndefaults:\n  model: tiny\n  adapter_config: owner/nothing\n");
    let refused = other.expctl(&["validate", "spec.yaml"]).exits(2);
    refused
        .stderr_has("spec.yaml:4:19")
        .stderr_has("adapter_config: there is no ")
        .stderr_has("/owner/nothing; as a name of the hub: ")
        .stderr_has("has no model `owner/nothing`");
    let other = Walk::new("name: walk\ndefaults:\n  model: tiny\n  adapter_config: owner/quotes\n");
    other
        .expctl(&["validate", "spec.yaml"])
        .exits(2)
        .stderr_has("owner/quotes");
}

#[test]
fn a_model_is_looked_at_planned_trained_and_shown() {
    let walk = Walk::new(SPEC);
    walk.expctl(&["validate", "spec.yaml"])
        .exits(0)
        .stdout_has("walk: 2 cells");
    assert_eq!(walk.downloads(), ["config.json"]);
    for arguments in [
        &["plan", "spec.yaml"][..],
        &["plan", "--model", "owner/tiny", "--set", "max_seq_length=16"],
        &[
            "plan",
            "--model",
            "hf://owner/tiny@main",
            "--gpu",
            "t4",
            "--set",
            "max_seq_length=16",
        ],
        &[
            "fit",
            "--model",
            "owner/tiny",
            "--budget",
            "1GiB",
            "--set",
            "max_seq_length=16",
        ],
        &["run", "spec.yaml", "--dry-run"],
    ] {
        walk.expctl(arguments).exits(0);
        assert_eq!(walk.downloads(), [""; 0], "{arguments:?}");
    }
    let mut offline = walk.command(&["run", "spec.yaml"]);
    let refused = Output::of(offline.env("HF_HUB_OFFLINE", "1")).exits(2);
    refused.stderr_has("model.safetensors.index.json), and HF_HUB_OFFLINE is set");
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    let weights = [1, 2, 3].map(|number| format!("model-0000{number}-of-00003.safetensors"));
    assert_eq!(
        walk.downloads(),
        [&weights[..], &["model.safetensors.index.json".to_owned()]].concat()
    );

    let records = walk.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        let revision = &record.provenance.hub["hf://owner/tiny"];
        assert_eq!(revision.commit, commit(1));
        let files: Vec<_> = revision.files.keys().map(String::as_str).collect();
        assert_eq!(files.len(), 5, "{files:?}");
        let bytes = &tiny()[&weights[0]];
        assert_eq!(revision.files[&weights[0]], crate::server::sha256(bytes));
    }
    walk.expctl(&["show", &records[0].cell_id])
        .exits(0)
        .stdout_has(&format!("hf://owner/tiny  {}", commit(1)));

    // The same as with the directory, whose cells have other ids.
    walk.project.write(
        "spec.yaml",
        SPEC.replace("owner/tiny", fixture("tiny_llama3").to_str().unwrap())
            .replace("walk", "local"),
    );
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    let losses = |records: Vec<Record>| {
        let mut losses: Vec<_> = records
            .iter()
            .map(|record| record.measured.as_ref().unwrap().loss_last.to_bits())
            .collect();
        losses.sort_unstable();
        losses
    };
    let local = walk.project.results_of("local").cells().unwrap();
    let local: Vec<_> = local.iter().map(|cell| read_record(cell).unwrap().unwrap()).collect();
    assert!(
        local
            .iter()
            .all(|local| records.iter().all(|record| record.cell_id != local.cell_id))
    );
    assert_eq!(losses(local), losses(records));
}

#[test]
fn a_branch_that_moved_is_reported() {
    let walk = Walk::new(SPEC);
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    walk.downloads();
    let mut files = tiny();
    files.insert("README.md".into(), b"A better text.".to_vec());
    walk.server
        .change("owner/tiny", |repository| repository.push(commit(2), files));
    let again = walk.expctl(&["run", "spec.yaml"]).exits(0);
    again.stderr_has(
        "2 kept results were made from `hf://owner/tiny` at commit 010101010101, and it is at 020202020202 now",
    );
    assert_eq!(walk.downloads(), [""; 0], "no file changed that is needed");
    walk.expctl(&["run", "spec.yaml", "--fresh"]).exits(0);
    assert!(
        walk.records()
            .iter()
            .all(|record| record.provenance.hub["hf://owner/tiny"].commit == commit(2))
    );
    // The same without a network, from the cache.
    let mut offline = walk.command(&["run", "spec.yaml", "--fresh"]);
    Output::of(offline.env("HF_HUB_OFFLINE", "1")).exits(0);
    let mut unreachable = walk.command(&["plan", "spec.yaml"]);
    let planned = Output::of(unreachable.env("HF_ENDPOINT", "http://does-not-exist.invalid")).exits(0);
    planned
        .stderr_has("note: the hub does not answer")
        .stderr_has("`owner/tiny` is taken from the cache, at commit 020202020202");
}

#[test]
fn a_finished_study_downloads_nothing() {
    let walk = Walk::new(SPEC);
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    fs::remove_dir_all(walk.project.path("cache")).unwrap();
    walk.downloads();
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    assert_eq!(walk.downloads(), [""; 0]);
    // Nor does it ask, without a network.
    let mut offline = walk.command(&["run", "spec.yaml"]);
    Output::of(offline.env("HF_HUB_OFFLINE", "1")).exits(0);
    fs::write(walk.project.path("spec.yaml"), SPEC.replace("[2, 4]", "[2, 8]")).unwrap();
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    assert!(walk.downloads().contains(&"config.json".to_owned()), "one cell is new");
}

#[test]
fn a_data_set_is_read_in_parts_with_the_models_tokenizer() {
    let spec = "
name: walk
defaults: {model: owner/shape, weights: random, max_seq_length: 32, batch_size: 2, rank: 2, num_train_epochs: 1,
           data: {path: owner/quotes, column: quote}}
";
    let walk = Walk::new(spec);
    walk.expctl(&["validate", "spec.yaml"]).exits(0);
    assert_eq!(walk.downloads(), ["README.md", "config.json"]);
    walk.expctl(&["plan", "spec.yaml"]).exits(0);
    let parts = [0, 1].map(|part| format!("data/train-0000{part}-of-00002.jsonl"));
    assert_eq!(walk.downloads(), [&parts[..], &["tokenizer.json".to_owned()]].concat());
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    let record = walk.records().remove(0);
    assert_eq!(record.measured.unwrap().steps, 8, "16 samples, 2 a step");
    assert_eq!(record.provenance.hub["hf://datasets/owner/quotes"].commit, commit(3));
    // One file by its name, and its lengths on PyTorch's stack.
    let file = "data={path: 'hf://datasets/owner/quotes/data/test-00000-of-00001.jsonl', column: quote}";
    walk.expctl(&["plan", "spec.yaml", "--set", file, "--set", "stack=torch"])
        .exits(0);
    assert_eq!(walk.downloads(), ["data/test-00000-of-00001.jsonl"]);
}

/// The spec that ships, with quotes in the columns of the data set that it names.
#[test]
fn the_study_of_english_quotes_runs() {
    let quote = |number: usize| {
        let text = format!("\u{201c}Quote {number} says: be brief.\u{201d}");
        json!({ "quote": text, "author": "Somebody, A Book", "tags": ["brevity", "books"] }).to_string() + "\n"
    };
    let quotes = (0..20).map(quote).collect::<String>();
    let set = Repository::new(
        commit(5),
        [("README.md", "Quotes.".to_owned()), ("quotes.jsonl", quotes)],
    );
    let repositories = [
        ("datasets/ybelkada/english_quotes_copy", set),
        ("HuggingFaceTB/SmolLM2-135M", repository(shape())),
    ];
    let walk = Walk {
        server: Server::start(repositories, Faults::none()),
        project: Project::new(include_str!("../../experiments/english_quotes.yaml")),
    };
    let run = ["run", "spec.yaml", "--set", "weights=random", "--set", "max_steps=2"];
    walk.expctl(&run).exits(0);
    let study = walk.project.results_of("english_quotes");
    let records: Vec<_> = study
        .cells()
        .unwrap()
        .iter()
        .map(|cell| read_record(cell).unwrap().unwrap())
        .collect();
    assert_eq!(records.len(), 6);
    for record in records {
        assert_eq!(
            record.provenance.hub["hf://datasets/ybelkada/english_quotes_copy"].commit,
            commit(5)
        );
        assert!(record.measured.unwrap().loss_last.is_finite());
    }
}

#[test]
fn a_split_is_trained_on_and_another_evaluated() {
    let walk = Walk::new(
        "name: walk\ndefaults: {model: owner/shape, weights: random, max_seq_length: 16, batch_size: 2, max_steps: 2, dtype: float32,
           data: {path: owner/quotes, column: quote, split: test, eval_split: train}}
",
    );
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    let parts = ["test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"];
    let downloads = walk.downloads();
    let data: Vec<_> = downloads.iter().filter(|file| file.starts_with("data/")).collect();
    assert_eq!(
        data,
        parts
            .map(|part| format!("data/{part}.jsonl"))
            .iter()
            .collect::<Vec<_>>()
    );
    let measured = walk.records().remove(0).measured.unwrap();
    assert!(measured.loss_eval.is_some_and(f64::is_finite));
    let missing = ["run", "spec.yaml", "--set", "data.split=dev"];
    walk.expctl(&missing)
        .exits(2)
        .stderr_has("has no split `dev`; it has test, train");
}

#[test]
fn subsets_are_folders() {
    let walk = Walk::new(SPEC);
    let plan = |data: &str| {
        let data = format!("data={{path: '{data}', column: quote}}");
        walk.expctl(&["plan", "spec.yaml", "--set", &data, "--set", "model=owner/shape"])
    };
    plan("hf://datasets/owner/subsets@main").exits(2).stderr_has(
        "the data set `owner/subsets` has several files that could be meant; it has main, socratic; name one, such as \
         `hf://datasets/owner/subsets@main/main`",
    );
    walk.downloads();
    plan("hf://datasets/owner/subsets/socratic").exits(0);
    assert!(
        walk.downloads()
            .contains(&"socratic/train-00000-of-00001-0a1b2c.jsonl".to_owned())
    );
    plan("hf://datasets/owner/subsets/other")
        .exits(2)
        .stderr_has("has no file other at");
    plan("hf://datasets/owner/subsets/tests")
        .exits(2)
        .stderr_has("`tests` of the data set `owner/subsets` has no split `train`; it has test, validation");
}

#[test]
fn a_data_set_that_may_be_a_part_is_refused_offline() {
    let walk = Walk::new(SPEC);
    let plan = |data: &str| {
        let data = format!("data={{path: '{data}', column: quote}}");
        let arguments = ["plan", "spec.yaml", "--set", &data, "--set", "model=owner/shape"];
        let mut command = walk.command(&arguments);
        Output::of(command.env("HF_HUB_OFFLINE", "1"))
    };
    // One file of two parts, as another program may have fetched it.
    let cache = walk.project.path("cache/hub/datasets--owner--quotes");
    let snapshot = cache.join("snapshots").join(commit(3)).join("data");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(cache.join("refs")).unwrap();
    fs::write(cache.join("refs/main"), commit(3)).unwrap();
    fs::write(snapshot.join("train-00000-of-00002.jsonl"), quotes(0..10)).unwrap();
    let other = "data={path: 'hf://datasets/owner/subsets/main', column: quote}";
    walk.expctl(&["plan", "spec.yaml", "--set", "model=owner/shape", "--set", other])
        .exits(0);
    plan("owner/quotes")
        .exits(2)
        .stderr_has("the cache may hold a part of hf://datasets/owner/quotes alone (HF_HUB_OFFLINE is set)");
    plan("hf://datasets/owner/quotes/data/train-00000-of-00002.jsonl").exits(0);
    // The list that Python keeps of a whole snapshot.
    let files = [
        ("train-00000-of-00002", quotes(0..10)),
        ("train-00001-of-00002", quotes(10..16)),
    ];
    let entry = |(name, content): &(&str, String)| {
        let hash = crate::server::git_hash(content.as_bytes());
        (
            format!("data/{name}.jsonl"),
            json!({ "size": content.len(), "blob_id": hash }),
        )
    };
    let list = json!({ "format_version": 1, "files": files.iter().map(entry).collect::<BTreeMap<_, _>>() });
    fs::create_dir_all(cache.join("trees")).unwrap();
    fs::write(cache.join(format!("trees/{}.json", commit(3))), list.to_string()).unwrap();
    plan("owner/quotes")
        .exits(2)
        .stderr_has("data/train-00001-of-00002.jsonl), and HF_HUB_OFFLINE is set");
    fs::write(snapshot.join("train-00001-of-00002.jsonl"), quotes(10..16)).unwrap();
    plan("owner/quotes").exits(0);
}

#[test]
fn a_directory_of_that_name_wins() {
    let walk = Walk::new(SPEC);
    for (name, bytes) in tiny() {
        walk.project.write(Path::new("owner/tiny").join(name), bytes);
    }
    walk.expctl(&["run", "spec.yaml"]).exits(0);
    assert!(walk.server.seen().is_empty());
    assert!(walk.records()[0].provenance.hub.is_empty());
}

#[test]
fn mistakes_end_with_code_2_and_help() {
    let walk = Walk::new(SPEC);
    for (model, expected) in [
        ("owner/tony", "): http://127.0.0.1:"),
        (
            "owner/tony",
            "has no model `owner/tony`, or it is private; a private one needs your token in HF_TOKEN; no such path either: ",
        ),
        ("owner/tony", "did you mean `tiny`?"),
        ("owner/tiny@v2", "the model `owner/tiny` has no revision `v2`"),
        (
            "HuggingFaceTB/SmolLM2-135M",
            "the preset `smollm2-135m` has the shape without weights",
        ),
        ("hf://a/b/c", "this is not a name on the hub"),
        ("hf://datasets/a/b", "this is a data set"),
    ] {
        let set = format!("model={model}");
        for command in [
            &["validate", "spec.yaml"][..],
            &["plan", "spec.yaml"],
            &["run", "spec.yaml"],
        ] {
            let output = walk.expctl(&[command, &["--set", &set]].concat()).exits(2);
            output.stderr_has(expected);
        }
    }
    for command in ["validate", "run"] {
        walk.expctl(&[command, "spec.yaml", "--set", "model=owner/shape"])
            .exits(2)
            .stderr_has("the model `owner/shape` has no safetensors files");
    }
    walk.expctl(&["plan", "spec.yaml", "--set", "data={path: owner/nothing}"])
        .exits(2)
        .stderr_has("`data.path: owner/nothing`")
        .stderr_has("has no data set `owner/nothing`");
    let mut offline = walk.command(&["plan", "spec.yaml", "--set", "model=owner/other"]);
    Output::of(offline.env("HF_HUB_OFFLINE", "1"))
        .exits(2)
        .stderr_has("is not in the cache");
    let named = walk.expctl(&["plan", "--model", "owner/tony"]).exits(2);
    named
        .stderr_has("--model: `model: owner/tony`")
        .stderr_has("has no model `owner/tony`");
}
