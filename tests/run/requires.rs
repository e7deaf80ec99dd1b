//! `requires`: what must be there before a study runs.

use crate::common::project::Project;

const BASE: &str = "
name: base
requires: { path: ../made/texts, command: make texts }
defaults:
  model: tiny
  dtype: float32
  rank: 0
  data: { path: ../made/texts/some.txt }
  max_seq_length: 32
  max_steps: 1
record: { model: ../made/base }
";

const STUDY: &str = "
name: study
requires: base.yaml
defaults: { model: ../made/base, data: sample, max_seq_length: 32, max_steps: 1, rank: 2 }
";

fn project() -> Project {
    let project = Project::empty();
    project.write("specs/base.yaml", BASE);
    project.write("specs/study.yaml", STUDY);
    project
}

#[test]
fn what_is_missing_is_named_with_the_commands_that_make_it() {
    let project = project();
    for command in [
        vec!["run", "specs/study.yaml"],
        vec!["run", "specs/study.yaml", "--dry-run"],
        vec!["plan", "specs/study.yaml"],
        vec!["validate", "specs/study.yaml"],
    ] {
        let output = project.expctl(&command).exits(2);
        output.stderr_has(
            "`specs/study.yaml` requires `made/texts`, which is not there; run first:\n    make texts\n    expctl run \
             specs/base.yaml\n",
        );
    }
    project.write(
        "made/texts/some.txt",
        "Some words to learn from, and some more of them.\n\nAnd others.\n",
    );
    project
        .expctl(&["run", "specs/study.yaml"])
        .exits(2)
        .stderr_has("requires `made/base`, which is not there; run first:\n    expctl run specs/base.yaml\n");
    project.expctl(&["run", "specs/base.yaml"]).exits(0);
    project.expctl(&["run", "specs/study.yaml"]).exits(0);
}

#[test]
fn what_an_override_replaces_is_not_required() {
    let project = project();
    project
        .expctl(&["run", "specs/study.yaml", "--set", "model=tiny", "--dry-run"])
        .exits(0);
}

#[test]
fn a_requirement_that_cannot_be_met_is_a_mistake() {
    let project = project();
    let unused = "[base.yaml, { path: ../made/txets, command: make texts }]";
    project.write("specs/other.yaml", STUDY.replace("base.yaml", unused));
    project
        .expctl(&["validate", "specs/other.yaml"])
        .exits(2)
        .stderr_has("`specs/other.yaml` requires `made/txets`, which none of its cells reads");
    let circle = BASE.replace("{ path: ../made/texts, command: make texts }", "study.yaml");
    let circle = circle
        .replace("model: tiny", "model: ../made/other")
        .replace("../made/texts/some.txt", "sample");
    project.write(
        "specs/base.yaml",
        circle.replace("data: { path: sample }", "data: sample"),
    );
    let study = STUDY
        .replace("data: sample", "dtype: float32, data: sample")
        .replace("rank: 2", "rank: 0");
    project.write(
        "specs/study.yaml",
        format!("{study}record: {{ model: ../made/other }}\n"),
    );
    project
        .expctl(&["run", "specs/study.yaml"])
        .exits(2)
        .stderr_has("requires itself, by way of `specs/study.yaml`");
}

#[test]
fn a_requirement_that_is_no_spec_is_a_mistake() {
    let project = project();
    project.write(
        "specs/other.yaml",
        STUDY.replace("requires: base.yaml", "requires: [bse.yaml]"),
    );
    project
        .expctl(&["run", "specs/other.yaml"])
        .exits(2)
        .stderr_has("`specs/other.yaml` requires `specs/bse.yaml`");
    project.write(
        "specs/other.yaml",
        STUDY.replace("requires: base.yaml", "requires: [{ path: x, comand: y }]"),
    );
    let output = project.expctl(&["run", "specs/other.yaml"]).exits(2);
    output.stderr_has("requires[0].comand: unknown key");
    output.stderr_has("did you mean `command`?");
    project.write("specs/other.yaml", STUDY.replace("requires: base.yaml", "requires: 3"));
    project
        .expctl(&["run", "specs/other.yaml"])
        .exits(2)
        .stderr_has("the path of a spec, `{path: ..., command: ...}`, or a list of these");
}
