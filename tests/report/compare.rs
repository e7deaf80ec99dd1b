//! Two studies cell by cell: what `expctl compare` prints, and its exit codes.

use std::fs;
use std::path::Path;

use expctl::records::Record;
use expctl::records::store::{CellDir, read_record_at, write_record};
use expctl::spec::{self, Overrides};

use crate::records::record;
use crate::{Recorded, SPEC};

/// A project with `results/rank_sweep`, its frame, and `results/now`: the same cells run again by another version, of which
/// one takes more memory, one failed, one was not run, and one is new.
fn recorded() -> Recorded {
    let recorded = Recorded::new(SPEC);
    recorded.expctl(&["report", "results/rank_sweep"]).exits(0);
    let spec = recorded.path("experiments/now.yaml");
    let text = SPEC.replace(
        "rank: [4, 16, 64, 256] }",
        "rank: [4, 16, 64] }\n  include: [{ dtype: int4, rank: 8 }]",
    );
    recorded.write(&spec, text);
    let study = spec::load(&spec, &Overrides::default()).unwrap();
    let now = recorded.path("results/now");
    for planned in &study.cells {
        let old = recorded.dir.cell(&planned.id).record();
        let folder = now.join("cells").join(&planned.id);
        let Some(mut again) = read_record_at(&old).unwrap() else {
            continue;
        };
        again.provenance.expctl_version = "0.2.0".into();
        again.provenance.machine.as_mut().unwrap().cpu = "Another CPU".into();
        match (planned.cell.rank, planned.cell.seed, again.measured.as_mut()) {
            (16, 1, Some(measured)) => {
                measured.allocated_peak_bytes = measured.allocated_peak_bytes.map(|bytes| bytes + bytes / 20);
                measured.tokens_per_second *= 0.8;
            }
            (64, 0, _) if again.cell_id == study.cells[4].id => {
                again = Record {
                    provenance: again.provenance,
                    ..record(&planned.id, expctl::records::Status::Failed)
                };
            }
            _ => {}
        }
        fs::create_dir_all(&folder).unwrap();
        write_record(&CellDir::new(folder), &again).unwrap();
    }
    study.write(&now).unwrap();
    recorded
}

/// The exit code of a comparison and what it prints.
fn compared(recorded: &Recorded, args: &[&str]) -> String {
    recorded.expctl(&[&["compare"], args].concat()).to_string()
}

const BOTH: [&str; 2] = ["results/rank_sweep", "results/now"];

#[test]
fn people_see_what_changed() {
    let recorded = recorded();
    insta::assert_snapshot!("table", compared(&recorded, &BOTH));
    let gates = [
        "--fail-if",
        "allocated_peak_bytes > 1.02",
        "--fail-if",
        "step_seconds_median > 3",
    ];
    insta::assert_snapshot!(
        "table_with_conditions",
        compared(&recorded, &[&BOTH[..], &gates].concat())
    );
    let markdown = [
        "--format",
        "markdown",
        "--fail-if",
        "tokens_per_second < 0.9 and loss_last > 0",
    ];
    insta::assert_snapshot!("markdown", compared(&recorded, &[&BOTH[..], &markdown].concat()));
}

#[test]
fn programs_get_numbers() {
    let recorded = recorded();
    insta::assert_snapshot!("csv", compared(&recorded, &[&BOTH[..], &["--format", "csv"]].concat()));
    let json = ["--format", "json", "--fail-if", "allocated_peak_bytes > 1.02"];
    let (code, json) = compared(&recorded, &[&BOTH[..], &json].concat())
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(code, "exit code 1");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 12);
    assert_eq!(
        json["cells"][3]["figures"]["allocated_peak_bytes"]["a"],
        563_617_792_u64
    );
    assert_eq!(json["matched"]["by_id"], 12);
    assert_eq!(json["only_in_a"].as_array().unwrap().len(), 4);
    assert_eq!(json["passed"].as_array().unwrap().len(), 3);
}

#[test]
fn a_study_is_equal_to_itself_in_every_form() {
    let recorded = recorded();
    let forms = [
        "experiments/rank_sweep.yaml",
        "results/rank_sweep",
        "results/rank_sweep/study.yaml",
        "results/rank_sweep/cells.csv",
        "results/rank_sweep/cells.parquet",
    ];
    fs::create_dir(recorded.path("results/frame")).unwrap();
    fs::copy(recorded.dir.cells_csv(), recorded.path("results/frame/cells.csv")).unwrap();
    for form in forms.into_iter().chain(["results/frame"]) {
        let gates = [
            "--fail-if",
            "allocated_peak_bytes != 1 or loss_last != 1 or tokens_per_second != 1",
        ];
        let output = compared(&recorded, &[&["results/rank_sweep", form], &gates[..]].concat());
        assert!(output.starts_with("exit code 0\n"), "{form}: {output}");
        assert!(
            output.contains("matched: 16 by id") && !output.contains("also different"),
            "{form}: {output}"
        );
    }
}

