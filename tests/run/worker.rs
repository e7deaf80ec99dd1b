//! Another program in the worker's place: `examples/worker.py`, which follows docs/worker.md.

use std::path::Path;
use std::process::Command;

use expctl::records::Status;

use crate::common::project::Project;

const SPEC: &str = "
name: worker
defaults: { model: tiny, max_steps: 3 }
sweep:
  grid: { rank: [2, 4] }
";

/// The example; `None` on a machine without Python, which nothing else here needs.
fn worker() -> Option<String> {
    let has_python = Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker.py");
    has_python.then(|| script.display().to_string())
}

#[test]
fn another_program_can_be_the_worker() {
    let Some(worker) = worker() else {
        return eprintln!("left out: there is no python3");
    };
    let project = Project::new(SPEC);
    let output = project.run(&["--worker", &worker, "--progress", "json"]).exits(0);
    let events: Vec<&str> = output
        .stdout
        .lines()
        .filter(|line| line.contains("\"loss\":1.3333333333333333"))
        .collect();
    assert_eq!(events.len(), 2, "the last step of each cell: {}", output.stdout);
    for record in project.records().into_iter().map(Option::unwrap) {
        assert_eq!(record.status, Status::Ok);
        assert_eq!(record.provenance.engine.as_deref(), Some("worker.py"));
        assert!(record.provenance.releases["python"].starts_with("3."));
        assert_eq!(record.provenance.machine.unwrap().cpu, "none");
        assert_eq!(record.measured.unwrap().allocated_peak_bytes, Some(3 * 1024));
    }
    // The second run keeps what the first has.
    let again = project.run(&["--worker", &worker]).exits(0);
    again.stdout_has("2 of 2 cells have a result");
    // A run by our trainer says whose results it keeps.
    let ours = project.run(&["--progress", "plain"]).exits(0);
    ours.stderr_has("2 kept results were made by worker.py, and this is expctl");
}

#[test]
fn what_the_workers_machine_lacks_is_said_before_it_starts() {
    let Some(worker) = worker() else {
        return eprintln!("left out: there is no python3");
    };
    let project = Project::new(SPEC);
    let output = project
        .run(&["--worker", &worker, "--set", "instruction_set=avx2"])
        .exits(2);
    output.stderr_has("this CPU has no more than `portable`");
    let output = project
        .run(&["--worker", &worker, "--set", "allocator.backend=mimalloc"])
        .exits(2);
    output.stderr_has("the worker's build has no such allocator; it has retain");
    assert!(!project.path("out/cells").exists() || std::fs::read_dir(project.path("out/cells")).unwrap().count() == 0);
}

#[test]
fn a_program_that_is_no_worker_is_an_error() {
    let project = Project::new(SPEC);
    let output = project.run(&["--worker", "/bin/true"]).exits(2);
    output.stderr_has("cannot ask the worker `/bin/true` for its machine");
    let output = project.run(&["--worker", "./nowhere"]).exits(2);
    output.stderr_has("cannot ask the worker `./nowhere` for its machine");
    project.write("old.sh", "#!/bin/sh\necho '{\"protocol\": 0, \"machine\": {\"cpu\": \"\", \"cores\": 1, \"memory_bytes\": null, \"os\": \"\"}, \"instruction_set\": \"portable\", \"allocators\": [], \"cuda\": false}'\n");
    std::fs::set_permissions(
        project.path("old.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    project
        .run(&["--worker", "./old.sh"])
        .exits(2)
        .stderr_has("version 0 of the protocol");
}
