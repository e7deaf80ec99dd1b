//! The module that binds: our trainer's plan against its ledger, in the same words.

use std::fs;
use std::path::Path;

use expctl::records::store::{CellDir, read_prediction, read_record};

use crate::common::project::Project;

/// The binding modules of a shipped study's cells, on a small model: as planned and as measured.
fn modules(study: &str) -> Vec<(Option<String>, Option<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments").join(study);
    let project = Project::new(&fs::read_to_string(path).unwrap());
    let small = ["model=tiny", "max_steps=2", "max_seq_length=32"];
    let set: Vec<&str> = small.into_iter().flat_map(|pair| ["--set", pair]).collect();
    let output = project.run(&[&set[..], &["--progress", "none"]].concat());
    assert_eq!(output.code, 0, "{output}");
    let cells = fs::read_dir(project.path("out/cells")).unwrap();
    let modules = cells.map(|folder| {
        let dir = CellDir::new(folder.unwrap().path());
        let measured = read_record(&dir).unwrap().unwrap().measured.unwrap();
        let planned = read_prediction(&dir).unwrap().unwrap().binding_module;
        (planned, measured.allocated_peak_module)
    });
    modules.collect()
}

#[test]
fn the_ledger_names_the_planned_module() {
    let mut names = Vec::new();
    for study in [
        "quickstart.yaml",
        "rank_sweep.yaml",
        "dtype_sweep.yaml",
        "growth/batch.yaml",
    ] {
        for (planned, measured) in modules(study) {
            assert!(measured.is_some(), "{study}");
            assert_eq!(measured, planned, "{study}");
            names.extend(measured);
        }
    }
    names.sort();
    names.dedup();
    assert!(names.len() > 2, "the cells bind at different modules: {names:?}");
}
