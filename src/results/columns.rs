//! The frame's columns: their names, types and sources.

use serde_json::Value as Json;

use super::datum::Datum;
use super::prediction::{Prediction, Verdict};
use super::record::{Measured, Oom, Profile, Record};
use crate::memory::{Category, Phase};
use crate::options::ByteSize;
use crate::spec::cell::{
    Allocator, AllocatorBackend, Cell, Checkpointing, Data, Measure, Optimizer, TargetModules, Torch, Weights,
};
use crate::text::Dimension;

/// The type of a column. It does not depend on the values, so that frames of different studies have the same types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number, signed in the frame, so that differences of two columns do not wrap.
    Int,
    /// The whole range of a u64, for seeds.
    Unsigned,
    /// Any number.
    Float,
    /// Text.
    Text,
}

/// The columns that identify a row. They come before the keys of the cell.
pub const IDENTITY: [(&str, Kind); 5] = [
    ("cell_id", Kind::Text),
    ("group_id", Kind::Text),
    ("status", Kind::Text),
    ("attempt", Kind::Int),
    ("seed", Kind::Unsigned),
];

/// A column that records fill.
pub struct Outcome {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub kind: Kind,
    /// The value of a record.
    pub value: Box<dyn Fn(&Record) -> Datum>,
}

fn outcome<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Record) -> T + 'static) -> Outcome {
    Outcome {
        name: name.to_string(),
        kind,
        value: Box::new(move |record| value(record).into()),
    }
}

fn measured<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Measured) -> T + 'static) -> Outcome {
    outcome(name, kind, move |record| record.measured.as_ref().map(&value))
}

fn profile<T: Into<Datum>>(component: &str, value: impl Fn(&Profile) -> T + 'static) -> Outcome {
    measured(&profile_column(component), Kind::Int, move |measured| {
        measured.profile.as_ref().map(&value)
    })
}

fn oom<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Oom) -> T + 'static) -> Outcome {
    outcome(name, kind, move |record| record.oom.as_ref().map(&value))
}

