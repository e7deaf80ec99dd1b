//! What a report says of a recorded step: its curve, its peaks, and what the backward pass keeps. From the frame of
//! timelines, a cell for each group.

use indexmap::IndexMap;
use serde::Serialize;

use super::entry::Entry;
use super::group::Group;
use crate::memory::{Category, Phase};
use crate::results::timeline::module_pattern;
use crate::text::format::{self, ByteUnit};

/// A recorded cell, for templates.
#[derive(Debug, Serialize)]
pub struct Timeline {
    pub cell_id: String,
    /// The label of its group.
    pub label: String,
    /// Value of each axis as people read it.
    pub axes: IndexMap<String, String>,
    /// What `chart` takes.
    pub chart: String,
    /// The step that is looked at.
    pub step: u64,
    /// How long it took.
    pub seconds: f64,
    /// Every recorded step with its highest point.
    pub steps: Vec<StepPeak>,
    /// Whether the cell's own peak is that of a recorded step.
    pub has_peak: bool,
    /// Events that were lost, where the recording is not whole; 0 where its process ended first.
    pub lost: Option<u64>,
    pub peaks: Vec<Peaks>,
    pub kept: Kept,
    /// The label of an earlier one that keeps the same.
    pub keeps_as: Option<String>,
    #[serde(skip)]
    curve: Vec<Moment>,
    #[serde(skip)]
    budget: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct StepPeak {
    pub step: u64,
    pub bytes: f64,
}

/// Prominent peaks of one phase and one kind of module, of which the highest is told in full.
#[derive(Debug, Serialize)]
pub struct Peaks {
    /// From 1, in the order of the first of each.
    pub number: usize,
    /// How many there are.
    pub count: usize,
    pub phase: String,
    /// Blocks together: `model.layers.*.mlp`.
    pub module: String,
    /// Since the step began.
    pub seconds: f64,
    pub bytes: f64,
    pub lowest_bytes: f64,
    pub prominence_bytes: f64,
    /// Live bytes of each category.
    pub live: IndexMap<String, f64>,
    /// What held the most, the largest first.
    pub parts: Vec<Part>,
}

/// What a kind of module holds in a category; the rest has neither.
#[derive(Debug, Serialize)]
pub struct Part {
    pub category: Option<String>,
    pub module: Option<String>,
    pub count: f64,
    pub bytes: f64,
}

/// What is live at the end of the forward pass.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Kept {
    /// Tensors that the backward pass reads: activations and inputs.
    pub count: f64,
    pub bytes: f64,
    pub activation_bytes: f64,
    /// The base model and the adapters.
    pub parameter_bytes: f64,
    /// Of the tensors that the backward pass reads, the largest sum first; what a tensor keeps beside its elements has
    /// neither dtype nor shape.
    pub dtypes: Vec<Tensors>,
    pub shapes: Vec<Tensors>,
    pub modules: Vec<Tensors>,
}

/// Tensors that have what is not none in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tensors {
    pub dtype: Option<String>,
    pub shape: Option<String>,
    pub module: Option<String>,
    pub count: f64,
    pub bytes: f64,
}

/// An instant of the curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    pub seconds: f64,
    pub phase: String,
    /// Bytes of each of [`tensor_categories`].
    pub live: Vec<f64>,
}

/// All categories but host, in the order in which a chart stacks them: what stays lies below what comes and goes.
pub fn tensor_categories() -> impl Iterator<Item = Category> {
    Category::ALL.into_iter().filter(|category| category.is_tensor())
}

/// The first recorded cell of each group.
pub fn timelines(groups: &[Group], rows: &[Entry]) -> Vec<Timeline> {
    let of_group = |group: &Group| {
        let recorded = |cell: &&Entry| {
            let id = cell.text("cell_id");
            id.is_some()
                && rows
                    .iter()
                    .any(|row| row.text("cell_id") == id && row.text("kind") == Some("curve"))
        };
        group.cells.iter().find(recorded).map(|cell| of_cell(group, cell, rows))
    };
    let mut timelines: Vec<Timeline> = Vec::new();
    for mut timeline in groups.iter().filter_map(of_group) {
        let same = timelines.iter().find(|other| other.kept == timeline.kept);
        timeline.keeps_as = same.map(|other| other.label.clone());
        timelines.push(timeline);
    }
    timelines
}

