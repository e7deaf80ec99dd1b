//! Files as people write them, four a tool, beside specs that were written by hand: both plan the same bytes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::project::Project;

/// The predicted columns of a spec's only cell.
fn predicted(project: &Project, spec: &str) -> Vec<(String, Value)> {
    let output = project.expctl(&["plan", spec, "--format", "json"]);
    assert!([0, 3].contains(&output.code), "{output}");
    let rows: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(rows.len(), 1, "{spec}");
    let columns = rows[0].as_object().unwrap().iter();
    let predicted = columns.filter(|(name, _)| name.starts_with("predicted_"));
    predicted.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[test]
fn imported_files_plan_what_specs_by_hand_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut by_hand: Vec<_> = entries
        .filter(|path| path.to_string_lossy().ends_with(".spec.yaml"))
        .collect();
    by_hand.sort();
    assert_eq!(by_hand.len(), 12);
    let mut differing = Vec::new();
    for path in &by_hand {
        let name = path.file_name().unwrap().to_string_lossy().replace(".spec.yaml", "");
        let project = Project::empty();
        project.write("by_hand.yaml", fs::read(path).unwrap());
        let ends = ["yml", "yaml"].map(|end| folder.join(format!("{name}.{end}")));
        let file = ends.iter().find(|file| file.exists()).unwrap();
        project
            .expctl(&["import", &file.display().to_string(), "--output", "imported.yaml"])
            .exits(0);
        let (imported, by_hand) = (
            predicted(&project, "imported.yaml"),
            predicted(&project, "by_hand.yaml"),
        );
        assert!(by_hand.len() > 10, "{name}");
        let differ = imported.iter().filter(|column| !by_hand.contains(column));
        differing.extend(differ.map(|(column, value)| format!("{name}: {column} {value}")));
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