/// The columns that records fill, in the frame's order. They follow the keys of the cell.
pub fn outcomes() -> Vec<Outcome> {
    use Kind::{Float, Int, Text};
    let mut columns = vec![
        measured("loss_first", Float, |m| m.loss_first),
        measured("loss_last", Float, |m| m.loss_last),
        measured("loss_eval", Float, |m| m.loss_eval),
        measured("accuracy_eval", Float, |m| m.accuracy_eval),
        measured("steps", Int, |m| m.steps),
        measured("tokens", Int, |m| m.tokens),
        measured("step_seconds_median", Float, |m| m.step_seconds_median),
        measured("tokens_per_second", Float, |m| m.tokens_per_second),
        measured("train_seconds", Float, |m| m.train_seconds),
        measured("load_seconds", Float, |m| m.load_seconds),
        outcome("wall_seconds", Float, |r| r.wall_seconds),
        measured("allocated_peak_bytes", Int, |m| m.allocated_peak_bytes),
        measured("reserved_peak_bytes", Int, |m| m.reserved_peak_bytes),
        measured("process_peak_bytes", Int, |m| m.process_peak_bytes),
        measured("allocated_peak_phase", Text, |m| m.allocated_peak_phase.clone()),
    ];
    for category in Category::ALL.map(Category::name) {
        columns.push(measured(&category_column(category), Int, move |m| {
            m.allocated_peak_by_category.get(category).copied()
        }));
    }
    for phase in Phase::ALL.map(Phase::name) {
        columns.push(measured(&phase_column(phase), Int, move |m| {
            m.allocated_peak_in_phase.get(phase).copied()
        }));
    }
    columns.extend([
        measured("process_peak_total_bytes", Int, |m| m.process_peak_total_bytes),
        measured("allocated_mean_bytes", Int, |m| m.allocated_mean_bytes),
        profile("parameter", |p| p.parameter_bytes),
        profile("adapter", |p| p.adapter_bytes),
        profile("optimizer_state", |p| p.optimizer_state_bytes),
        profile("activation", |p| p.activation_bytes),
        profile("gradient", |p| p.gradient_bytes),
        profile("total", |p| p.total_bytes),
        profile("allocated", |p| p.allocated_bytes),
        profile("peak", |p| p.peak_bytes),
        measured("page_faults", Int, |m| m.page_faults),
        measured("page_faults_per_step_median", Float, |m| m.page_faults_per_step_median),
        measured("parameter_count", Int, |m| m.parameter_count),
        measured("trainable_count", Int, |m| m.trainable_count),
        measured("adapter_file_bytes", Int, |m| m.adapter_file_bytes),
        outcome("machine_cpu", Text, |r| r.provenance.machine.cpu.clone()),
        outcome("machine_cores", Int, |r| r.provenance.machine.cores),
        outcome("machine_memory_bytes", Int, |r| r.provenance.machine.memory_bytes),
        outcome("machine_os", Text, |r| r.provenance.machine.os.clone()),
        outcome("environment", Text, |r| {
            Datum::flow(&serde_json::json!(r.provenance.environment))
        }),
        outcome("data_sha256", Text, |r| r.provenance.data_sha256.clone()),
        outcome("started_at", Text, |r| r.started_at.clone()),
        outcome("expctl_version", Text, |r| r.provenance.expctl_version.clone()),
        outcome("git_commit", Text, |r| r.provenance.git_commit.clone()),
        outcome("reason", Text, |r| r.reason.clone()),
        outcome("timeout_seconds", Float, |r| r.timeout_seconds),
        oom("oom_phase", Text, |o| o.phase.clone()),
        oom("oom_category", Text, |o| o.category.clone()),
        oom("oom_requested_bytes", Int, |o| o.requested_bytes),
        oom("oom_allocated_bytes", Int, |o| o.allocated_bytes),
        oom("oom_budget_bytes", Int, |o| o.budget_bytes),
    ]);
    columns
}

/// The prefix of predicted columns. The rest of the name is the measured column's.
pub const PREDICTED: &str = "predicted_";

/// A column that predictions fill.
pub struct Predicted {
    /// The column's name, with its prefix.
    pub name: String,
    /// The column's type.
    pub kind: Kind,
    /// The value of a prediction.
    pub value: Box<dyn Fn(&Prediction) -> Datum>,
}

/// The columns that predictions fill, in the frame's order. They follow the outcome.
pub fn predictions() -> Vec<Predicted> {
    use Kind::{Int, Text};
    fn predicted<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Prediction) -> T + 'static) -> Predicted {
        Predicted {
            name: format!("{PREDICTED}{name}"),
            kind,
            value: Box::new(move |prediction| value(prediction).into()),
        }
    }
    let mut columns = vec![
        predicted("verdict", Text, |p| p.verdict.map(Verdict::name)),
        predicted("budget_bytes", Int, |p| p.budget_bytes),
        predicted("needed_bytes", Int, |p| p.needed_bytes),
        predicted("binding_phase", Text, |p| p.binding_phase.clone()),
        predicted("binding_module", Text, |p| p.binding_module.clone()),
        predicted("allocated_peak_bytes", Int, |p| p.allocated_peak_bytes),
        predicted("reserved_peak_bytes", Int, |p| p.reserved_peak_bytes),
        predicted("process_peak_bytes", Int, |p| p.process_peak_bytes),
        predicted("fragmentation_bytes", Int, |p| p.fragmentation_bytes),
        predicted("segments", Int, |p| p.segments),
    ];
    for category in Category::ALL.into_iter().filter(|category| category.is_tensor()) {
        let category = category.name();
        columns.push(predicted(&category_column(category), Int, move |p| {
            p.allocated_peak_by_category.get(category).copied()
        }));
    }
    for phase in Phase::ALL.map(Phase::name) {
        columns.push(predicted(&phase_column(phase), Int, move |p| {
            p.allocated_peak_in_phase.get(phase).copied()
        }));
    }
    columns.extend([
        predicted("allocated_mean_bytes", Int, |p| p.allocated_mean_bytes),
        predicted("parameter_count", Int, |p| p.parameter_count),
        predicted("trainable_count", Int, |p| p.trainable_count),
        predicted("adapter_file_bytes", Int, |p| p.adapter_file_bytes),
    ]);
    columns
}