fn of_cell(group: &Group, cell: &Entry, rows: &[Entry]) -> Timeline {
    let cell_id = cell.text("cell_id").unwrap_or_default();
    let mine: Vec<&Entry> = rows.iter().filter(|row| row.text("cell_id") == Some(cell_id)).collect();
    let of_kind = |kind: &'static str| mine.iter().copied().filter(move |row| row.text("kind") == Some(kind));
    let steps: Vec<StepPeak> = of_kind("step")
        .map(|row| StepPeak {
            step: row.get("step").as_int().unwrap_or_default(),
            bytes: bytes(row, "bytes"),
        })
        .collect();
    let curve: Vec<Moment> = of_kind("curve").map(moment).collect();
    let peak = cell.number("allocated_peak_bytes");
    Timeline {
        cell_id: cell_id.to_owned(),
        label: group.label.clone(),
        axes: group.axes.clone(),
        chart: chart_name(cell_id),
        step: of_kind("curve")
            .find_map(|row| row.get("step").as_int())
            .unwrap_or_default(),
        seconds: curve.last().map_or(0.0, |moment| moment.seconds),
        has_peak: steps.iter().any(|step| Some(step.bytes) == peak),
        lost: of_kind("end").find_map(|row| row.get("count").as_int()),
        peaks: peaks(
            &of_kind("peak").collect::<Vec<_>>(),
            &of_kind("part").collect::<Vec<_>>(),
        ),
        kept: kept(&of_kind("kept").collect::<Vec<_>>()),
        keeps_as: None,
        budget: cell.number("device_memory"),
        steps,
        curve,
    }
}

/// The name that `chart` knows a cell's curve by.
fn chart_name(cell_id: &str) -> String {
    format!("step {cell_id}")
}

fn bytes(row: &Entry, column: &str) -> f64 {
    row.number(column).unwrap_or_default()
}

fn text(row: &Entry, column: &str) -> Option<String> {
    row.text(column).map(str::to_owned)
}

fn live(row: &Entry) -> impl Iterator<Item = (Category, f64)> + '_ {
    tensor_categories().map(|category| (category, bytes(row, &format!("{}_bytes", category.name()))))
}

fn moment(row: &Entry) -> Moment {
    Moment {
        seconds: bytes(row, "seconds"),
        phase: row.text("phase").unwrap_or_default().to_owned(),
        live: live(row).map(|(_, bytes)| bytes).collect(),
    }
}

fn peaks(rows: &[&Entry], parts: &[&Entry]) -> Vec<Peaks> {
    let mut together: IndexMap<(String, String), Vec<&Entry>> = IndexMap::new();
    for row in rows {
        let module = module_pattern(row.text("module").unwrap_or_default());
        let phase = row.text("phase").unwrap_or_default().to_owned();
        together.entry((phase, module)).or_default().push(row);
    }
    let one = |(number, ((phase, module), alike)): (usize, ((String, String), Vec<&Entry>))| {
        let height = |row: &&&Entry| bytes(row, "bytes");
        let highest = alike.iter().max_by(|a, b| height(a).total_cmp(&height(b)))?;
        let part = |row: &&&Entry| row.get("peak") == highest.get("peak");
        Some(Peaks {
            number,
            count: alike.len(),
            phase,
            module,
            seconds: bytes(highest, "seconds"),
            bytes: bytes(highest, "bytes"),
            lowest_bytes: alike
                .iter()
                .map(|row| bytes(row, "bytes"))
                .fold(f64::INFINITY, f64::min),
            prominence_bytes: bytes(highest, "prominence_bytes"),
            live: live(highest)
                .map(|(category, bytes)| (category.name().to_owned(), bytes))
                .collect(),
            parts: parts
                .iter()
                .filter(part)
                .map(|row| Part {
                    category: text(row, "category"),
                    module: text(row, "module"),
                    count: bytes(row, "count"),
                    bytes: bytes(row, "bytes"),
                })
                .collect(),
        })
    };
    (1..).zip(together).filter_map(one).collect()
}