/// A gate passes only if every cell that A measured was judged.
#[test]
fn what_cannot_be_judged_does_not_pass() {
    let recorded = recorded();
    let csv = fs::read_to_string(recorded.dir.cells_csv()).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    let measured = lines[1..].iter().position(|line| line.contains(",ok,")).unwrap() + 1;
    let id = lines[measured].split(',').next().unwrap();
    let without = lines.iter().filter(|line| !line.starts_with(id));
    recorded.write(
        "results/less.csv",
        without.map(|line| format!("{line}\n")).collect::<String>(),
    );
    recorded.write("results/doubled.csv", format!("{csv}{}\n", lines[measured]));
    let columns: Vec<&str> = lines[0].split(',').collect();
    let with_loss = |name: &str, loss: &str| {
        let place = columns.iter().position(|column| *column == "loss_last").unwrap();
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
        let mut writer = csv::Writer::from_writer(Vec::new());
        for (number, row) in reader.records().map(Result::unwrap).enumerate() {
            let field = |(at, field): (usize, &str)| match (number == measured, at == place) {
                (true, true) => loss.to_owned(),
                _ => field.to_owned(),
            };
            writer
                .write_record(row.iter().enumerate().map(field).collect::<Vec<_>>())
                .unwrap();
        }
        recorded.write(name, writer.into_inner().unwrap());
    };
    with_loss("results/negative.csv", "-50.5");
    with_loss("results/nan.csv", "NaN");
    let gate = ["--fail-if", "loss_last > 1.1"];
    let judged = |a: &str, b: &str| compared(&recorded, &[&[a, b][..], &gate].concat());
    let all = "results/rank_sweep/cells.csv";
    for (a, b, code, words) in [
        (all, all, 0, "holds for no cell"),
        (all, "results/less.csv", 1, "loss_last is not there in B"),
        ("results/less.csv", all, 0, "holds for no cell"),
        (all, "results/negative.csv", 1, "loss_last is negative in A or B"),
        (all, "results/nan.csv", 1, "loss_last is not a number"),
        (all, "results/doubled.csv", 2, "twice"),
        ("results/doubled.csv", all, 2, "twice"),
    ] {
        let output = judged(a, b);
        assert!(output.starts_with(&format!("exit code {code}\n")), "{a} {b}: {output}");
        assert!(output.contains(words), "{a} {b}: {output}");
    }
    fs::remove_file(recorded.dir.cell(id).record()).unwrap();
    let output = judged("results/rank_sweep", all);
    assert!(output.contains("has no record of the cell"), "{output}");
    assert!(output.starts_with("exit code 1\n"), "{output}");
}

#[test]
fn cells_of_other_settings_are_matched_by_what_varies() {
    let recorded = recorded();
    let other = Recorded::new(
        &SPEC
            .replace("batch_size: 4", "batch_size: 2")
            .replace("repeats: 2", "repeats: 1"),
    );
    let other = other.dir.path().display().to_string();
    let output = compared(&recorded, &["results/rank_sweep", &other]);
    insta::assert_snapshot!("matched_by_axes", output.replace(&other, "OTHER"));
}

#[test]
fn wrong_input_has_exit_code_2() {
    let recorded = recorded();
    let fail_if = |condition: &str| compared(&recorded, &[&BOTH[..], &["--fail-if", condition]].concat());
    insta::assert_snapshot!("condition_syntax", fail_if("allocated_peak_bytes > > 1.02"));
    insta::assert_snapshot!(
        "condition_with_misspelt_column",
        fail_if("loss_last > 1 or alocated_peak_bytes > 1.02")
    );
    insta::assert_snapshot!("condition_that_is_none", fail_if("allocated_peak_bytes * 2"));
    insta::assert_snapshot!("condition_without_column", fail_if("1.02 > 1"));
    insta::assert_snapshot!(
        "condition_without_measurement",
        fail_if("oom_requested_bytes > 1 and loss_eval > 1")
    );
    assert!(compared(&recorded, &["results/nowhere", "results/now"]).starts_with("exit code 2\n"));
    fs::create_dir(recorded.path("results/empty")).unwrap();
    insta::assert_snapshot!(
        "folder_without_study",
        compared(&recorded, &["results/empty", "results/now"])
    );
    recorded.write("results/empty/cells.csv", "name,rank\nx,4\n");
    insta::assert_snapshot!(
        "file_that_is_no_frame",
        compared(&recorded, &["results/empty", "results/now"])
    );
    recorded.write("results/empty/cells.csv", "cell_id,rank\nx,four\n");
    insta::assert_snapshot!(
        "frame_with_a_wrong_value",
        compared(&recorded, &["results/empty", "results/now"])
    );
    fs::write(
        recorded.path("results/empty/cells.csv"),
        "cell_id,rank,seed\nx,5,0\ny,6,0\n",
    )
    .unwrap();
    insta::assert_snapshot!(
        "nothing_in_common",
        compared(&recorded, &["results/empty", "results/now"])
    );
    assert!(Path::new(&recorded.path("results/now")).exists());
}
