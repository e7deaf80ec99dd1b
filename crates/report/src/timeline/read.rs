//! Reads timelines from their frame.

use indexmap::IndexMap;
use results::timeline::module_pattern;
use trace::Category;

use super::view::{
    CurvePoint, ModuleUsage, PeakGroup, SavedTensors, StepPeak, TensorGroup, Timeline, tensor_categories,
};
use crate::entry::Entry;
use crate::group::Group;

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
