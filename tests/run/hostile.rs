//! Files of a cell that crash, grow or take long: they cost that cell, and a run that predicts can be stopped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use expctl::records::Status;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::project::Project;

/// Conversations whose template takes some hundredths of a second each: seconds in all.
const SLOW: &str =
    "{% for i in range(90000) %}{% set x = i %}{% endfor %}{{ messages[0].content }} {{ messages[1].content }}";
const CONVERSATIONS: usize = 1000;

/// A project with a model's folder, and conversations for it.
fn project(spec: &str, conversations: usize) -> Project {
    let project = Project::new(spec);
    let line = r#"{"messages": [{"role": "user", "content": "who"}, {"role": "assistant", "content": "a river"}]}"#;
    project.write("chat.jsonl", format!("{line}\n").repeat(conversations));
    project.write("slow.jinja", SLOW);
    for model in ["good", "grows"] {
        let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
            "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-6}"#;
        project.write(format!("{model}/config.json"), config);
        project.write(
            format!("{model}/tokenizer_config.json"),
            r#"{"chat_template": "{{ messages[0].content }} {{ messages[1].content }}"}"#,
        );
        let mut tokenizer: serde_json::Value = serde_json::from_slice(expctl::data::EMBEDDED_TOKENIZER).unwrap();
        if model == "grows" {
            let rule = serde_json::json!({"type": "Replace", "pattern": {"String": "r"}, "content": "rr"});
            tokenizer["normalizer"] = serde_json::json!({"type": "Sequence", "normalizers": vec![rule; 60]});
        }
        project.write(format!("{model}/tokenizer.json"), tokenizer.to_string());
    }
    project
}

#[test]
fn a_tokenizer_that_grows_costs_its_cell() {
    let project = project(
        "
name: x
defaults: { weights: random, dtype: float32, max_seq_length: 32, max_steps: 1, batch_size: 1, data: { path: chat.jsonl } }
sweep: { grid: { model: [./grows, ./good] } }
",
        3,
    );
    let output = project.run(&[]).exits(1);
    assert_eq!(project.statuses(), [Some(Status::Failed), Some(Status::Ok)]);
    output.stdout_has("chat template or tokenizer takes ");
    // A plan of that cell says it, too.
    let output = project
        .expctl(&["plan", "spec.yaml", "--set", "model=./grows"])
        .exits(2);
    output
        .stderr_has("error: ")
        .stderr_has("chat template or tokenizer takes ");
}

#[test]
fn a_template_that_grows_or_nests_is_an_error() {
    let spec = "
name: x
defaults:
  { model: ./good, weights: random, dtype: float32, max_seq_length: 32, max_steps: 1, batch_size: 1,
    data: { path: chat.jsonl, chat_template: t.jinja } }
";
    let project = project(spec, 3);
    let nested = format!("{{{{ {} }}}}", ["messages"; 20_000].join(" and "));
    let loops = |body: &str| {
        format!("{{% set ns = namespace(s='ab', l=[]) %}}{{% for i in range(100000) %}}{body}{{% endfor %}}")
    };
    for (template, part) in [
        (loops("{% set ns.s = ns.s ~ ns.s %}"), "takes more than"),
        (
            loops("{% for j in range(100000) %}{% set x = 1 %}{% endfor %}"),
            "instructions for one conversation",
        ),
        (
            loops("{% for j in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}"),
            "instructions for one conversation",
        ),
        (nested.repeat(2), "more than 262144"),
        ("{{ raise_exception('\\x1b[2J') }}".to_owned(), r"\u001b[2J"),
    ] {
        project.write("t.jinja", &template);
        let output = project.expctl(&["plan", "spec.yaml"]).exits(2);
        output.stderr_has(part);
        assert!(!output.stderr.contains('\u{1b}'), "{output}");
    }
    fs::remove_file(project.path("t.jinja")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(project.path("t.jinja"))
        .status();
    assert!(pipe.unwrap().success());
    project
        .expctl(&["plan", "spec.yaml"])
        .exits(2)
        .stderr_has("it is not a regular file");
}

#[test]
fn conditions_that_nest_or_grow_are_errors() {
    let project = Project::empty();
    let spec = |condition: &str| {
        let condition = serde_json::Value::from(condition);
        format!("name: x\ndefaults: {{ model: tiny }}\nsweep: {{ grid: {{ rank: [2, 4] }}, exclude: {condition} }}\n")
    };
    for (condition, part) in [
        (["rank == 3"; 24_000].join(" or "), "and 4096 is the most"),
        (
            "('a' * 100000)|replace('a', 'a' * 100000) == ''".to_owned(),
            "takes more than 256 MiB",
        ),
    ] {
        project.write("spec.yaml", spec(&condition));
        project.expctl(&["validate", "spec.yaml"]).exits(2).stderr_has(part);
    }
}

#[test]
fn a_killed_trial_says_nothing_of_memory() {
    let project = Project::new(
        "
name: x
defaults:
  { model: tiny, dtype: float32, max_seq_length: 16, max_steps: 1, device_memory: 8MiB,
    auto_batch_size: { start: 1, max: 4, search: largest } }
limits: { retries: 1 }
",
    );
    let program = env!("CARGO_BIN_EXE_expctl");
    let script = format!("#!/bin/sh\ncase \"$*\" in *--trial*) kill -9 $$ ;; esac\nexec '{program}' \"$@\"\n");
    project.write("worker.sh", script);
    let mut permissions = fs::metadata(project.path("worker.sh")).unwrap().permissions();
    permissions.set_mode(0o755);
    fs::set_permissions(project.path("worker.sh"), permissions).unwrap();
    let output = project.run(&["--worker", "./worker.sh"]).exits(0);
    output
        .stderr_has("it is tried again")
        .stderr_has("so the prediction decides");
    output.stderr_has("is batch_size: 4, gradient_accumulation_steps: 1, by prediction");
    // The next run tries again, and finds what there is to find.
    let output = project.run(&[]).exits(0);
    output.stderr_has("is batch_size: 4, gradient_accumulation_steps: 1, after 1 real step");
}

#[test]
fn a_run_that_predicts_ends_at_once_and_keeps_to_its_limit() {
    let spec = "
name: x
defaults:
  { model: ./good, weights: random, dtype: float32, max_seq_length: 32, max_steps: 1, batch_size: 1,
    data: { path: chat.jsonl, chat_template: slow.jinja } }
";
    let project = project(spec, CONVERSATIONS);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut run = project.run_command(&[]).stderr(Stdio::piped()).spawn().unwrap();
        let lock = project.path("out/study.yaml");
        let started = Instant::now();
        while !lock.exists() {
            assert!(started.elapsed() < Duration::from_secs(60) && run.try_wait().unwrap().is_none());
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(200));
        let asked = Instant::now();
        kill_process(Pid::from_child(&run), signal).unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("interrupted while cells are predicted"), "{said}");
        fs::remove_file(lock).unwrap();
    }
    project.write("spec.yaml", format!("{spec}limits: {{ timeout: 1s }}\n"));
    let started = Instant::now();
    project.run(&[]).exits(1);
    assert_eq!(project.statuses(), [Some(Status::Timeout)]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
