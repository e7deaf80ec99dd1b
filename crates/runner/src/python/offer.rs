//! What an interpreter offers, and what a cell needs of it.

use cell::{Attention, Cell, Device, Dtype, Loss, Optimizer};
use records::WorkerMachine;
use serde_json::Value;
use spec::{Study, StudyCell};
use torch::TODAY_SINCE;

use super::super::preflight::{PreflightError, Reason};
use super::interpreter::Interpreter;

/// The packages that are shown.
const SHOWN: [&str; 5] = ["torch", "transformers", "peft", "bitsandbytes", "trl"];

/// A package that a key of a cell needs.
struct Need {
    package: &'static str,
    key: &'static str,
}

fn needs(cell: &Cell) -> Vec<Need> {
    let need = |is_needed: bool, package, key| is_needed.then_some(Need { package, key });
    let from_bitsandbytes = cell.optim.is_from_bitsandbytes();
    [
        need(true, "torch", "engine"),
        need(true, "transformers", "engine"),
        need(true, "safetensors", "engine"),
        need(cell.method().is_some(), "peft", "adapter"),
        need(cell.upcast != cell::Upcast::None, "peft", "upcast"),
        need(cell.dtype.is_quantised(), "bitsandbytes", "dtype"),
        need(cell.dtype.is_quantised(), "accelerate", "dtype"),
        need(from_bitsandbytes, "bitsandbytes", "optim"),
        need(cell.loss() == Loss::Liger, "liger-kernel", "loss"),
        need(
            cell.attn_implementation == Attention::FlashAttention2,
            "flash-attn",
            "attn_implementation",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Checks that the interpreter has the packages, releases and devices that a cell needs.
pub(super) fn check(
    study: &Study,
    study_cell: &StudyCell,
    machine: &WorkerMachine,
    interpreter: &Interpreter,
) -> Result<(), PreflightError> {
    let cell = &study_cell.cell;
    let fail = |key: &'static str, reason: String| {
        let value = cell.value(key);
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        PreflightError::new(study, study_cell, key, value, Reason::Python(reason))
    };
    if machine.engine != "python" {
        return Err(fail("engine", format!("{interpreter} is no worker of this program")));
    }
    let needs = needs(cell);
    let lacks = |need: &&Need| !machine.releases.contains_key(need.package);
    let mut missing: Vec<&str> = Vec::new();
    for need in needs.iter().filter(lacks) {
        if !missing.contains(&need.package) {
            missing.push(need.package);
        }
    }
    if let Some(first) = needs.iter().find(lacks) {
        let install = interpreter.install(&missing.join(" "));
        let reason = format!("{interpreter} has no {}; `{install}` installs it", missing.join(", "));
        return Err(fail(first.key, reason));
    }
    if let Some(error) = &machine.import_error {
        return Err(fail("engine", format!("{interpreter} cannot import torch: {error}")));
    }
    for (package, _) in TODAY_SINCE {
        let key = format!("torch.{package}_version");
        let Value::String(named) = cell.value(&key) else {
            continue;
        };
        let installed = machine
            .releases
            .get(package)
            .filter(|_| cell.heeds(&key) && !interpreter.pins());
        if let Some(other) = installed.filter(|installed| !is_of(installed, &named)) {
            let install = interpreter.install(&format!("{package}=={named}"));
            let reason = format!(
                "{interpreter} has {package} {other}, and the cell names {named}; `{install}`, or `--python uv`, has that"
            );
            return Err(fail("engine", reason));
        }
    }
    if let Some(Device::Cuda(index)) = cell.device()
        && index + cell.world_size > machine.gpus.len()
    {
        let reason = match machine.gpus.len() {
            0 => "PyTorch finds no GPU of CUDA there (`nvidia-smi` shows the driver)".to_owned(),
            count => format!("PyTorch finds {count} there, with numbers from 0"),
        };
        return Err(fail("device", reason));
    }
    if machine.gpus.is_empty() && cell.device_memory.is_some() {
        return Err(fail(
            "device_memory",
            "PyTorch finds no GPU there, and keeps no budget of the CPU's memory".into(),
        ));
    }
    let major = |package: &str| machine.releases.get(package)?.split('.').next()?.parse::<u32>().ok();
    if cell.optim == Optimizer::AdamwHf && major("transformers") >= Some(5) {
        return Err(fail(
            "optim",
            "transformers has none of its own from 5.0 on; use `adamw`".into(),
        ));
    }
    if cell.dtype == Dtype::Int4 && cell.bnb_4bit_blocksize != 64 {
        return Err(fail(
            "bnb_4bit_blocksize",
            "transformers quantises blocks of 64 weights".into(),
        ));
    }
    Ok(())
}

/// The release of what is installed, without the build that it may name behind a plus.
pub(super) fn release(installed: &str) -> &str {
    installed.split('+').next().unwrap_or(installed)
}

/// True if what is installed is the release that a cell names. The nearest of one is any.
fn is_of(installed: &str, named: &str) -> bool {
    let installed = release(installed);
    named.starts_with("nearest") || installed == named || installed.starts_with(&format!("{named}."))
}

/// Its releases and its GPUs, for people.
pub(super) fn describe(machine: &WorkerMachine) -> String {
    let release = |package: &&str| Some(format!("{package} {}", machine.releases.get(*package)?));
    let releases: Vec<String> = SHOWN.iter().filter_map(release).collect();
    let device = match machine.gpus.first() {
        None => "no GPU, so the CPU".to_owned(),
        Some(gpu) => gpu.name.clone(),
    };
    format!("{}; {device}", releases.join(", "))
}
