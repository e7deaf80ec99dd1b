//! The origin of a plan: the program, the releases and the GPUs that were planned for.

use results::datum::Datum;
use serde::Serialize;
use torch::TODAY_SINCE;
use torch::gpu::{Context, Gpu};

use super::entry::Entry;
use super::value_count::{ValueCount, counted};

/// The origin of a plan.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Planned {
    /// The version of expctl.
    pub expctl_version: &'static str,
    /// For each library of PyTorch's stack its releases; empty for our trainer's.
    pub releases: Vec<Releases>,
    /// The GPUs that cells name, each once.
    pub gpus: Vec<PlannedGpu>,
    /// The data of the cells.
    pub data: Vec<ValueCount>,
}

/// The planned releases of a library.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Releases {
    /// The library.
    pub name: &'static str,
    /// Its releases, with the number of cells.
    pub values: Vec<ValueCount>,
}

/// A GPU that a plan is for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedGpu {
    pub name: &'static str,
    /// Its memory as CUDA reports it.
    pub total_bytes: u64,
    /// The source of that figure.
    pub total_source: String,
    /// A process before its first tensor.
    pub context_bytes: u64,
    /// The source of that figure; `None` for an estimate.
    pub context_source: Option<&'static str>,
}

/// The origin of a frame of predictions; `None` if one of its cells has a record.
pub(crate) fn planned(cells: &[Entry]) -> Option<Planned> {
    if cells.is_empty() || cells.iter().any(Entry::ran) {
        return None;
    }
    let mut gpus: Vec<PlannedGpu> = Vec::new();
    let world_size = cells
        .iter()
        .filter_map(|cell| cell.number("world_size"))
        .fold(1.0, f64::max) as usize;
    for gpu in cells.iter().filter_map(|cell| Gpu::named(cell.text("gpu")?).ok()) {
        let context = Context::of(Some(gpu), world_size);
        if gpus.iter().all(|known| known.name != gpu.name) {
            gpus.push(PlannedGpu {
                name: gpu.name,
                total_bytes: gpu.total_bytes,
                total_source: gpu.total_source.to_string(),
                context_bytes: context.likely,
                context_source: context.source,
            });
        }
    }
    let torch: Vec<&Entry> = cells
        .iter()
        .filter(|cell| cell.text("stack") == Some("torch"))
        .collect();
    let releases = TODAY_SINCE.map(|(name, since)| {
        let column = format!("torch.{name}_version");
        let release = |cell: &&Entry| match cell.get(&column) {
            Datum::Null => Datum::Text(format!("{since} or newer")),
            named => named.clone(),
        };
        // Only quantised weights are those of bitsandbytes, and only its k-bit preparation tells releases of PEFT
        // apart.
        let uses = |cell: &&&Entry| match name {
            "bitsandbytes" => matches!(cell.text("dtype"), Some("int4" | "int8")),
            "peft" => cell.text("upcast") != Some("none"),
            "deepspeed" => cell.text("distributed") == Some("deepspeed"),
            _ => true,
        };
        Releases {
            name,
            values: counted(torch.iter().filter(uses).map(release)),
        }
    });
    Some(Planned {
        expctl_version: env!("CARGO_PKG_VERSION"),
        releases: releases
            .into_iter()
            .filter(|releases| !releases.values.is_empty())
            .collect(),
        gpus,
        data: counted(cells.iter().map(|cell| cell.get("data").clone())),
    })
}
