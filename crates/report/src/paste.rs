//! The table to paste: what each configuration costs, in few columns.

use std::collections::BTreeSet;

use base::text::format::{ABSENT, ByteUnit, Quantity, bytes_in, number, percent, rate, ratio, seconds};
use base::text::{Dimension, Table};
use results::columns::dimension;
use serde::Serialize;
use serde_json::{Value as Json, json};
use spec::{Prose, SpecError, Study};

use super::columns::{check_measured, check_predicted};
use super::group::{Group, Stat};
use super::labels::{difference_label, differences};
use super::methods::{FORGETTING, HELD_OUT, Method, are_random};
use super::speeds::Speeds;

/// The heading of the configurations.
const CONFIGURATION: &str = "Configuration";

/// The table to paste.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PasteTable {
    /// The columns after the configuration's.
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Column {
    /// The heading in words, with the unit.
    heading: String,
    /// The frame's column.
    name: String,
    /// True for the figures over the base's.
    of_base: bool,
    #[serde(skip)]
    unit: ByteUnit,
}

/// A configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    /// What differs from the base, by name.
    label: String,
    /// All that differs, for data; empty where the label is a name.
    #[serde(skip)]
    differences: Vec<String>,
    /// How it ended.
    status: String,
    cells: Vec<Cell>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cell {
    text: String,
    #[serde(skip)]
    stat: Option<Stat>,
}

/// What a table is made from.
pub(crate) struct Source<'a> {
    pub groups: &'a [Group],
    pub axes: &'a [String],
    pub speeds: &'a Speeds,
    pub unit: ByteUnit,
    /// The columns of the spec; empty for the usual ones.
    pub columns: &'a [Prose],
    /// True for a report of predictions alone.
    pub is_plan: bool,
}

impl PasteTable {
    /// The table of a report's groups. Rungs of a ladder that were not tried are left out.
    pub(crate) fn new(source: &Source<'_>) -> Self {
        let columns = source.columns();
        let shown = source.groups.iter().filter(|group| group.status != "oversize");
        let base = source
            .groups
            .iter()
            .find(|group| group.baseline)
            .or(source.groups.first());
        // Methods that all have a name of their own go by it.
        let names: BTreeSet<String> = source.groups.iter().map(Method::name_of).collect();
        let have_names = names.len() > 1 && names.len() == source.groups.len();
        let row = |group: &Group| {
            let differences = match have_names {
                true => Vec::new(),
                false => differences(group, base, source.axes),
            };
            Row {
                label: match have_names {
                    true => Method::name_of(group),
                    false => difference_label(&differences),
                },
                differences,
                status: group.status.clone(),
                cells: columns.iter().map(|column| source.cell(column, group, base)).collect(),
            }
        };
        Self {
            rows: shown.map(row).collect(),
            columns,
        }
    }

    /// The figures as data: bytes and seconds, each with its deviation if there is one.
    pub fn data(&self) -> Table {
        let has_deviation = |at: usize| {
            let stat = |row: &Row| row.cells[at].stat.and_then(|stat| stat.deviation);
            self.rows.iter().any(|row| stat(row).is_some())
        };
        let mut names = vec!["configuration".to_owned(), "status".to_owned()];
        for (at, column) in self.columns.iter().enumerate() {
            names.push(column.key());
            if has_deviation(at) {
                names.push(format!("{}_deviation", column.key()));
            }
        }
        let mut table = Table::new(names);
        for row in &self.rows {
            let configuration = match row.differences.is_empty() {
                true => row.label.clone(),
                false => row.differences.join(", "),
            };
            let mut values = vec![json!(configuration), json!(row.status)];
            for (at, cell) in row.cells.iter().enumerate() {
                values.push(cell.stat.map_or(Json::Null, |stat| json!(stat.mean)));
                if has_deviation(at) {
                    values.push(json!(cell.stat.and_then(|stat| stat.deviation)));
                }
            }
            table.rows.push(values);
        }
        table
    }

    /// A `tabular` of LaTeX with the rules of booktabs.
    pub fn latex(&self) -> String {
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let head = std::iter::once(CONFIGURATION).chain(self.columns.iter().map(|column| column.heading.as_str()));
        let mut out = format!("\\begin{{tabular}}{{l{}}}\n\\toprule\n", "r".repeat(self.columns.len()));
        out += &line(head.map(escaped).collect());
        out += "\\midrule\n";
        for row in &self.rows {
            let cells = row.cells.iter().map(|cell| cell.text.as_str());
            out += &line(std::iter::once(row.label.as_str()).chain(cells).map(escaped).collect());
        }
        out += "\\bottomrule\n\\end{tabular}\n";
        out
    }
}

