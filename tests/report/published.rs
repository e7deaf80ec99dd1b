//! Published figures compared with measured ones.

use expctl::report::{self, About, Template};
use expctl::results::collect::collect;
use expctl::spec::{self, Overrides};
use polars_core::prelude::{IntoColumn, NamedFrom, Series};

use crate::{Project, Recorded, SPEC};

/// Figures of each kind: equal to the digit and to the byte, of another metric, of a cell that ran out of memory.
const PUBLISHED: &str = "\
published:
- { column: allocated_peak_bytes, value: 471.01, unit: MiB, metric: allocated, cell: { dtype: bfloat16, rank: 4 },
    name: Peak, note: Seed 0 alone, source: &table 'A table, https://example.org/a_table (2026)' }
- { column: adapter_file_bytes, value: '4,924,480', unit: bytes, metric: unstated, cell: { dtype: bfloat16, rank: 4 }, source: *table }
- { column: allocated_peak_bytes, value: 0.50, unit: GB, metric: reserved, cell: { dtype: int4, rank: 16 }, source: Somebody }
- { column: trainable_count, of: parameter_count, value: 3.63, unit: '%', cell: { dtype: int4, rank: 16 }, source: Somebody }
- { column: tokens_per_second, value: 2000, unit: tokens/s, cell: { dtype: bfloat16, rank: 256 }, source: *table }
";

#[test]
fn published_figures_stand_beside_what_was_measured() {
    let recorded = Recorded::new(&format!("{SPEC}{PUBLISHED}"));
    for template in ["comparison", "method_comparison"] {
        let markdown = recorded.markdown(template);
        let (_, part) = markdown.split_once("## Compared with published figures").unwrap();
        let (part, _) = part.split_once("\n## ").unwrap();
        insta::assert_snapshot!("published", part);
    }
}

/// One of the study's cells ran out of memory; the others ended well.
#[test]
fn published_outcomes_stand_beside_what_the_cells_came_to() {
    let outcomes = "\
published:
- { name: Small, outcome: fits, largest: rank, cell: { dtype: bfloat16, rank: 4 }, source: &table 'A table' }
- { name: Large, outcome: fits, cell: { dtype: bfloat16, rank: 256 }, source: *table, note: With more memory. }
";
    let recorded = Recorded::new(&format!("{SPEC}{outcomes}"));
    let markdown = recorded.markdown("comparison");
    let (_, part) = markdown.split_once("## Compared with published outcomes").unwrap();
    let (part, _) = part.split_once("\n## ").unwrap();
    insta::assert_snapshot!("outcomes", part);
    assert!(
        markdown.contains("1 of 2 published outcomes are as measured."),
        "{markdown}"
    );
}

