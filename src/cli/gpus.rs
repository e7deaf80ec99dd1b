//! `expctl list --gpus`.

use serde_json::json;

use super::Format;
use crate::text::Table;
use crate::text::format;
use crate::torch::gpu::{Context, Gpu};

/// The GPUs whose names specs and budgets may have.
pub(super) fn table(format: Format) -> Table {
    match format {
        Format::Table => for_people(),
        Format::Json | Format::Csv => for_programs(),
    }
}

fn for_people() -> Table {
    let mut table = Table::new([
        "gpu",
        "generation",
        "compute capability",
        "GiB by the box",
        "memory by CUDA",
        "source",
        "CUDA context",
    ]);
    table.rows.extend(Gpu::all().iter().map(|gpu| {
        vec![
            json!(gpu.name),
            json!(gpu.capability.architecture().name()),
            json!(gpu.capability.to_string()),
            json!(gpu.nominal_gib),
            json!(format::bytes(gpu.total_bytes.into())),
            json!(gpu.total_source.to_string()),
            json!(gpu.context.map_or_else(|| format::ABSENT.into(), context)),
        ]
    }));
    table
}

fn context(context: Context) -> String {
    format!("{} ({})", format::bytes(context.bytes.into()), context.source)
}

fn for_programs() -> Table {
    let mut table = Table::new([
        "gpu",
        "generation",
        "compute_capability",
        "nominal_gib",
        "total_bytes",
        "total_source",
        "is_estimate",
        "context_bytes",
        "context_source",
    ]);
    table.rows.extend(Gpu::all().iter().map(|gpu| {
        vec![
            json!(gpu.name),
            json!(gpu.capability.architecture().name()),
            json!(gpu.capability.to_string()),
            json!(gpu.nominal_gib),
            json!(gpu.total_bytes),
            json!(gpu.total_source.to_string()),
            json!(gpu.total_source.is_estimate()),
            json!(gpu.context.map(|context| context.bytes)),
            json!(gpu.context.map(|context| context.source)),
        ]
    }));
    table
}
