//! `expctl validate`, `schema`, `init` and `completions` as a user runs them, and `--version`.

use crate::common::project::{Output, Project};

#[test]
fn a_spec_that_init_wrote_is_valid_and_not_overwritten() {
    let project = Project::empty();
    let init = || project.expctl(&["init", "first.yaml"]);
    init().exits(0).stdout_has("expctl run first.yaml");
    let valid = project.expctl(&["validate", "first.yaml"]).exits(0);
    assert!(valid.stdout.starts_with("first: 4 cells"), "{valid}");
    init().exits(2).stderr_has("not overwritten");
}

#[test]
fn the_version_names_sources_target_and_features() {
    let version = Project::empty().expctl(&["--version"]).exits(0).stdout;
    let built = version.strip_prefix(concat!("expctl ", env!("CARGO_PKG_VERSION"), " ("));
    let parts: Vec<&str> = built
        .and_then(|built| built.strip_suffix(")\n"))
        .unwrap()
        .split(", ")
        .collect();
    let [sources, target, features] = parts[..] else {
        panic!("{version}");
    };
    let hash = sources.strip_prefix("sources ").unwrap();
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(hash == "unknown" || is_hash, "{version}");
    assert!(target.starts_with(std::env::consts::ARCH), "{version}");
    assert!(target.contains(std::env::consts::OS), "{version}");
    assert_eq!(features == "features: none", !cfg!(feature = "cuda"), "{version}");
}

#[test]
fn completions_and_man_pages_are_written() {
    let project = Project::empty();
    project
        .expctl(&["completions", "bash"])
        .exits(0)
        .stdout_has("complete -F _expctl");
    project.expctl(&["completions", "--man", "share/man1"]).exits(0);
    assert!(project.read("share/man1/expctl.1").contains("expctl\\-run(1)"));
    assert!(project.read("share/man1/expctl-plan.1").contains("\\-\\-budget"));
    project.expctl(&["completions"]).exits(2).stderr_has("<SHELL>");
    project
        .expctl(&["completions", "bash", "--man", "."])
        .exits(2)
        .stderr_has("cannot be used with");
    project.write("file", "");
    project
        .expctl(&["completions", "--man", "file"])
        .exits(2)
        .stderr_has("cannot write the man pages to file");
}

#[test]
fn a_wrong_spec_has_exit_code_2_and_says_where() {
    let project = Project::empty();
    let fails = |arguments: &[&str]| project.expctl(arguments).exits(2);
    project.write("a.yaml", "name: a\ndefaults: {rnak: 4}\n");
    let unknown = fails(&["validate", "a.yaml"]);
    let report = "error: defaults.rnak: unknown key\n --> a.yaml:2:12";
    assert!(unknown.stderr.starts_with(report), "{unknown}");
    fails(&["validate", "b.yaml"]).stderr_has("cannot read b.yaml");
    fails(&["validate", "/dev/zero"]).stderr_has("cannot read /dev/zero: it is not a regular file");
    project.write("d.yaml", "name: d\ndefaults: {data: {path: nowhere.txt}}\n");
    for arguments in [
        ["validate", "d.yaml"].as_slice(),
        &["run", "d.yaml"],
        &["run", "--dry-run", "d.yaml"],
    ] {
        fails(arguments).stderr_has("d.yaml:2:25: `data.path: nowhere.txt`: cannot read");
    }
    project.write("c.yaml", b"name: \xff\n");
    fails(&["validate", "c.yaml"]).stderr_has("line 1 has the byte 0xff");
}

/// The error of `validate` for a spec with this published figure, without the word `error`.
fn validated(figure: &str) -> String {
    let project = Project::new(&format!("name: a\npublished:\n- {figure}\n"));
    let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
    output.stderr.replace("error: ", "")
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
    let project = Project::new("name: a\nsweep: {grid: {rank: [4, 8]}}\n");
    let arguments = ["validate", "spec.yaml"];
    let with = |name: &str| Output::of(project.command(&arguments).env(name, "2"));
    let without = project.expctl(&arguments).exits(0);
    assert!(without.stdout.starts_with("a: 2 cells"), "{without}");
    with("EXPCTL_RANK")
        .exits(0)
        .stdout_has("EXPCTL_RANK fixes the axis rank");
    with("EXPCTL_RANKS").exits(2).stderr_has("did you mean `EXPCTL_RANK`?");
}

#[test]
fn the_schema_is_json() {
    let schema = Project::empty().expctl(&["schema"]).exits(0).json();
    assert_eq!(schema["title"], "expctl spec");
}
