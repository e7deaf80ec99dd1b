//! A second run: what it keeps, what it runs again, and what it says of old results.

use std::fs;
use std::time::Duration;

use expctl::records::Status;
use expctl::records::store::{CellDir, read_record, write_record};
use serde_json::Value;

use crate::QUICK;
use crate::common::project::Project;

#[test]
fn a_second_run_does_nothing_and_a_fresh_one_everything() {
    let project = Project::new(QUICK);
    assert_eq!(project.plan(), ["run", "run"]);
    assert!(!project.path("out").exists(), "a dry run writes nothing");
    let first = project.run(&[]).exits(0);
    first.stdout_has("quick: 2 of 2 cells have a result in out");
    assert_eq!(project.statuses(), [Some(Status::Ok); 2]);
    assert_eq!(project.plan(), ["keep (ok)", "keep (ok)"]);
    for cell in project.cells() {
        let steps = fs::read_to_string(cell.join("steps.jsonl")).unwrap();
        assert_eq!(steps.lines().count(), 2);
        assert!(cell.join("cell.yaml").exists() && cell.join("log.txt").exists());
        assert!(!cell.join("oom.json").exists() && !cell.join("record.previous.json").exists());
    }

    let records = project.records();
    let second = project.run(&["--progress", "json"]).exits(0);
    let started: Value = serde_json::from_str(second.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&started["to_run"], &started["kept"]), (&0.into(), &2.into()));
    assert_eq!(project.records(), records);

    project.run(&["--fresh"]).exits(0);
    let attempts: Vec<_> = project
        .records()
        .into_iter()
        .map(|record| record.unwrap().attempt)
        .collect();
    assert_eq!(attempts, [2, 2]);
}

#[test]
fn a_dry_run_holds_whole_cells() {
    let project =
        Project::new(&format!("{QUICK}repeats: 2\n").replace("rank: [2, 4]", "gradient_checkpointing: [{every: 2}]"));
    let cells = project.dry_run();
    assert_eq!(
        (&cells[1]["seed"], &cells[1]["cell"]["max_steps"]),
        (&1.into(), &2.into())
    );
    let table = project.run(&["--dry-run"]).stdout;
    assert!(table.contains("{every: 2}"), "{table}");
}

#[test]
fn repeats_are_run_in_rounds() {
    let project = Project::new(&format!("{QUICK}repeats: 2\n"));
    project.run(&[]).exits(0);
    let records = project.records();
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&index| records[index].as_ref().unwrap().started_at.clone());
    assert_eq!(order, [0, 2, 1, 3], "ranks 2 and 4 with one seed, then with the other");
}

#[test]
fn a_record_cut_short_counts_as_missing() {
    let project = Project::new(QUICK);
    project.run(&[]).exits(0);
    let record = project.cells()[1].join("record.json");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 2]).unwrap();
    project.run(&[]).exits(0).stderr_has("is cut short");
    assert_eq!(project.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn cells_that_the_spec_no_longer_has_stay() {
    let project = Project::new(QUICK);
    project.run(&[]).exits(0);
    project.write("spec.yaml", QUICK.replace("[2, 4]", "[2]"));
    project
        .run(&[])
        .exits(0)
        .stderr_has("1 result of a cell that the spec no longer has");
    assert_eq!(fs::read_dir(project.path("out/cells")).unwrap().count(), 2);
}

#[test]
fn results_of_other_builds_and_older_data_are_kept_and_told() {
    let data = "max_steps: 2, data: { path: text.txt }";
    let project = Project::new(&QUICK.replace("max_steps: 2", data));
    let prose = "It was a text of some length.\n\nIt went on for a while.\n\n".repeat(20);
    project.write("text.txt", &prose);
    project.run(&[]).exits(0);
    assert!(!project.run(&[]).stderr.contains("kept results were"));

    let cell = CellDir::new(&project.cells()[0]);
    let mut record = read_record(&cell).unwrap().unwrap();
    record.provenance.expctl_version = "0.0.9".into();
    write_record(&cell, &record).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    fs::File::options()
        .append(true)
        .open(project.path("text.txt"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    let notes = project.run(&[]).stderr;
    assert!(notes.contains("1 kept result was made by expctl 0.0.9"), "{notes}");
    assert!(
        notes.contains("2 kept results were made before `text.txt` was last changed"),
        "{notes}"
    );
}

/// `fixtures/format_1` is a folder that expctl 0.1.0 wrote before PyTorch's keys moved under `torch`.
#[test]
fn a_folder_of_an_older_format_keeps_its_results() {
    let project = Project::new(
        "
name: old
defaults: { model: tiny, dtype: bfloat16, max_steps: 2, max_seq_length: 16 }
sweep: { grid: { rank: [4] } }
",
    );
    project.write("out/study.yaml", include_str!("../fixtures/format_1/study.yaml"));
    let cell = "out/cells/3f268183d049";
    let record = include_str!("../fixtures/format_1/cells/3f268183d049/record.json");
    project.write(format!("{cell}/record.json"), record);
    project.write(
        format!("{cell}/cell.yaml"),
        include_str!("../fixtures/format_1/cells/3f268183d049/cell.yaml"),
    );
    let commands = [&["list", "out"][..], &["show", "3f268183d049", "--results", "out"]];
    for command in commands {
        let output = project.expctl(command).exits(2);
        output.stderr_has("another version");
        output.stderr_has("keeps the records of its cells");
    }

    project.write("other.yaml", QUICK);
    project
        .expctl(&["run", "other.yaml", "--results", "out"])
        .exits(2)
        .stderr_has("holds the study `old`");
    assert_eq!(
        project.read("out/study.yaml"),
        include_str!("../fixtures/format_1/study.yaml")
    );

    assert_eq!(project.plan(), ["keep (ok)"]);
    project.run(&[]).exits(0);
    assert_eq!(project.read(format!("{cell}/record.json")), record);
    for command in commands {
        project.expctl(command).exits(0).stdout_has("3f268183d049");
    }
}
