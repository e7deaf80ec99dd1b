//! `expctl list --gpus`.

use base::text::Table;
use base::text::format;
use serde_json::{Value, json};
use torch::gpu::{Context, Gpu};

use super::Format;

/// A column: its name, and its value of a GPU.
type Column = (&'static str, fn(&Gpu) -> Value);

/// The GPUs whose names specs and budgets may have.
pub(super) fn table(format: Format) -> Table {
    let columns: Vec<Column> = match format {
        Format::Table => vec![
            ("gpu", name),
            ("generation", generation),
            ("compute capability", capability),
            ("GiB by the box", nominal_gib),
            ("memory by CUDA", |gpu| json!(format::bytes(gpu.total_bytes.into()))),
            ("source", source),
            ("CUDA context", |gpu| json!(context(Context::on(Some(gpu))))),
        ],
        Format::Json | Format::Csv => vec![
            ("gpu", name),
            ("generation", generation),
            ("compute_capability", capability),
            ("nominal_gib", nominal_gib),
            ("total_bytes", |gpu| json!(gpu.total_bytes)),
            ("total_source", source),
            ("is_estimate", |gpu| json!(gpu.total_source.is_estimate())),
            ("context_bytes", |gpu| json!(Context::on(Some(gpu)).likely)),
            ("context_low_bytes", |gpu| json!(Context::on(Some(gpu)).low)),
            ("context_high_bytes", |gpu| json!(Context::on(Some(gpu)).high)),
            ("context_source", |gpu| json!(Context::on(Some(gpu)).source)),
        ],
    };
    let mut table = Table::new(columns.iter().map(|(name, _)| *name));
    let row = |gpu: &Gpu| columns.iter().map(|(_, value)| value(gpu)).collect();
    table.rows.extend(Gpu::all().iter().map(row));
    table
}

fn name(gpu: &Gpu) -> Value {
    json!(gpu.name)
}

fn generation(gpu: &Gpu) -> Value {
    json!(gpu.capability.architecture().name())
}

fn capability(gpu: &Gpu) -> Value {
    json!(gpu.capability.to_string())
}

fn nominal_gib(gpu: &Gpu) -> Value {
    json!(gpu.nominal_gib)
}

fn source(gpu: &Gpu) -> Value {
    json!(gpu.total_source.to_string())
}

fn context(context: Context) -> String {
    match context.source {
        Some(source) => format!("{} ({source})", format::bytes(context.likely.into())),
        None => {
            let [low, likely, high] =
                [context.low, context.likely, context.high].map(|bytes| format::bytes(bytes.into()));
            format!("{likely}, {low} to {high} (an estimate)")
        }
    }
}
