//! The studies in the binary, in a folder without the repository.

use std::fs;
use std::path::Path;

use crate::common::project::Project;

/// The examples that need more than their files, and what their error says is missing.
const NEEDS: [(&str, &str); 8] = [
    ("base", "scratch/texts"),
    ("english_quotes", "HuggingFaceTB/SmolLM2-135M"),
    ("learning_rates", "scratch/texts"),
    ("method_comparison", "scratch/texts"),
    ("optimizers", "scratch/texts"),
    ("quantisation", "scratch/texts"),
    ("real_input", "scratch/texts"),
    ("train_memory", "HuggingFaceTB/SmolLM2-135M"),
];

/// The names that `expctl init --list` prints.
fn names() -> Vec<String> {
    let listed = Project::empty().expctl(&["init", "--list"]).exits(0);
    let names = listed.stdout.lines().skip(1).filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_example_is_valid_in_an_empty_folder() {
    let names = names();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
    let specs = ["*.yaml", "*/*.yaml"].map(|pattern| glob::glob(&format!("{folder}/{pattern}")).unwrap().count());
    assert_eq!(
        names.len(),
        specs.iter().sum::<usize>(),
        "touch src/main.rs after adding a spec: {names:?}"
    );
    for name in &names {
        let project = Project::empty();
        let file = format!("{name}.yaml");
        project.expctl(&["init", "--example", name]).exits(0).stdout_has(&file);
        let text = project.read(&file);
        assert!(!text.contains("publish:") && !text.contains("../"), "{name}: {text}");
        let valid = project.expctl(&["validate", &file]);
        match NEEDS.iter().find(|(needs, _)| needs == name) {
            Some((_, missing)) => valid.exits(2).stderr_has(missing),
            None => valid.exits(0).stdout_has(&format!("{name}: ")),
        };
    }
    for (name, _) in NEEDS {
        assert!(names.iter().any(|listed| listed == name), "{name}");
    }
}

#[test]
fn an_example_is_planned_where_it_was_written() {
    let project = Project::empty();
    let written = project
        .expctl(&["init", "--example", "growth_rank", "mine.yaml"])
        .exits(0);
    written.stdout_has("wrote mine.yaml; run it with `expctl run mine.yaml`");
    project.expctl(&["plan", "mine.yaml"]).exits(0);
    let comment = "#   expctl run mine.yaml\n";
    assert!(project.read("mine.yaml").contains(comment));
}

#[test]
fn an_example_comes_with_its_files_and_overwrites_nothing() {
    let project = Project::empty();
    let init = || project.expctl(&["init", "--example", "h100"]);
    let output = init().exits(0);
    output.stdout_has("wrote h100.yaml and h100.csv; plan it with `expctl plan h100.yaml`");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/published/h100.csv");
    assert_eq!(project.read("h100.csv"), fs::read_to_string(shipped).unwrap());
    init().exits(2).stderr_has("h100.yaml already exists");
    fs::remove_file(project.path("h100.yaml")).unwrap();
    init().exits(0).stdout_has("kept h100.csv");
    fs::remove_file(project.path("h100.yaml")).unwrap();
    project.write("h100.csv", "mine\n");
    init().exits(2).stderr_has("h100.csv already exists");
    assert!(!project.path("h100.yaml").exists());
}

/// Every command that reads a spec says so.
#[test]
fn the_name_of_an_example_is_no_file() {
    let project = Project::empty();
    for command in ["run", "plan", "validate", "report", "fit"] {
        let output = project.expctl(&[command, "rank_sweep"]).exits(2);
        output.stderr_has("`rank_sweep` is not a file; it is an example: `expctl init --example rank_sweep` writes it");
    }
    let says = |spec: &str, message: &str| {
        project.expctl(&["validate", spec]).exits(2).stderr_has(message);
    };
    says("experiments/rank_sweep.yaml", "`rank_sweep` is an example");
    says("experiments/growth/rank.yaml", "`growth_rank` is an example");
    says("rank_swep", "did you mean the example `rank_sweep`?");
    says("nothing_like_it.yaml", "cannot read nothing_like_it.yaml");
    project.expctl(&["init", "--example", "rank_sweep"]).exits(0);
    says("rank_sweep", "did you mean `rank_sweep.yaml`?");
    let unknown = project.expctl(&["init", "--example", "rank_swep"]).exits(2);
    unknown
        .stderr_has("`rank_swep` is not an example")
        .stderr_has("did you mean `rank_sweep`?");
}
