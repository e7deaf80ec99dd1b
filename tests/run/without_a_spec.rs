//! `expctl run --model`: a run that writes its own spec.

use crate::common::project::Project;

const QUICK: [&str; 9] = [
    "run",
    "--model",
    "tiny",
    "--set",
    "dtype=float32",
    "--set",
    "max_steps=2",
    "--set",
    "max_seq_length=16",
];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&QUICK[..], arguments].concat()
}

#[test]
fn the_same_command_writes_one_spec_and_goes_on() {
    let project = Project::empty();
    let command = with(&["--data", "sample"]);
    let first = project.expctl(&command).exits(0);
    first
        .stderr_has("wrote tiny.yaml")
        .stdout_has("tiny: 1 of 1 cell has a result");
    let text = project.read("tiny.yaml");
    assert!(
        text.contains("\n  model: tiny\n  data: sample\n  dtype: float32  # "),
        "{text}"
    );

    // In another order, and by the file.
    let again = ["run", "--model", "tiny", "--set", "max_steps=2", "--data", "sample"];
    let again = [&again[..], &["--set", "max_seq_length=16", "--set", "dtype=float32"]].concat();
    for command in [&command, &again, &vec!["run", "tiny.yaml"]] {
        let output = project
            .expctl(&[command, &["--progress", "json"][..]].concat())
            .exits(0);
        output.stdout_has("\"kept\":1");
        assert!(!output.stderr.contains("wrote"), "{output}");
    }
    assert_eq!(project.read("tiny.yaml"), text);

    let other = with(&["--data", "sample", "--set", "rank=2"]);
    project.expctl(&other).exits(2).stderr_has("--output");
    assert_eq!(project.read("tiny.yaml"), text);
    project
        .expctl(&[&other[..], &["--output", "r2.yaml"]].concat())
        .exits(0)
        .stdout_has("r2: 1 of 1 cell has");
    assert!(project.path("results/r2").exists());
}

#[test]
fn data_is_a_path_of_the_current_folder() {
    let project = Project::empty();
    project.write("texts/a.txt", "The river keeps it.\n\nA stick on a nail.\n");
    project.write("specs/readme.md", "");
    let own = ["--set", "gradient_accumulation_steps=1", "--output", "specs/own.yaml"];
    let command = with(&[&["--data", "texts/a.txt"], &own[..]].concat());
    project.expctl(&command).exits(0).stderr_has("wrote specs/own.yaml");
    let text = project.read("specs/own.yaml");
    assert!(text.contains("data: {path: ../texts/a.txt}"), "{text}");
}

#[test]
fn a_dry_run_and_a_mistake_write_nothing() {
    let project = Project::empty();
    project.expctl(&with(&["--dry-run"])).exits(0);
    for (arguments, help) in [
        (&["--data", "smaple"][..], "did you mean `sample`?"),
        (&["--data", "nowhere.jsonl"], "nowhere.jsonl"),
        (&["--set", "rnk=2"], "did you mean `rank`?"),
        (&["--set", "rank=two"], "rank"),
        (&["spec.yaml"], "a spec and --model exclude each other"),
    ] {
        let output = project.expctl(&with(arguments)).exits(2);
        output.stderr_has(help);
    }
    let wrong_model = ["run", "--model", "tniy"];
    project.expctl(&wrong_model).exits(2).stderr_has("did you mean `tiny`?");
    project
        .expctl(&["run"])
        .exits(2)
        .stderr_has("--model tiny --data sample");
    let data_alone = ["run", "spec.yaml", "--data", "sample"];
    project
        .expctl(&data_alone)
        .exits(2)
        .stderr_has("--data goes with --model");
    let written = std::fs::read_dir(project.path("")).unwrap().count();
    assert_eq!(written, 0);
}
