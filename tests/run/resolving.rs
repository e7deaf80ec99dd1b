//! Values that a spec leaves open, and the real steps that find them.

use std::fs;

use expctl::records::Status;
use expctl::records::store::read_record;
use expctl::spec::{Lineage, Study};
use serde_json::Value;

use crate::common::project::Project;

/// A cell within a budget; `keys` are more of its keys.
fn spec(budget: u64, keys: &str) -> String {
    format!(
        "name: open\ndefaults: {{ model: tiny, dtype: float32, rank: 4, max_seq_length: 64, max_steps: 2, device_memory: \
         {budget}B, {keys} }}\n"
    )
}

fn peak(settings: &[&str]) -> u64 {
    let project = Project::new(&spec(1 << 40, "batch_size: 1"));
    let mut arguments = vec!["plan", "spec.yaml", "--format", "json"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let plan = project.expctl(&arguments).exits(0).json();
    plan[0]["predicted_allocated_peak_bytes"].as_u64().unwrap()
}

/// The micro-batch, the accumulation, and the real steps of the only cell.
fn found(project: &Project) -> (usize, usize, u32) {
    let study = Study::read(project.results().path()).unwrap();
    let [planned] = &study.cells[..] else {
        panic!("{:?}", study.cells)
    };
    let Lineage::Resolved(resolved) = &planned.lineage else {
        panic!("{planned:?}")
    };
    assert!(resolved.asked.is_open() && !planned.cell.is_open());
    let record = read_record(&project.results().cell(&planned.id)).unwrap().unwrap();
    assert_eq!(record.status, Status::Ok);
    let cell = &planned.cell;
    (cell.batch_size, cell.gradient_accumulation_steps, resolved.trials.count)
}

fn trials(project: &Project) -> usize {
    fs::read_dir(project.path("out/trials")).map_or(0, Iterator::count)
}

#[test]
fn the_largest_micro_batch_that_keeps_the_effective_one() {
    let budget = peak(&["batch_size=5", "gradient_accumulation_steps=2"]);
    let project = Project::new(&spec(
        budget,
        "auto_batch_size: { start: 4, max: 8 }, gradient_accumulation_steps: 2",
    ));
    let planned = project
        .expctl(&["plan", "spec.yaml", "--format", "json"])
        .exits(0)
        .json();
    assert_eq!((&planned[0]["batch_size"], trials(&project)), (&Value::Null, 0));
    project.run(&[]).exits(0);
    assert_eq!(found(&project), (4, 2, 1));

    // The same cell as one that is written so, whose losses it has.
    let study = Study::read(project.results().path()).unwrap();
    let written = Project::new(&spec(budget, "batch_size: 4, gradient_accumulation_steps: 2"));
    assert_eq!(written.dry_run()[0]["cell_id"], study.cells[0].id);
    assert_eq!(planned[0]["cell_id"], study.cells[0].id);

    // The step is not taken again, and the report says what was asked for.
    let second = project.run(&[]).exits(0);
    assert!(!second.stderr.contains("one real step with"), "{second}");
    assert_eq!((trials(&project), found(&project)), (1, (4, 2, 1)));
    let frame = project.read("out/cells.csv");
    assert!(frame.contains("auto_batch_size: {start: 4"), "{frame}");
    project
        .run(&["--fresh"])
        .exits(0)
        .stderr_has("one real step with batch_size 4");
    project
        .expctl(&["report", "spec.yaml", "--results", "out", "--check"])
        .exits(0);
}

#[test]
fn searches_differ_in_what_they_keep_and_how_often_they_try() {
    let budget = peak(&["batch_size=5", "gradient_accumulation_steps=6"]);
    let search = |search: &str| {
        let project = Project::new(&spec(
            budget,
            &format!("auto_batch_size: {{ start: 2, max: 12, search: {search} }}, gradient_accumulation_steps: 6"),
        ));
        project.run(&[]).exits(0);
        assert_eq!(trials(&project), found(&project).2 as usize);
        found(&project)
    };
    assert_eq!(search("largest"), (5, 6, 1));
    let (batch, accumulation, trials) = search("keep_effective_batch");
    assert_eq!((batch, accumulation, trials), (4, 3, 1));
    // 2, 3, 4 and 5 fit, 6 does not, and half of it is known to.
    assert_eq!(search("halve_and_grow"), (3, 6, 5));
}

#[test]
fn the_smallest_is_taken_if_nothing_fits() {
    let project = Project::new(&spec(1000, "auto_batch_size: { start: 4, max: 4 }"));
    project.run(&[]).exits(0);
    let study = Study::read(project.results().path()).unwrap();
    assert_eq!(study.cells[0].cell.batch_size, 1);
    assert_eq!(trials(&project), 0, "the prediction rules all of them out");
}

#[test]
fn the_fewest_blocks_that_fit_a_size() {
    let one = peak(&["gradient_checkpointing={first: 1}"]);
    let none = peak(&["gradient_checkpointing=none"]);
    for (size, expected) in [
        (none, "none"),
        (none - 1, "{first: 1}"),
        (one, "{first: 1}"),
        (one - 1, "full"),
        (1, "full"),
    ] {
        let project = Project::new(&spec(1 << 30, &format!("gradient_checkpointing: {{ auto: {size}B }}")));
        let output = project.expctl(&["plan", "spec.yaml"]).exits(0);
        output.stdout_has(&format!(" is {expected}"));
    }
    let project = Project::new(&spec(1 << 30, &format!("gradient_checkpointing: {{ auto: {one}B }}")));
    project.run(&[]).exits(0);
    let study = Study::read(project.results().path()).unwrap();
    let written = Project::new(&spec(1 << 30, "gradient_checkpointing: { first: 1 }"));
    assert_eq!(written.dry_run()[0]["cell_id"], study.cells[0].id);
    assert_eq!(project.dry_run()[0]["cell_id"], study.cells[0].id);
    project.expctl(&["fit", "spec.yaml", "--budget", "1GiB"]).exits(0);
}

/// Blocks that fit without recomputation have no inputs to offload.
#[test]
fn checkpoints_that_no_block_has_are_not_offloaded() {
    let offload = "gradient_checkpointing: { auto: 1GiB }, offload: { checkpoints: true, optimizer: true }";
    let project = Project::new(&spec(1 << 40, offload));
    project
        .run(&[])
        .exits(0)
        .stderr_has("is none, so offload.checkpoints is left out");
    let study = Study::read(project.results().path()).unwrap();
    let cell = &study.cells[0].cell;
    assert!(cell.offload.optimizer && !cell.offload.checkpoints);
    let record = read_record(&project.results().cell(&study.cells[0].id))
        .unwrap()
        .unwrap();
    assert_eq!(record.status, Status::Ok);
}

/// A published figure names its cell by the id under which it ran.
#[test]
fn a_figure_names_the_cell_that_was_found() {
    let keys = "auto_batch_size: { start: 2, max: 4 }, gradient_accumulation_steps: 2";
    let sections = "published: [{ column: allocated_peak_bytes, values: figures.csv, unit: bytes, metric: allocated, \
                    source: us }]\n";
    let project = Project::new(&(spec(1 << 40, keys) + sections));
    project.write("figures.csv", "cell_id,allocated_peak_bytes\n");
    let planned = project
        .expctl(&["plan", "spec.yaml", "--format", "json"])
        .exits(0)
        .json();
    let (id, peak) = (
        planned[0]["cell_id"].as_str().unwrap(),
        &planned[0]["predicted_allocated_peak_bytes"],
    );
    project.write(
        "figures.csv",
        format!("cell_id,allocated_peak_bytes\n{id},{peak}\n0123456789ab,1\n"),
    );
    let rows = project.expctl(&["accuracy", "spec.yaml", "--format", "csv"]).exits(0);
    let rows: Vec<&str> = rows.stdout.lines().skip(1).collect();
    assert!(
        matches!(rows[..], [row] if row.contains(id) && row.contains(",0.0,")),
        "{rows:?}"
    );
    project
        .run(&[])
        .exits(0)
        .stderr_has("the study has no cell `0123456789ab`, so its figure is left out");
    assert!(
        project
            .read("out/report.md")
            .contains("## Compared with published figures")
    );
}

/// Nor does it matter that the cell does not heed all axes.
#[test]
fn a_figure_finds_its_cell_beside_idle_axes() {
    let sections = "sweep: { zip: { dtype: [float32, int4], bnb_4bit_compute_dtype: [bfloat16, float32] } }\n\
                    published: [{ column: allocated_peak_bytes, values: figures.csv, unit: bytes, metric: allocated, \
                    source: us }]\n";
    let project = Project::new(&(spec(1 << 40, "auto_batch_size: { start: 4, max: 4 }") + sections));
    project.write("figures.csv", "cell_id,allocated_peak_bytes\n");
    let planned = project
        .expctl(&["plan", "spec.yaml", "--format", "json"])
        .exits(0)
        .json();
    let mut figures = "cell_id,allocated_peak_bytes\n".to_owned();
    for cell in planned.as_array().unwrap() {
        let peak = &cell["predicted_allocated_peak_bytes"];
        figures += &format!("{},{peak}\n", cell["cell_id"].as_str().unwrap());
    }
    project.write("figures.csv", &figures);
    let rows = project.expctl(&["accuracy", "spec.yaml", "--format", "csv"]).exits(0);
    let is_exact = |row: &&str| row.contains(",0.0,");
    let exact = rows.stdout.lines().skip(1).filter(is_exact).count();
    assert_eq!((figures.lines().count() - 1, exact), (2, 2), "{}", rows.stdout);
}

#[test]
fn repeats_get_the_same_values_and_equal_cells_merge() {
    let budget = peak(&["batch_size=2"]);
    let keys = "auto_batch_size: { start: 8, max: 8 }, padding: longest, data: { synthetic: { lengths: uniform } }";
    let project = Project::new(&(spec(budget, keys) + "repeats: 3\n"));
    project.run(&[]).exits(0);
    let study = Study::read(project.results().path()).unwrap();
    let groups: Vec<String> = study.cells.iter().map(|planned| planned.cell.group_id()).collect();
    assert_eq!(groups, vec![groups[0].clone(); 3]);

    let sweep = "sweep: { grid: { gradient_checkpointing: [{ auto: 1GiB }, { auto: 2GiB }, full] } }\n";
    let project = Project::new(&(spec(1 << 30, "batch_size: 1") + sweep));
    let output = project.run(&[]).exits(0);
    output.stderr_has("1 cell came to the same as another");
    assert_eq!(Study::read(project.results().path()).unwrap().cells.len(), 2);
}

#[test]
fn a_search_needs_a_budget_and_room() {
    let wrong = |keys: &str, message: &str| {
        let project = Project::new(&format!("name: x\ndefaults: {{ model: tiny, {keys} }}\n"));
        project.expctl(&["validate", "spec.yaml"]).exits(2).stderr_has(message);
    };
    let budget = "device_memory: 1GiB";
    wrong("auto_batch_size: { start: 2, max: 2 }", "there is no budget");
    wrong(
        &format!("{budget}, auto_batch_size: {{ start: 2, max: 4 }}"),
        "the effective batch is",
    );
    wrong(
        &format!("{budget}, auto_batch_size: {{ start: 4, max: 2 }}"),
        "4 is not from min to max",
    );
    wrong(
        &format!("{budget}, batch_size: 2, auto_batch_size: {{ start: 2, max: 2 }}"),
        "would do nothing",
    );
    wrong(&format!("{budget}, auto_batch_size: {{ start: 2 }}"), "max");
    let both = "auto_batch_size: { start: 2, max: 2 }, gradient_checkpointing: { auto: 1GiB }";
    wrong(&format!("{budget}, {both}"), "one search at a time");
    wrong("gradient_checkpointing: { auto: 0 }", "0 bytes fit nothing");
    wrong("gradient_checkpointing: { auto: much }", "expected a size");
}
