//! The output of `compare`: a table with notes, or data for programs.

use std::fmt::Write as _;
use std::path::Path;

use base::text::{Table, counted, format};
use clap::ValueEnum;
use report::compare::{ColumnDifference, Comparison, FailedPair, MatchedPair, Why};
use report::{Entry, markdown};
use results::figure;
use results::setting;
use serde_json::{Value, json};

use super::comparison_verdict::verdict;
use super::screen::{screen_width, wrapped};

/// The format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Aligned columns, for people
    Table,
    /// One object
    Json,
    /// A row for each pair; everything else goes to stderr
    Csv,
    /// A table to paste
    Markdown,
}

/// A comparison and the choices of its output.
pub(super) struct ComparisonView<'t> {
    pub(super) a: &'t Path,
    pub(super) b: &'t Path,
    /// The conditions' texts.
    pub(super) fail_if: &'t [String],
    pub(super) comparison: &'t Comparison<'t>,
    pub(super) differences: Vec<ColumnDifference>,
    /// The keys that vary in either study.
    pub(super) axes: Vec<String>,
    pub(super) columns: Vec<&'t str>,
    pub(super) failed: &'t [FailedPair],
}

impl ComparisonView<'_> {
    /// The whole comparison in this format.
    pub(super) fn render(&self, format: Output) -> String {
        match format {
            Output::Table => format!(
                "{}\n{}{}",
                self.head(),
                self.table(false).within(screen_width()),
                self.notes("  ")
            ),
            Output::Json => format!("{:#}\n", self.json()),
            Output::Csv => {
                eprint!("{}{}", self.head(), self.notes("  "));
                self.table(true).csv()
            }
            Output::Markdown => {
                let head: String = self.head().lines().map(|line| format!("* {line}\n")).collect();
                let table = markdown_table(&self.table(false));
                markdown::tidy(&format!("{head}\n{table}\n{}", self.notes("* ")))
            }
        }
    }

    fn head(&self) -> String {
        let Comparison {
            pairs,
            matched,
            only_in_a,
            only_in_b,
        } = self.comparison;
        let of = |only: &[&Entry]| counted(pairs.len() + only.len(), "cell");
        let mut by = Vec::new();
        if matched.by_id > 0 {
            by.push(format!("{} by id", matched.by_id));
        }
        if matched.by_axes > 0 {
            let axes = match matched.axes.as_slice() {
                [] => "as the only one".to_owned(),
                axes => format!("by {}", axes.join(", ")),
            };
            by.push(format!("{} {axes}", matched.by_axes));
        }
        format!(
            "{}\nA: {} ({})\nB: {} ({})\nmatched: {}\n",
            wrapped(&verdict(self.comparison), 2),
            self.a.display(),
            of(only_in_a),
            self.b.display(),
            of(only_in_b),
            by.join(", ")
        )
    }

    /// A row for each pair: `A → B` with units for people, or `plain` numbers for programs.
    fn table(&self, plain: bool) -> Table {
        let mut table = Table::new(["cell"].into_iter().chain(self.axes.iter().map(String::as_str)));
        match plain {
            true => table.columns.extend(["status_a", "status_b"].map(String::from)),
            false => table.columns.push("status".into()),
        }
        for column in &self.columns {
            match plain {
                true => table
                    .columns
                    .extend(["a", "b", "ratio"].map(|side| format!("{column}_{side}"))),
                false => table.columns.extend([heading(column), "B/A".into()]),
            }
        }
        for pair in &self.comparison.pairs {
            let mut row = vec![json!(id(pair.a))];
            row.extend(self.axes.iter().map(|axis| {
                json!(change(
                    &setting(axis, pair.a.get(axis)),
                    &setting(axis, pair.b.get(axis))
                ))
            }));
            match plain {
                true => row.extend([json!(status(pair.a)), json!(status(pair.b))]),
                false => row.push(json!(change(status(pair.a), status(pair.b)))),
            }
            for column in &self.columns {
                let ratio = pair.ratio(column);
                if plain {
                    row.extend([json!(pair.a.get(column)), json!(pair.b.get(column)), json!(ratio)]);
                } else {
                    let [a, b] = [pair.a, pair.b].map(|cell| figure_or_dash(column, cell));
                    row.extend([json!(change(&a, &b)), json!(self.marked(pair, column, ratio))]);
                }
            }
            table.rows.push(row);
        }
        table
    }

    /// A ratio, with a mark if a condition holds.
    fn marked(&self, pair: &MatchedPair<'_>, column: &str, ratio: Option<f64>) -> String {
        let id = id(pair.a);
        let is_this = |failed: &&FailedPair| failed.cell == id && failed.ratios.contains_key(column);
        let mark = if self.failed.iter().any(|failed| is_this(&failed)) {
            " !"
        } else {
            ""
        };
        ratio.map_or_else(|| format::ABSENT.into(), times) + mark
    }

    /// The notes below the table: other differences, cells of one study only, conditions that hold.
    fn notes(&self, bullet: &str) -> String {
        let mut out = String::new();
        if !self.differences.is_empty() {
            let _ = writeln!(out, "\nalso different:\n");
            for ColumnDifference {
                of,
                column,
                a,
                b,
                cells,
            } in &self.differences
            {
                let _ = writeln!(out, "{bullet}{of}: {column} {a} → {b} ({})", counted(*cells, "cell"));
            }
        }
        for (name, only) in [("A", &self.comparison.only_in_a), ("B", &self.comparison.only_in_b)] {
            if !only.is_empty() {
                let _ = writeln!(out, "\nonly in {name}:\n");
                for cell in only {
                    let _ = writeln!(out, "{bullet}{} {} ({})", id(cell), self.values(cell), status(cell));
                }
            }
        }
        for condition in self.fail_if {
            let of_it: Vec<&FailedPair> = self
                .failed
                .iter()
                .filter(|failed| failed.condition == *condition)
                .collect();
            // Backticks, so that Markdown shows it as it is.
            let all_hold = of_it.iter().all(|failed| failed.why == Why::Holds);
            let verb = if all_hold {
                "holds"
            } else {
                "holds, or cannot be judged,"
            };
            let _ = match of_it.len() {
                0 => writeln!(out, "\n`--fail-if '{condition}'` holds for no cell"),
                n => writeln!(out, "\n`--fail-if '{condition}'` {verb} for {}:\n", counted(n, "cell")),
            };
            for failed in of_it {
                let pairs = self.comparison.pairs.iter().map(|pair| pair.a);
                let mut cells = pairs.chain(self.comparison.only_in_a.iter().copied());
                let cell = cells.find(|cell| id(cell) == failed.cell);
                let values = cell.map(|cell| self.values(cell)).unwrap_or_default();
                let _ = writeln!(out, "{bullet}{} {values}: {}", failed.cell, reason(failed));
            }
        }
        out
    }

    fn values(&self, cell: &Entry) -> String {
        let value = |axis: &String| format!("{axis}={}", setting(axis, cell.get(axis)));
        self.axes.iter().map(value).collect::<Vec<_>>().join(" ")
    }

    fn json(&self) -> Value {
        let side = |pair: &MatchedPair<'_>| {
            let figures = self.columns.iter().map(|column| {
                let figure = json!({ "a": pair.a.get(column), "b": pair.b.get(column), "ratio": pair.ratio(column) });
                ((*column).to_owned(), figure)
            });
            json!({
                "a": id(pair.a),
                "b": id(pair.b),
                "status": { "a": status(pair.a), "b": status(pair.b) },
                "axes": self.axes.iter().map(|axis| (axis.clone(), json!(pair.a.get(axis)))).collect::<serde_json::Map<_, _>>(),
                "figures": figures.collect::<serde_json::Map<_, _>>(),
            })
        };
        let ids = |cells: &[&Entry]| cells.iter().map(|cell| id(cell)).collect::<Vec<_>>();
        json!({
            "a": self.a,
            "b": self.b,
            "matched": self.comparison.matched,
            "cells": self.comparison.pairs.iter().map(side).collect::<Vec<_>>(),
            "differences": self.differences,
            "only_in_a": ids(&self.comparison.only_in_a),
            "only_in_b": ids(&self.comparison.only_in_b),
            "passed": self.failed,
        })
    }
}

