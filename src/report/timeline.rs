//! The timelines of a report: the curve of a recorded step, its peaks, and the tensors saved for the backward pass. One
//! cell represents each group.

use indexmap::IndexMap;
use serde::Serialize;

use super::entry::Entry;
use super::group::Group;
use crate::memory::{Category, Phase};
use crate::results::timeline::module_pattern;
use crate::text::format::{self, ByteUnit};

/// A recorded cell, for templates.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    /// The cell's id.
    pub cell_id: String,
    /// The label of its group.
    pub label: String,
    /// The text of each axis' value.
    pub axes: IndexMap<String, String>,
    /// The argument of `chart`.
    pub chart: String,
    /// The steady step, from 1.
    pub step: u64,
    /// The step's duration.
    pub seconds: f64,
    /// Every recorded step with its peak.
    pub steps: Vec<StepPeak>,
    /// True if the cell's own peak is in a recorded step.
    pub has_peak: bool,
    /// The number of lost events if the recording is incomplete; 0 if its process ended first.
    pub lost: Option<u64>,
    /// The prominent peaks.
    pub peaks: Vec<PeakGroup>,
    /// The tensors saved for the backward pass.
    pub kept: SavedTensors,
    /// The label of an earlier timeline that saves the same tensors.
    pub keeps_as: Option<String>,
    #[serde(skip)]
    curve: Vec<CurvePoint>,
    #[serde(skip)]
    budget: Option<f64>,
}

/// The peak of a recorded step.
#[derive(Debug, Serialize)]
pub(crate) struct StepPeak {
    /// From 1.
    pub step: u64,
    /// Live tensor bytes.
    pub bytes: f64,
}

/// The prominent peaks of one phase and one kind of module, with the details of the highest.
#[derive(Debug, Serialize)]
pub(crate) struct PeakGroup {
    /// From 1, in the order of the first peak of each group.
    pub number: usize,
    /// The number of peaks.
    pub count: usize,
    /// The trainer's phase.
    pub phase: String,
    /// The pattern of the modules: `model.layers.*.mlp`.
    pub module: String,
    /// The time since the step began.
    pub seconds: f64,
    /// The height of the highest peak.
    pub bytes: f64,
    /// The height of the lowest peak.
    pub lowest_bytes: f64,
    /// The prominence of the highest peak.
    pub prominence_bytes: f64,
    /// Live bytes of each category.
    pub live: IndexMap<String, f64>,
    /// The modules that hold the most, the largest first.
    pub parts: Vec<ModuleUsage>,
}

/// The memory of a kind of module in a category; the rest has neither.
#[derive(Debug, Serialize)]
pub(crate) struct ModuleUsage {
    /// The category's name.
    pub category: Option<String>,
    /// The pattern of the modules.
    pub module: Option<String>,
    /// The number of allocations.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// The memory that is live at the end of the forward pass.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct SavedTensors {
    /// The number of tensors that the backward pass reads: activations and inputs.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
    /// The bytes of activations alone.
    pub activation_bytes: f64,
    /// The bytes of the base model and the adapters.
    pub parameter_bytes: f64,
    /// The tensors that the backward pass reads by dtype, the largest sum first. Memory that a tensor keeps besides its
    /// elements has neither dtype nor shape.
    pub dtypes: Vec<TensorGroup>,
    /// The same tensors by dtype and shape.
    pub shapes: Vec<TensorGroup>,
    /// The same tensors by module.
    pub modules: Vec<TensorGroup>,
}

/// Tensors with the same values of the fields that are not `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TensorGroup {
    /// Such as `float32`.
    pub dtype: Option<String>,
    /// Such as `[2048, 576]`.
    pub shape: Option<String>,
    /// The pattern of the modules.
    pub module: Option<String>,
    /// The number of tensors.
    pub count: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// An instant of the curve.
#[derive(Debug, Clone, PartialEq)]
struct CurvePoint {
    /// The time since the step began.
    seconds: f64,
    phase: String,
    /// Live bytes of each of [`tensor_categories`].
    live: Vec<f64>,
}

/// All categories but host, in the order of a chart: persistent memory lies below temporary memory.
fn tensor_categories() -> impl Iterator<Item = Category> {
    Category::ALL.into_iter().filter(|category| category.is_tensor())
}

/// The first recorded cell of each group.
pub(crate) fn timelines(groups: &[Group], rows: &[Entry]) -> Vec<Timeline> {
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
    let curve: Vec<CurvePoint> = of_kind("curve").map(moment).collect();
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

/// The argument of `chart` for a cell's curve.
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

fn moment(row: &Entry) -> CurvePoint {
    CurvePoint {
        seconds: bytes(row, "seconds"),
        phase: row.text("phase").unwrap_or_default().to_owned(),
        live: live(row).map(|(_, bytes)| bytes).collect(),
    }
}

fn peaks(rows: &[&Entry], parts: &[&Entry]) -> Vec<PeakGroup> {
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
        Some(PeakGroup {
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
                .map(|row| ModuleUsage {
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

fn kept(rows: &[&Entry]) -> SavedTensors {
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
        let mut together: IndexMap<Vec<Option<String>>, TensorGroup> = IndexMap::new();
        for row in &read {
            let [dtype, shape, module] =
                ["dtype", "shape", "module"].map(|column| text(row, column).filter(|_| columns.contains(&column)));
            let key = vec![dtype.clone(), shape.clone(), module.clone()];
            let tensors = together.entry(key).or_insert(TensorGroup {
                dtype,
                shape,
                module,
                count: 0.0,
                bytes: 0.0,
            });
            tensors.count += bytes(row, "count");
            tensors.bytes += bytes(row, "bytes");
        }
        let mut all: Vec<TensorGroup> = together.into_values().collect();
        all.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        all
    };
    SavedTensors {
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
    /// The explanation of a label of several values.
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
    pub(crate) fn area(&self, unit: ByteUnit) -> super::chart::StackedArea {
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