/// The column of a category's live bytes at the instant of the peak.
pub fn category_column(category: &str) -> String {
    format!("allocated_peak_{category}_bytes")
}

/// The column of a profile's figure: a component, their `total`, `allocated` after the backward pass, or the `peak`.
pub fn profile_column(figure: &str) -> String {
    format!("profile_{figure}_bytes")
}

/// The column of the highest live bytes within a phase.
pub fn phase_column(phase: &str) -> String {
    format!("allocated_peak_in_{phase}_bytes")
}

/// The dimension of a column of numbers, by its name.
pub fn dimension(column: &str) -> Dimension {
    if column.ends_with("_bytes") {
        Dimension::Memory
    } else if column.contains("seconds") {
        Dimension::Time
    } else if column.ends_with("_per_second") {
        Dimension::Speed
    } else {
        Dimension::Number
    }
}

/// The keys of a cell as columns, in the spec's order and with dotted names for maps. A key that is left out has the value
/// that its default comes to. `device_memory` is in bytes.
pub fn keys(cell: &Cell) -> Vec<(String, Datum)> {
    let mut resolved = cell.clone();
    resolved.weights = Some(cell.weights());
    resolved.lora_alpha = (cell.rank > 0).then(|| cell.lora_alpha());
    resolved.max_steps = cell.max_steps().filter(|_| cell.measure == Measure::Epoch);
    let is_low_rank = cell.optim.is_low_rank();
    resolved.optim_rank = is_low_rank.then(|| cell.optim_rank());
    resolved.update_proj_gap = is_low_rank.then(|| cell.update_proj_gap());
    resolved.galore_scale = (cell.optim == Optimizer::Galore).then(|| cell.galore_scale());
    resolved.allocator.backend = Some(cell.backend());
    let mut columns = Vec::new();
    for ((name, shape), (_, value)) in exemplar().to_map().iter().zip(resolved.to_map()) {
        match value {
            _ if name == "device_memory" => {
                columns.push((name.clone(), cell.device_memory.map(|size| size.0).into()));
            }
            Json::Object(map) if shape.is_object() => dotted(name, map, &mut columns),
            value => columns.push((name.clone(), value.into())),
        }
    }
    columns
}

/// The keys of a cell with the type of their column; `None` for a map of free names, whose entries are columns of text.
pub fn key_kinds() -> Vec<(String, Option<Kind>)> {
    let kind = |(name, value): (String, Json)| {
        let kind = match value {
            _ if name == "device_memory" => Some(Kind::Int),
            _ if name == "seed" => Some(Kind::Unsigned),
            Json::Object(_) => None,
            Json::Bool(_) => Some(Kind::Bool),
            Json::Number(number) if number.is_f64() => Some(Kind::Float),
            Json::Number(_) => Some(Kind::Int),
            _ => Some(Kind::Text),
        };
        (name, kind)
    };
    let flat = |(name, value): (String, Json)| match value {
        // The exemplar has all names of a map of known names.
        Json::Object(map) if !map.is_empty() => map
            .into_iter()
            .map(|(key, value)| (format!("{name}.{key}"), value))
            .collect(),
        value => vec![(name, value)],
    };
    exemplar().to_map().into_iter().flat_map(flat).map(kind).collect()
}

