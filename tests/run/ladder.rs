//! Cells that run out of memory, and those that follow them.

use expctl::cell::Cell;
use expctl::records::store::read_record;
use expctl::records::{Record, Status};
use expctl::spec::{Fallback, Lineage, Rung, Study};
use rustix::process::{Signal, kill_process};

use crate::background::start;
use crate::common::project::{Output, Project};

/// A cell of eight samples in a micro-batch, within a budget.
fn spec(budget: u64, sections: &str) -> String {
    format!(
        "name: ladder\ndefaults: {{ model: tiny, dtype: float32, rank: 4, max_seq_length: 64, max_steps: 2, batch_size: 8, \
         device_memory: {budget}B }}\n{sections}\n"
    )
}

const LADDER: &str = "on_oom: { ladder: [halve_batch, checkpoint, shorten] }";

/// The predicted peak of the cell with other values.
fn peak(settings: &[&str]) -> u64 {
    let project = Project::new(&spec(1 << 40, ""));
    let mut arguments = vec!["plan", "spec.yaml", "--format", "json"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let plan = project.expctl(&arguments).exits(0).json();
    plan[0]["predicted_allocated_peak_bytes"].as_u64().unwrap()
}

impl Project {
    /// The study as the last run left it.
    fn study(&self) -> Study {
        Study::read(self.results().path()).unwrap()
    }

    /// The cells of the last run with their records.
    fn outcomes(&self) -> Vec<(Cell, Record)> {
        let record = |id: &str| read_record(&self.results().cell(id)).unwrap().unwrap();
        let cells = self.study().cells.into_iter();
        cells.map(|planned| (planned.cell, record(&planned.id))).collect()
    }

    fn micro_batches(&self) -> Vec<(usize, usize, Status)> {
        let of = |(cell, record): (Cell, Record)| (cell.batch_size, cell.gradient_accumulation_steps, record.status);
        self.outcomes().into_iter().map(of).collect()
    }
}

fn lineage(study: &Study, index: usize) -> (usize, Rung) {
    let Lineage::Fallback(Fallback { of, step }) = &study.cells[index].lineage else {
        panic!("{:?}", study.cells[index])
    };
    let of = study.cells.iter().position(|planned| planned.id == *of).unwrap();
    (of, *step)
}

#[test]
fn the_micro_batch_is_halved_until_it_fits() {
    let budget = peak(&["batch_size=2", "gradient_accumulation_steps=4"]);
    assert!(budget < peak(&["batch_size=4", "gradient_accumulation_steps=2"]));
    let project = Project::new(&spec(budget, LADDER));
    project.run(&[]).exits(0).stdout_has("3 of 3 cells have a result");
    let expected = [(8, 1, Status::Oom), (4, 2, Status::Oversize), (2, 4, Status::Ok)];
    assert_eq!(project.micro_batches(), expected);
    let study = project.study();
    assert_eq!(lineage(&study, 1), (0, Rung::HalveBatch));
    assert_eq!(lineage(&study, 2), (1, Rung::HalveBatch));
    let ruled_out = project.outcomes()[1].1.reason.clone().unwrap();
    assert!(ruled_out.contains("predicted peak"), "{ruled_out}");
    let fits = project.outcomes()[2].1.measured.clone().unwrap();
    assert_eq!(fits.allocated_peak_bytes, Some(budget));

    // A derived cell is the cell that a spec would have.
    let written =
        Project::new(&spec(budget, "").replace("batch_size: 8", "batch_size: 2, gradient_accumulation_steps: 4"));
    assert_eq!(written.dry_run()[0]["cell_id"], study.cells[2].id);

    let report = project.read("out/report.md");
    assert!(report.contains("## After an out-of-memory"), "{report}");
    let ids: Vec<&str> = study.cells.iter().map(|planned| planned.id.as_str()).collect();
    let (ruled_out, results) = ("Ruled out by prediction, and not tried: 4 · 2.", "## Results");
    let results = report.split(results).nth(1).and_then(|rest| rest.split("\n## ").next());
    let results = results.unwrap();
    assert!(
        results.contains(ruled_out) && !results.contains("| oversize"),
        "{results}"
    );

    let folder = format!("out/cells/{}", ids[2]);
    let shown = project.expctl(&["show", &folder]).exits(0).stdout;
    let lineage = format!("Lineage\n  fallback_of    {}\n  fallback_step  halve_batch\n", ids[1]);
    assert!(shown.contains(&lineage), "{shown}");
    let shown = project.expctl(&["show", &folder, "--format", "json"]).exits(0).json();
    assert_eq!(shown["lineage"]["fallback_of"], ids[1]);
    let first = project
        .expctl(&["show", &format!("out/cells/{}", ids[0])])
        .exits(0)
        .stdout;
    assert!(!first.contains("Lineage"), "{first}");
    let frame = project.read("out/cells.csv");
    assert!(
        frame.lines().next().unwrap().contains("fallback_of,fallback_step"),
        "{frame}"
    );
}

#[test]
fn a_second_run_goes_down_no_ladder_again() {
    let budget = peak(&["batch_size=2", "gradient_accumulation_steps=4"]);
    let project = Project::new(&spec(budget, LADDER));
    project.run(&[]).exits(0);
    let (outcomes, study) = (project.outcomes(), project.study());
    let second = project.run(&[]).exits(0);
    assert!(!second.stderr.contains("no longer has"), "{second}");
    second.stderr_has("0 to run, 3 kept");
    assert_eq!((project.outcomes(), project.study()), (outcomes, study.clone()));
    project.expctl(&["report", "out", "--check"]).exits(0);

    // Without the ladder its cells are left over.
    project.write("spec.yaml", spec(budget, ""));
    project
        .run(&[])
        .exits(0)
        .stderr_has("2 results of cells that the spec no longer has");

    project.write("spec.yaml", spec(budget, LADDER));
    project.run(&["--fresh"]).exits(0);
    assert_eq!(project.study().cells, study.cells);
    let attempts = project.outcomes().into_iter().map(|(_, record)| record.attempt);
    assert_eq!(attempts.collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn each_rung_begins_where_the_one_above_ended() {
    let smallest = ["batch_size=1", "gradient_accumulation_steps=8"];
    let with = |more: &'static str| peak(&[smallest[0], smallest[1], more]);
    // One block is not enough, and both blocks are.
    let budget = with("gradient_checkpointing=full");
    assert!(budget < with("gradient_checkpointing={first: 1}"));
    let project = Project::new(&spec(budget, LADDER));
    project.run(&[]).exits(0);
    let outcomes = project.outcomes();
    let statuses: Vec<Status> = outcomes.iter().map(|(_, record)| record.status).collect();
    use Status::{Ok, Oom, Oversize};
    assert_eq!(statuses, [Oom, Oversize, Oversize, Oversize, Ok]);
    assert_eq!(lineage(&project.study(), 4), (3, Rung::Checkpoint));
    let last = &outcomes[4].0;
    assert_eq!((last.batch_size, last.gradient_checkpointing.count(2)), (1, 2));

    // The least recomputation, and shorter samples only if nothing else is enough.
    project.write("spec.yaml", spec(with("gradient_checkpointing={first: 1}"), LADDER));
    project.run(&["--fresh"]).exits(0);
    assert_eq!(project.outcomes()[4].0.gradient_checkpointing.count(2), 1);
    project.write("spec.yaml", spec(budget - 1, LADDER));
    project.run(&["--fresh"]).exits(0);
    let (shortened, record) = project.outcomes().pop().unwrap();
    assert_eq!((shortened.max_seq_length, record.status), (32, Ok));
    project.write("spec.yaml", spec(1000, LADDER));
    let output = project.run(&["--fresh"]).exits(0);
    output.stderr_has("no rung is left");
}

#[test]
fn cells_left_out_by_prediction_have_a_ladder_too() {
    let budget = peak(&["batch_size=4", "gradient_accumulation_steps=2"]);
    let project = Project::new(&spec(budget, LADDER));
    project.run(&["--skip-oversize"]).exits(0);
    let expected = [(8, 1, Status::Oversize), (4, 2, Status::Ok)];
    assert_eq!(project.micro_batches(), expected);
    project
        .run(&["--skip-oversize"])
        .exits(0)
        .stderr_has("1 to run, 1 kept");
    assert_eq!(project.micro_batches(), expected);
}

#[test]
fn a_ladder_ends_at_a_cell_of_the_study() {
    let budget = peak(&["batch_size=2", "gradient_accumulation_steps=4"]);
    let sweep = "sweep: { zip: { batch_size: [8, 4], gradient_accumulation_steps: [1, 2] } }";
    let project = Project::new(&spec(budget, &format!("{LADDER}\n{sweep}")));
    project
        .run(&[])
        .exits(0)
        .stderr_has("leads to another cell of the study");
    let expected = [(8, 1, Status::Oom), (4, 2, Status::Oom), (2, 4, Status::Ok)];
    assert_eq!(project.micro_batches(), expected);
}

#[test]
fn larger_cells_are_not_tried() {
    let budget = peak(&["batch_size=2"]);
    let sections = "skip_larger: true\nsweep: { grid: { batch_size: [2, 4, 8], rank: [4, 8] } }";
    let project = Project::new(&spec(budget, sections));
    project.run(&[]).exits(0);
    let outcomes = project.outcomes();
    let statuses: Vec<Status> = outcomes.iter().map(|(_, record)| record.status).collect();
    use Status::{Ok, Oom, Oversize};
    assert_eq!(statuses, [Ok, Oom, Oom, Oversize, Oversize, Oversize]);
    let smaller = &project.study().cells[2].id;
    let reason = outcomes[4].1.reason.clone().unwrap();
    assert_eq!(
        reason,
        format!("not tried: {smaller} is no larger, and ran out of memory (skip_larger)")
    );
}

/// The first cell runs out of memory; the one that follows would train for hours.
fn long_ladder() -> Project {
    let budget = peak(&["batch_size=4", "gradient_accumulation_steps=2"]);
    Project::new(&spec(budget, LADDER).replace("max_steps: 2", "max_steps: 10000000"))
}

#[test]
fn a_killed_run_loses_the_running_cell_alone() {
    let project = long_ladder();
    let mut run = start(&project);
    run.wait_for_a_long_step();
    run.signal(Signal::KILL);
    run.wait();
    let records = |project: &Project| {
        let cells = project.study().cells;
        let record = |id: &str| read_record(&project.results().cell(id)).unwrap();
        cells.iter().map(|planned| record(&planned.id)).collect::<Vec<_>>()
    };
    let first = records(&project);
    assert_eq!(
        (first.len(), first[0].as_ref().map(|record| record.status)),
        (2, Some(Status::Oom))
    );
    assert_eq!(first[1], None);

    let mut run = start(&project);
    run.wait_for_a_long_step();
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
    assert_eq!(records(&project), first, "the first cell is not run again");
}

#[test]
fn a_killed_cell_is_tried_again_at_once() {
    let project = Project::new(&(crate::LONG_THEN_QUICK.to_owned() + "limits: { retries: 1 }\n"));
    let mut run = start(&project);
    run.wait_for_a_long_step();
    let first = run.child();
    kill_process(first, Signal::KILL).unwrap();
    let second = run.wait_for_another(first);
    kill_process(second, Signal::KILL).unwrap();
    assert_eq!(run.wait().code(), Some(1));
    let record = project.records()[0].clone().unwrap();
    assert_eq!(
        (record.status, record.attempt, record.retried.len()),
        (Status::Killed, 2, 1)
    );
    assert_eq!(
        (record.retried[0].attempt, record.retried[0].status),
        (1, Status::Killed)
    );
    assert_eq!(project.statuses()[1], Some(Status::Ok));
}

#[test]
fn mistakes_in_these_sections_have_their_place() {
    let wrong = |sections: &str| -> Output {
        let project = Project::new(&format!("name: x\ndefaults: {{ model: tiny }}\n{sections}\n"));
        project.expctl(&["validate", "spec.yaml"]).exits(2)
    };
    wrong("on_oom: retry").stderr_has("expected `record` or `{ladder: [halve_batch, checkpoint]}`");
    wrong("on_oom: { ladder: [] }").stderr_has("on_oom.ladder: the ladder has no rung");
    wrong("on_oom: { ladder: [shorten, shorten] }").stderr_has("on_oom.ladder: shorten is listed twice");
    wrong("on_oom: { ladder: [double] }").stderr_has("halve_batch");
    wrong("limits: { retries: -1 }").stderr_has("limits.retries");
}
