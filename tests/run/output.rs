//! The output of a run, and places that cannot be written to.

use std::fs;
use std::process::Command;

use expctl::records::Status;
use expctl::records::store::read_record_at;

use crate::QUICK;
use crate::common::project::{Output, Project};

#[test]
fn a_report_says_how_to_make_the_study_again() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new(QUICK);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let run = || {
        let mut command = project.run_command(&["--set", "rank=2"]);
        command.env("EXPCTL_SEED", "3");
        command
    };
    let unheard = Output::of(run().stdout(full)).exits(2);
    unheard.stderr_has("cannot write to the standard output: ");
    let report = project.read("out/report.md");
    let command = "\nEXPCTL_SEED=3 expctl run spec.yaml --set rank=2 --results out\n";
    assert!(report.contains(command), "{report}");

    Output::of(&mut run()).stdout_has("quick: 1 of 1 cell has a result in out\n");
    let cell = fs::read_dir(project.path("out/cells"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mode = |file: &str| fs::metadata(cell.join(file)).unwrap().permissions().mode();
    assert_eq!(mode("adapter/adapter_model.safetensors"), mode("record.json"));
    let record = read_record_at(&cell.join("record.json")).unwrap().unwrap();
    assert!(record.measured.unwrap().allocated_peak_by_category["host"] > 0);
}

#[test]
fn a_run_that_could_not_be_reported_does_not_begin() {
    let project = Project::new(&format!("{QUICK}report: {{ output: short.txt/report.md }}\n"));
    project.write("short.txt", "a file, where a folder would be");
    let output = project.run(&[]).exits(2);
    output.stderr_has("cannot write `short.txt/report.md`: ");
    assert!(!project.path("out").exists());

    project.write("spec.yaml", QUICK.replace("[2, 4]", "[2]"));
    project.run(&[]).exits(0);
    project.write("spec.yaml", QUICK.replace("name: quick", "name: other"));
    let output = project.run(&[]).exits(2);
    output.stderr_has("`out` holds the study `quick`, not `other`");
}

#[test]
fn a_check_of_claims_is_an_exit_code() {
    let claim =
        "claims: [{claim: Rank 4 trains more, source: us, holds: \"mean('trainable_count', rank=4) > WHAT\"}]\n";
    let project = Project::new(&format!(
        "{QUICK}{}",
        claim.replace("WHAT", "mean('trainable_count', rank=2)")
    ));
    let checked = project.run(&["--check"]).exits(0);
    checked.stdout_has("1 claim: 1 supported\n");

    project.write("spec.yaml", format!("{QUICK}{}", claim.replace("WHAT", "1000000000")));
    let changed = project.run(&[]);
    assert_eq!(changed.code, 0, "without --check a claim is not a gate");
    changed.stdout_has("1 claim: 1 refuted\n");
    assert_eq!(project.records().len(), 2, "a changed claim is not a new cell");
    let refuted = project.run(&["--check"]).exits(1);
    refuted.stderr_has("spec.yaml:5:10: refuted: Rank 4 trains more");

    project.write("spec.yaml", QUICK);
    let nothing = project.run(&["--check"]).exits(0);
    nothing.stderr_has("the spec has no claims");
}

#[test]
fn a_folder_that_cannot_be_made_is_the_users_mistake() {
    let project = Project::new(QUICK);
    // a file where a folder has to be: not even root may write there
    project.write("out", "not a folder");
    let output = project.run(&[]).exits(2);
    output.stderr_has("`out`").stderr_has("--results");
    assert_eq!(project.read("out"), "not a folder");
}

#[test]
fn a_disk_that_takes_no_more_loses_nothing() {
    let project = Project::new(QUICK);
    project.run(&[]).exits(0);
    let kept = project.cells()[0].join("record.json");
    let before = fs::read(&kept).unwrap();
    fs::remove_file(project.cells()[1].join("record.json")).unwrap();
    // A limit of 512 bytes a file, with the signal ignored that would come with it: writes fail as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" run spec.yaml --results out";
    let full = Output::of(
        Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_expctl")])
            .current_dir(project.path("")),
    );
    full.exits(2)
        .stderr_has("cannot write")
        .stderr_has("the same command goes on");
    assert_eq!(fs::read(&kept).unwrap(), before);
    project.run(&[]).exits(0);
    assert_eq!(project.statuses(), [Some(Status::Ok); 2]);
}

#[test]
fn progress_is_silent_where_asked() {
    let project = Project::new(QUICK);
    let output = project.run(&["--progress", "none"]);
    assert_eq!(output.stderr, "");
    let table = project.run(&["--dry-run", "--format", "csv"]);
    assert!(table.stdout.starts_with("cell_id,rank,plan,attempt\n"), "{table}");
}