/// Why a cell fails, with its ratios.
fn reason(failed: &FailedPair) -> String {
    let figure = |(column, ratio): (&String, &Option<f64>)| match (failed.why, ratio) {
        (Why::MissingInA, _) => format!("{column} is not there in A, which has no record of the cell"),
        (Why::Negative, Some(ratio)) if *ratio < 0.0 => format!("{column} is negative in A or B"),
        (Why::Negative, Some(ratio)) => format!("{column} {}, of figures that may be negative", times(*ratio)),
        (Why::MissingInB, Some(ratio)) if ratio.is_nan() => format!("{column} is not a number"),
        (_, Some(ratio)) => format!("{column} {}", times(*ratio)),
        (_, None) => format!("{column} is not there in B"),
    };
    failed.ratios.iter().map(figure).collect::<Vec<_>>().join(", ")
}

fn id(cell: &Entry) -> String {
    cell.text("cell_id").unwrap_or_default().to_owned()
}

fn status(cell: &Entry) -> &str {
    cell.text("status").unwrap_or("not run")
}

/// `A → B`, or one text if both are equal.
fn change(a: &str, b: &str) -> String {
    if a == b { a.to_owned() } else { format!("{a} → {b}") }
}

fn times(ratio: f64) -> String {
    format!("{}×", format::number(ratio.into(), 3))
}

/// The heading of a column for people.
fn heading(column: &str) -> String {
    let heading = match column {
        "allocated_peak_bytes" => "peak allocated",
        "process_peak_bytes" => "peak process",
        "tokens_per_second" => "tokens/s",
        "loss_last" => "loss",
        column => column,
    };
    heading.to_owned()
}

fn figure_or_dash(column: &str, cell: &Entry) -> String {
    cell.number(column)
        .map_or_else(|| format::ABSENT.into(), |number| figure(column, number))
}

fn markdown_table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let text = |value: &Value| markdown::escape(value.as_str().unwrap_or_default());
    let mut out = line(table.columns.iter().map(|column| markdown::escape(column)).collect());
    out += &line(
        table
            .columns
            .iter()
            .map(|column| if column == "B/A" { "---:" } else { "---" }.to_owned())
            .collect(),
    );
    table
        .rows
        .iter()
        .for_each(|row| out += &line(row.iter().map(text).collect()));
    out
}
