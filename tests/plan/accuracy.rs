//! `expctl accuracy`: what tests the plan stands apart from what corrected it.

use crate::common::project::Project;

/// A study of both stacks with these figures.
fn study(figures: &str) -> Project {
    Project::new(&format!(
        "name: apart\ndefaults: {{ model: tiny, max_steps: 3 }}\nsweep: {{ grid: {{ stack: [torch, candle] }} }}\n\
         report: {{ output: out/report.md }}\npublished:\n{figures}"
    ))
}

/// The peak of each stack's cell, as it is predicted.
fn peaks() -> [u64; 2] {
    let planned = study("").planned(&[]);
    let peak = |stack: &str| {
        let cell = planned.iter().find(|cell| cell["stack"] == stack).unwrap();
        cell["predicted_allocated_peak_bytes"].as_u64().unwrap()
    };
    [peak("torch"), peak("candle")]
}

fn figure(stack: &str, value: u64, evidence: &str) -> String {
    format!(
        "  - {{ column: allocated_peak_bytes, value: {value}, unit: bytes, metric: allocated, source: us, {evidence} cell: {{ stack: {stack} }} }}\n"
    )
}

#[test]
fn figures_that_corrected_the_plan_stand_apart() {
    let [torch, candle] = peaks();
    let figures = [
        figure("candle", candle, ""),
        figure("torch", 4 * torch, "evidence: estimate,"),
        figure("torch", torch, "evidence: corrected,"),
        figure("torch", 2 * torch, ""),
        "  - { column: trainable_count, value: 1, unit: count, source: us, cell: { stack: torch } }\n".into(),
    ];
    let project = study(&figures.concat());
    let page = project.expctl(&["accuracy", "spec.yaml"]).exits(0).stdout;
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let opening: Vec<String> = lines[2..6].iter().map(|line| cells(line)[1..6].join(" ")).collect();
    assert_eq!(
        opening,
        [
            "Held out 1 50.0% 50.0% -50.0%",
            "Corrected the plan 1 0.00% 0.00% 0.00%",
            "Estimated by their source 1 75.0% 75.0% -75.0%",
            "Our own trainer 1 0.00% 0.00% 0.00%",
        ],
        "{page}"
    );
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(
        sections,
        [
            "Held out",
            "Corrected the plan",
            "Estimated by their source",
            "Our own trainer",
            "The studies"
        ]
    );
    assert!(
        page.contains("* [apart](../spec.yaml), with its [report](../out/report.md)\n"),
        "{page}"
    );

    let rows = project
        .expctl(&["accuracy", "spec.yaml", "--format", "json"])
        .exits(0)
        .json();
    let kinds: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["section"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "held_out").count(), 2, "{kinds:?}");
}

#[test]
fn an_unknown_kind_of_evidence_is_an_error() {
    let project = study(&figure("torch", 1, "evidence: tuned,"));
    let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
    output.stderr_has("published[0].evidence").stderr_has("held_out");
}

#[test]
fn the_order_of_the_specs_does_not_matter() {
    let project = Project::empty();
    for name in ["a", "a_b"] {
        let figure = figure("torch", 1, "");
        project.write(
            format!("{name}.yaml"),
            format!("name: {name}\ndefaults: {{ model: tiny, stack: torch, max_steps: 3 }}\npublished:\n{figure}"),
        );
    }
    let page = |specs: &[&str]| {
        let output = project.expctl(&[&["accuracy"], specs, &["--format", "csv"]].concat());
        output.exits(0).stdout
    };
    assert_eq!(page(&["a_b.yaml", "a.yaml", "a.yaml"]), page(&["a.yaml", "a_b.yaml"]));
}