/// A cell in which every optional key has a value and every choice has its short form. It shows the columns' types.
fn exemplar() -> Cell {
    Cell {
        weights: Some(Weights::Random),
        lora_alpha: Some(32.0),
        target_modules: TargetModules::AllLinear,
        gradient_checkpointing: Checkpointing::None,
        max_steps: Some(1),
        num_train_epochs: Some(1.0),
        optim_rank: Some(4),
        update_proj_gap: Some(200),
        galore_scale: Some(0.25),
        data: Data::Sample,
        gpu: Some(String::new()),
        torch: Torch {
            use_reentrant: Some(true),
            transformers_version: Some(String::new()),
            bitsandbytes_version: Some(String::new()),
            torch_version: Some(String::new()),
            ..Torch::default()
        },
        threads: Some(1),
        device_memory: Some(ByteSize(0)),
        allocator: Allocator {
            backend: Some(AllocatorBackend::DEFAULT),
            ..Allocator::default()
        },
        ..Cell::default()
    }
}

fn dotted(prefix: &str, map: serde_json::Map<String, Json>, columns: &mut Vec<(String, Datum)>) {
    for (key, value) in map {
        let name = format!("{prefix}.{key}");
        match value {
            Json::Object(map) => dotted(&name, map, columns),
            value => columns.push((name, value.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_key_has_a_type() {
        for (name, value) in exemplar().to_map() {
            let open = value.is_null() || value.as_object().is_some_and(|map| map.values().any(Json::is_null));
            assert!(!open, "the exemplar leaves `{name}` open");
        }
        let kinds: BTreeMap<_, _> = key_kinds().into_iter().collect();
        assert_eq!(kinds["allocator.backend"], Some(Kind::Text));
        assert_eq!((kinds["allocator.env"], kinds["env"]), (None, None));
    }

    #[test]
    fn maps_are_dotted_and_choices_are_flow_text() {
        let mut cell = Cell {
            gradient_checkpointing: Checkpointing::Every(2),
            target_modules: TargetModules::Names(vec!["q_proj".into(), "v_proj".into()]),
            device_memory: Some(ByteSize(2 << 30)),
            ..Cell::default()
        };
        cell.allocator.env.insert("MALLOC_ARENA_MAX".into(), Some("1".into()));
        cell.env.insert("EMPTY".into(), None);
        let columns: BTreeMap<_, _> = keys(&cell).into_iter().collect();
        assert_eq!(columns["gradient_checkpointing"], Datum::from("{every: 2}"));
        assert_eq!(columns["target_modules"], Datum::from("[q_proj, v_proj]"));
        assert_eq!(columns["allocator.env.MALLOC_ARENA_MAX"], Datum::from("1"));
        assert_eq!(
            columns["allocator.backend"],
            Datum::from(AllocatorBackend::DEFAULT.name())
        );
        assert_eq!(columns["env.EMPTY"], Datum::Null);
        assert_eq!(columns["device_memory"], Datum::Int(2 << 30));
        assert_eq!(columns["lora_alpha"], Datum::Float(32.0));
        assert_eq!(columns["threads"], Datum::Null);
    }

    #[test]
    fn outcomes_take_no_name_of_a_key() {
        let keys: Vec<String> = key_kinds().into_iter().map(|(name, _)| name).collect();
        for column in outcomes() {
            assert!(!keys.contains(&column.name), "{}", column.name);
        }
    }

    #[test]
    fn every_measured_column_has_its_dimension() {
        let of = |wanted| {
            let numbers = outcomes()
                .into_iter()
                .filter(|outcome| matches!(outcome.kind, Kind::Int | Kind::Float));
            numbers
                .map(|outcome| outcome.name)
                .filter(move |column| dimension(column) == wanted)
        };
        assert!(of(Dimension::Memory).count() > 10);
        assert_eq!(of(Dimension::Speed).collect::<Vec<_>>(), ["tokens_per_second"]);
        assert!(of(Dimension::Time).all(|column| column.contains("seconds")));
        assert!(of(Dimension::Number).any(|column| column == "loss_last"));
    }
}
