//! The table to paste: at most eight columns in the report, and as CSV, JSON and LaTeX.

use crate::Recorded;
use crate::common::project::Project;

const SPEC: &str = "name: rank_sweep
defaults: { dtype: int4, max_steps: 3 }
sweep: { grid: { rank: [4, 16], gradient_checkpointing: [none, full] } }
repeats: 2
report: { output: results/rank_sweep.md, baseline: { rank: 16, gradient_checkpointing: none } }
";
const PATH: &str = "experiments/rank_sweep.yaml";

/// The first table of a page: its cells by line.
fn first_table(markdown: &str) -> Vec<Vec<String>> {
    let lines = markdown.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_first_table_names_what_differs_from_the_base() {
    let recorded = Recorded::new(SPEC);
    let markdown = recorded.markdown("comparison");
    let table = first_table(&markdown);
    assert_eq!(
        table[0],
        [
            "Configuration",
            "Peak allocated (MiB)",
            "of base",
            "Tokens/s",
            "of base"
        ]
    );
    let labels: Vec<&str> = table[2..].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(
        labels,
        [
            "rank: 4",
            "rank: 4, gradient\\_checkpointing: full",
            "base",
            "gradient\\_checkpointing: full"
        ]
    );
    assert_eq!(table[4][2], "1.00×");
    // All axes follow, folded.
    let (_, folded) = markdown.split_once("<summary>All axes and figures</summary>").unwrap();
    assert!(
        first_table(folded)[0].contains(&"`gradient_checkpointing`".to_owned()),
        "{folded}"
    );
    // The ids of cells stand below the sentences.
    let (_, answer) = markdown.split_once("## Answer").unwrap();
    let (sentences, ids) = answer
        .split_once("<summary>The cells of each sentence</summary>")
        .unwrap();
    let id = &recorded.study.cells[0].id[..6];
    assert!(sentences.contains("Cheapest") && !sentences.contains(id), "{sentences}");
    assert!(ids.contains(id), "{ids}");
}

#[test]
fn a_spec_chooses_the_columns() {
    let spec = SPEC.replace(
        "report: {",
        "report: { columns: [adapter_file_bytes, step_seconds_median, loss_eval],",
    );
    let recorded = Recorded::new(&spec);
    let table = first_table(&recorded.markdown("comparison"));
    assert_eq!(
        table[0],
        [
            "Configuration",
            "Adapter file (MiB)",
            "Step seconds median",
            "Held-out loss"
        ]
    );
    for (columns, message, help) in [
        (
            "[adapter_file_byte]",
            "report.columns[0]: `adapter_file_byte` is not a column of measured numbers",
            "did you mean `adapter_file_bytes`?",
        ),
        (
            "[steps, steps, steps, steps, steps, steps, steps, steps]",
            "report.columns: a table to paste has at most 7 columns of figures, not 8",
            "cells.csv have all",
        ),
    ] {
        let project = Project::empty();
        project.write(
            "spec.yaml",
            SPEC.replace("report: {", &format!("report: {{ columns: {columns},")),
        );
        let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
        output.stderr_has(message).stderr_has("spec.yaml:5:").stderr_has(help);
    }
}

#[test]
fn the_table_is_printed_for_other_programs() {
    let recorded = Recorded::new(SPEC);
    let printed = |format: &str| {
        let output = recorded.project.expctl(&["report", PATH, "--format", format]);
        output.exits(0).stdout
    };
    let csv = printed("csv");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "configuration,status,allocated_peak_bytes,allocated_peak_bytes_deviation,allocated_peak_bytes_of_base,\
         tokens_per_second,tokens_per_second_deviation,tokens_per_second_of_base"
    );
    assert!(lines.next().unwrap().starts_with("rank: 4,ok,"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&printed("json")).unwrap();
    assert_eq!(json[2]["configuration"], "base");
    assert!(json[0]["allocated_peak_bytes"].as_f64() < json[2]["allocated_peak_bytes"].as_f64());
    let latex = printed("latex");
    assert!(
        latex.starts_with("\\begin{tabular}{lrrrr}\n\\toprule\nConfiguration & Peak allocated (MiB)"),
        "{latex}"
    );
    assert!(latex.contains("rank: 4, gradient\\_checkpointing: full & "), "{latex}");
    assert!(
        latex.contains("1.00$\\times$ \\\\\n") && latex.contains(" $\\pm$ "),
        "{latex}"
    );
    assert!(latex.ends_with("\\bottomrule\n\\end{tabular}\n"), "{latex}");
    let output = ["report", PATH, "--format", "csv", "--output", "table.csv"];
    recorded.project.expctl(&output).exits(0);
    assert_eq!(recorded.read("table.csv"), csv);
    let check = recorded
        .project
        .expctl(&["report", PATH, "--format", "csv", "--check"])
        .exits(2);
    check.stderr_has("--check is for reports");
}
