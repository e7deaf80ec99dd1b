//! `expctl validate`, `schema` and `init` as a user runs them.

use std::path::Path;

use assert_cmd::Command;
use predicates::str::{contains, starts_with};

fn expctl(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("expctl").unwrap();
    command.current_dir(folder).args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("EXPCTL_")) {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_spec_that_init_wrote_is_valid_and_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    expctl(folder.path(), &["init", "first.yaml"])
        .assert()
        .success()
        .stdout(contains("expctl run first.yaml"));
    expctl(folder.path(), &["validate", "first.yaml"])
        .assert()
        .success()
        .stdout(starts_with("first: 4 cells"));
    expctl(folder.path(), &["init", "first.yaml"])
        .assert()
        .code(2)
        .stderr(contains("not overwritten"));
}

#[test]
fn a_wrong_spec_has_exit_code_2_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "name: a\ndefaults: {rnak: 4}\n").unwrap();
    let report = "error: defaults.rnak: unknown key\n --> a.yaml:2:12";
    expctl(folder.path(), &["validate", "a.yaml"])
        .assert()
        .code(2)
        .stderr(starts_with(report));
    expctl(folder.path(), &["validate", "b.yaml"])
        .assert()
        .code(2)
        .stderr(contains("cannot read b.yaml"));
    expctl(folder.path(), &["validate", "/dev/zero"])
        .assert()
        .code(2)
        .stderr(contains("cannot read /dev/zero: it is not a regular file"));
    std::fs::write(
        folder.path().join("d.yaml"),
        "name: d\ndefaults: {data: {path: nowhere.txt}}\n",
    )
    .unwrap();
    for arguments in [
        ["validate", "d.yaml"].as_slice(),
        &["run", "d.yaml"],
        &["run", "--dry-run", "d.yaml"],
    ] {
        expctl(folder.path(), arguments)
            .assert()
            .code(2)
            .stderr(contains("d.yaml: `data.path: nowhere.txt`: cannot read"));
    }
    std::fs::write(folder.path().join("c.yaml"), b"name: \xff\n").unwrap();
    expctl(folder.path(), &["validate", "c.yaml"])
        .assert()
        .code(2)
        .stderr(contains("line 1 has the byte 0xff"));
}

/// What `validate` says of a figure set beside a column, without the word `error`.
fn validated(figure: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("a.yaml"),
        format!("name: a\npublished:\n- {figure}\n"),
    )
    .unwrap();
    let output = expctl(folder.path(), &["validate", "a.yaml"])
        .assert()
        .code(2)
        .get_output()
        .stderr
        .clone();
    String::from_utf8(output).unwrap().replace("error: ", "")
}

#[test]
fn a_published_figure_has_a_column_that_is_measured_and_fits() {
    for (name, figure) in [
        (
            "misspelt_column",
            "column: alocated_peak_bytes, value: 1, unit: GB, metric: process",
        ),
        ("column_of_words", "column: allocated_peak_phase, value: 1, unit: count"),
        (
            "unit_of_another_column",
            "column: allocated_peak_bytes, value: 1, unit: seconds",
        ),
        (
            "unknown_second_column",
            "column: trainable_count, of: all_count, value: 1, unit: '%'",
        ),
    ] {
        insta::assert_snapshot!(name, validated(&format!("{{{figure}, source: x}}")));
    }
}

#[test]
fn variables_of_the_environment_are_keys() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "name: a\nsweep: {grid: {rank: [4, 8]}}\n").unwrap();
    let validate = || expctl(folder.path(), &["validate", "a.yaml"]);
    validate().assert().success().stdout(starts_with("a: 2 cells"));
    validate()
        .env("EXPCTL_RANK", "2")
        .assert()
        .success()
        .stdout(contains("EXPCTL_RANK fixes the axis rank"));
    validate()
        .env("EXPCTL_RANKS", "2")
        .assert()
        .code(2)
        .stderr(contains("did you mean `EXPCTL_RANK`?"));
}

#[test]
fn the_schema_is_json() {
    let output = expctl(Path::new("."), &["schema"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let schema: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(schema["title"], "expctl spec");
}