/// A text in which LaTeX means nothing else.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '±' => out += "$\\pm$",
            '×' => out += "$\\times$",
            '<' => out += "$<$",
            '>' => out += "$>$",
            '—' => out += "---",
            c => out.push(c),
        }
    }
    out
}

impl Source<'_> {
    /// The columns of the spec, or the usual ones that have figures.
    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, of_base: bool| Column {
            heading: if of_base {
                "of base".to_owned()
            } else {
                self.heading(name)
            },
            name: name.to_owned(),
            of_base,
            unit: self.unit,
        };
        if !self.columns.is_empty() {
            return self.columns.iter().map(|name| column(name, false)).collect();
        }
        let peak = "allocated_peak_bytes";
        let several = self.groups.len() > 1;
        let mut columns = vec![column(peak, false)];
        columns.extend(several.then(|| column(peak, true)));
        if self.is_plan {
            columns.push(column("reserved_peak_bytes", false));
        } else {
            columns.push(column(self.speeds.of.column, false));
            columns.extend((several && self.speeds.comparable).then(|| column(self.speeds.of.column, true)));
            let is_random = are_random(self.groups);
            let losses = [HELD_OUT, FORGETTING].into_iter().filter(|_| !is_random);
            columns.extend(losses.map(|name| column(name, false)));
        }
        let has_figures = |column: &Column| self.groups.iter().any(|group| self.stat(group, &column.name).is_some());
        columns.retain(has_figures);
        columns
    }

    /// The words of a column, with its unit.
    fn heading(&self, name: &str) -> String {
        let known = [
            ("allocated_peak_bytes", "Peak allocated"),
            ("reserved_peak_bytes", "Peak reserved"),
            ("process_peak_bytes", "Peak of the process"),
            ("tokens_per_second", "Tokens/s"),
            ("real_tokens_per_second", "Real tokens/s"),
            (HELD_OUT, "Held-out loss"),
        ];
        let known = known.into_iter().find(|(column, _)| *column == name);
        let words = || {
            let words = name.trim_end_matches("_bytes").replace('_', " ");
            let mut letters = words.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        };
        let words = known.map_or_else(words, |(_, words)| words.to_owned());
        match dimension(name) {
            Dimension::Memory => format!("{words} ({})", self.unit.name()),
            _ => words,
        }
    }

    fn stat(&self, group: &Group, column: &str) -> Option<Stat> {
        // A planned cell beside cells that ran has predictions alone.
        let is_predicted = self.is_plan || group.cells[0].engine().is_none();
        let stats = if is_predicted { &group.predicted } else { &group.stats };
        let stat = stats.get(column).copied().flatten();
        stat.filter(|stat| stat.mean.is_finite())
    }

    fn cell(&self, column: &Column, group: &Group, base: Option<&Group>) -> Cell {
        let stat = self.stat(group, &column.name);
        let base = base.and_then(|base| self.stat(base, &column.name));
        let stat = match column.of_base {
            false => stat,
            true => stat
                .zip(base)
                .filter(|(_, base)| base.mean != 0.0)
                .map(|(stat, base)| Stat {
                    mean: stat.mean / base.mean,
                    deviation: None,
                    ..stat
                }),
        };
        let text = stat.map_or_else(|| ABSENT.to_owned(), |stat| column.text(stat.into()));
        // What failed says so once.
        let is_first = column.name == "allocated_peak_bytes" && !column.of_base;
        let text = if stat.is_none() && is_first {
            group.status.clone()
        } else {
            text
        };
        Cell { text, stat }
    }
}

impl Column {
    /// Its name in data.
    fn key(&self) -> String {
        match self.of_base {
            true => format!("{}_of_base", self.name),
            false => self.name.clone(),
        }
    }

    /// A figure with its unit, if the heading does not have it.
    fn text(&self, quantity: Quantity) -> String {
        match dimension(&self.name) {
            _ if self.of_base => ratio(quantity),
            Dimension::Memory => bytes_in(quantity, self.unit),
            Dimension::Time => seconds(quantity),
            Dimension::Speed => rate(quantity),
            Dimension::Share => percent(quantity),
            Dimension::Number if self.name.ends_with("_spread") || self.name.starts_with("accuracy") => {
                percent(quantity)
            }
            Dimension::Number if self.name.starts_with("loss") || self.name == FORGETTING => number(quantity, 3),
            Dimension::Number => number(quantity, usize::from(quantity.mean.fract() != 0.0)),
        }
    }
}

/// Makes sure that the study's cells have the columns that its spec asks for.
///
/// # Errors
/// A column that they have not, with its place in the spec.
pub(crate) fn check(study: &Study) -> Result<(), SpecError> {
    for column in &study.report.columns {
        let checked = if study.is_planned() {
            check_predicted(column)
        } else {
            check_measured(column)
        };
        checked.map_err(|mistake| column.origin.mistake_in("", column, mistake))?;
    }
    Ok(())
}