/// The context of a GPU that nobody measured has a range, on either side of which a budget may lie.
#[test]
fn a_plan_is_compared_with_published_outcomes() {
    let spec = "\
name: x
defaults: { model: llama-3.2-1b, stack: torch, dtype: int4, max_seq_length: 64 }
sweep: { grid: { gpu: [t4, rtx-4090] } }
published:
- { outcome: fits, cell: { gpu: rtx-4090 }, source: A table }
- { outcome: out_of_memory, cell: { gpu: t4 }, source: A table }
report: { template: plan }
";
    let project = Project::new(spec);
    project.expctl(&["plan", "spec.yaml", "--report=r.md"]).exits(0);
    let report = project.read("r.md");
    for text in [
        "1 of 2 published outcomes are as predicted.",
        "was published as \"out of memory\"",
        "out of memory | fits ",
        "| **no**    |",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    let page = project.expctl(&["accuracy", "spec.yaml"]).exits(0);
    page.stdout_has("| Held out |    2 |            1 |                  0 |                1 |");
    let rows = project
        .expctl(&["accuracy", "spec.yaml", "--format", "json"])
        .exits(0)
        .json();
    let row = |index: usize| (rows[index]["published"].clone(), rows[index]["predicted"].clone());
    assert_eq!(row(0), ("out of memory".into(), "fits".into()));
    assert_eq!(row(1), ("fits".into(), "fits".into()));
    let fit = project
        .expctl(&["fit", "spec.yaml", "--largest", "max_seq_length"])
        .exits(0);
    assert!(!fit.stdout.contains("published:"), "{fit}");
    let largest = spec.replace("outcome: fits,", "outcome: fits, largest: max_seq_length,");
    Project::new(&largest)
        .expctl(&["fit", "spec.yaml", "--largest", "max_seq_length"])
        .exits(0)
        .stdout_has("the largest max_seq_length that fits (published: 64)");
}

/// Without memory to fit into, a run that ended well says nothing.
#[test]
fn an_outcome_needs_a_budget_and_a_key_that_is_heeded() {
    let said = |keys: &str, outcome: &str| {
        let spec = format!(
            "name: x\ndefaults: {{ model: tiny, {keys} }}\npublished:\n- {{ outcome: fits, {outcome} source: A table }}\n"
        );
        Project::new(&spec).expctl(&["validate", "spec.yaml"])
    };
    said("rank: 4", "")
        .exits(2)
        .stderr_has("published[0].outcome: its cell has no memory to fit into");
    said("adapter: ia3, device_memory: 1GiB", "largest: rank,")
        .exits(2)
        .stderr_has("published[0].largest: its cell does not heed this key");
    said("rank: 4, device_memory: 1GiB", "largest: rank,").exits(0);
}

#[test]
fn a_source_says_one_thing_of_a_cell() {
    let said = |source: &str| {
        let spec = format!(
            "name: x\ndefaults: {{ model: tiny, device_memory: 1GiB }}\npublished:\n\
             - {{ outcome: fits, source: A table }}\n- {{ outcome: out_of_memory, source: {source} }}\n"
        );
        Project::new(&spec).expctl(&["validate", "spec.yaml"])
    };
    said("A table")
        .exits(2)
        .stderr_has("published[1].outcome: published[0] says the other of the same cell, by the same source");
    said("Another table").exits(0);
}

#[test]
fn a_prediction_is_marked_as_one() {
    let recorded = Recorded::new(&format!("{SPEC}{PUBLISHED}"));
    let mut frame = collect(&recorded.dir, &recorded.study, false).unwrap().frame().unwrap();
    let bytes = vec![493_887_488_i64; frame.height()];
    let predicted = Series::new("predicted_allocated_peak_bytes".into(), bytes);
    frame.with_column(predicted.into_column()).unwrap();
    let report = report::render(
        &About::new(&recorded.study),
        &frame,
        &Template::named("comparison"),
        "x",
    )
    .unwrap();
    let lines = report
        .markdown
        .lines()
        .filter(|line| line.contains("Predicted") || line.contains(" 0.50 GB"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_plan_says_which_figures_it_cannot_predict() {
    let figure =
        |column: &str| format!("- {{ column: {column}, value: 5, unit: GB, metric: unstated, source: Somebody }}\n");
    let spec = |columns: &[&str]| {
        let figures: String = columns.iter().map(|column| figure(column)).collect();
        format!(
            "name: x\ndefaults: {{ model: tiny, stack: torch, gpu: rtx-3050-8gb }}\nreport: {{ template: plan }}\n\
             published:\n{figures}"
        )
    };
    let project = Project::new("name: x\n");
    for (columns, predicted) in [
        (&["checkpoint_file_bytes"][..], 0),
        (&["checkpoint_file_bytes", "allocated_peak_bytes"][..], 1),
    ] {
        project.write("plan.yaml", spec(columns));
        let report = project.path("plan.md").display().to_string();
        project
            .expctl(&["plan", "plan.yaml", &format!("--report={report}")])
            .exits(0);
        let report = project.read("plan.md");
        let (_, part) = report.split_once("## Compared with published figures").unwrap();
        let reason = "not predicted |";
        assert!(part.contains(" Predicted |") && part.contains(reason), "{part}");
        assert!(!part.contains("| planned") && !part.contains("Measured"), "{part}");
        assert_eq!(part.matches(reason).count(), 1, "{part}");
        assert_eq!(part.matches("| `allocated_peak_bytes`").count(), predicted, "{part}");
    }
}

#[test]
fn a_published_figure_is_no_part_of_a_cell() {
    let recorded = Recorded::new(SPEC);
    recorded.expctl(&["report", "experiments/rank_sweep.yaml"]).exits(0);
    let report = || recorded.read("results/rank_sweep.md");
    assert!(!report().contains("Published"));
    let spec = format!("{SPEC}{PUBLISHED}");
    recorded.write("experiments/rank_sweep.yaml", &spec);
    recorded
        .expctl(&["report", "experiments/rank_sweep.yaml"])
        .exits(0)
        .stderr_is("");
    assert!(report().contains("471.01 MiB"), "{}", report());

    let with_override = Overrides::new([], vec!["rank=4".into()]);
    let study = spec::load(&recorded.path("experiments/rank_sweep.yaml"), &with_override).unwrap();
    assert_eq!(study.published.len(), 2);
    assert!(
        study
            .notes
            .contains(&"--set rank=4 leaves no cell for published[4]".into()),
        "{:?}",
        study.notes
    );
}