fn kept(rows: &[&Entry]) -> Kept {
    let of = |names: &[Category]| {
        let names: Vec<&str> = names.iter().map(|category| category.name()).collect();
        rows.iter()
            .copied()
            .filter(|row| row.text("category").is_some_and(|category| names.contains(&category)))
            .collect::<Vec<_>>()
    };
    let sum = |rows: &[&Entry], column: &str| rows.iter().map(|row| bytes(row, column)).sum::<f64>();
    let read = of(&[Category::Activation, Category::Input]);
    let by = |columns: &[&str]| {
        let mut together: IndexMap<Vec<Option<String>>, Tensors> = IndexMap::new();
        for row in &read {
            let [dtype, shape, module] =
                ["dtype", "shape", "module"].map(|column| text(row, column).filter(|_| columns.contains(&column)));
            let key = vec![dtype.clone(), shape.clone(), module.clone()];
            let tensors = together.entry(key).or_insert(Tensors {
                dtype,
                shape,
                module,
                count: 0.0,
                bytes: 0.0,
            });
            tensors.count += bytes(row, "count");
            tensors.bytes += bytes(row, "bytes");
        }
        let mut all: Vec<Tensors> = together.into_values().collect();
        all.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        all
    };
    Kept {
        count: sum(&read, "count"),
        bytes: sum(&read, "bytes"),
        activation_bytes: sum(&of(&[Category::Activation]), "bytes"),
        parameter_bytes: sum(&of(&[Category::Parameter, Category::Adapter]), "bytes"),
        dtypes: by(&["dtype"]),
        shapes: by(&["dtype", "shape"]),
        modules: by(&["module"]),
    }
}

impl Timeline {
    /// What a label of several values is made of.
    fn labelled(&self) -> String {
        let names: Vec<&str> = self
            .axes
            .keys()
            .map(|axis| axis.rsplit('.').next().unwrap_or(axis))
            .collect();
        match names.len() {
            0 | 1 => String::new(),
            _ => format!(" Label: {}.", names.join(" · ")),
        }
    }

    /// Live bytes by category over the step.
    pub fn area(&self, unit: ByteUnit) -> super::chart::StackedArea {
        let used: Vec<usize> = (0..tensor_categories().count())
            .filter(|&at| self.curve.iter().any(|moment| moment.live[at] > 0.0))
            .collect();
        let categories: Vec<Category> = tensor_categories().collect();
        let moments = self.curve.iter().map(|moment| {
            let parts = used.iter().map(|&at| moment.live[at] / unit.bytes()).collect();
            (moment.seconds * 1e3, parts)
        });
        let mut phases: Vec<(f64, String)> = Vec::new();
        for moment in &self.curve {
            if phases.last().is_none_or(|(_, phase)| *phase != moment.phase) {
                phases.push((moment.seconds * 1e3, moment.phase.clone()));
            }
        }
        super::chart::StackedArea {
            title: format!("Live tensor bytes over step {}: {}", self.step, self.label),
            subtitle: format!("Numbers are those of the table of peaks.{}", self.labelled()),
            x_title: "Time since the step began (ms)".into(),
            y_title: format!("Allocated ({})", unit.name()),
            legend: used
                .iter()
                .map(|&at| (categories[at].name().replace('_', " "), categories[at]))
                .collect(),
            moments: moments.collect(),
            phases: phases
                .into_iter()
                .filter(|(_, phase)| phase != Phase::Idle.name())
                .collect(),
            budget: self.budget.map(|budget| {
                (
                    budget / unit.bytes(),
                    format!("budget {}", format::bytes(budget.into())),
                )
            }),
            marks: self
                .peaks
                .iter()
                .map(|peak| (peak.seconds * 1e3, peak.bytes / unit.bytes(), peak.number.to_string()))
                .collect(),
        }
    }
}
