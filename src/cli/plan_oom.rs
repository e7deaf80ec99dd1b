//! `expctl plan --oom TEXT|FILE|-`: PyTorch's message that memory ran out, beside a plan or alone.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, bail};
use base::text::format;
use plan::advice::{self, changes};
use plan::oom::{AGREES, Agreement, Message, Moment, NoMessage, Tensor, agreements, compatible, nearest};
use plan::{Options, Planner};
use spec::{FitSpec, Study};
use torch::gpu::Budget;
use trace::Category;

use super::plan_answer::subject;
use super::screen::wrapped;

/// Settings that agree, and compatible tensors, that are listed.
const MOST: usize = 8;

/// The message in a text, a file, or the standard input (`-`).
///
/// # Errors
/// The file cannot be read, or there is no message.
pub(super) fn read(given: &str) -> anyhow::Result<Message> {
    let text = match given {
        "-" => {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the standard input")?;
            text
        }
        path if Path::new(path).is_file() => {
            let bytes = fs::read(path).with_context(|| format!("cannot read {path}"))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        // A message has more than one word.
        path if !path.is_empty() && !path.trim().contains(char::is_whitespace) => {
            bail!("there is no file {path}, and {NoMessage}")
        }
        text => text.to_owned(),
    };
    Ok(Message::read(&text)?)
}

/// What each cell of a study says about a message.
///
/// # Errors
/// A cell cannot be planned.
pub(super) fn explain(study: &Study, message: &Message, options: Options) -> anyhow::Result<String> {
    // What would have fit is looked for on the message's device.
    let options = Options {
        budget: options.budget.or(message.total.map(|total| Budget::Bytes(total.bytes))),
        ..options
    };
    let planner = Planner::new(study.roots(), options);
    let mut text = heading(message);
    for study_cell in &study.cells {
        let cell = &study_cell.cell;
        let _ = writeln!(text, "\n{}, cell {}", subject(cell), study_cell.id);
        let moment = nearest(&planner, cell, message)?;
        let agrees = moment.is_some_and(|moment| moment.difference(message).abs() < AGREES);
        text += &line(&match &moment {
            Some(moment) if agrees => format!("the plan has this moment: {}", at(moment)),
            Some(moment) => format!(
                "the plan asks for as much, but with {} allocated: {}",
                bytes(moment.allocated),
                at(moment)
            ),
            None => "the plan never asks for a segment of this size".to_owned(),
        });
        if let Some(moment) = &moment {
            text += &held(moment);
        }
        if !agrees {
            text += &others(&agreements(&planner, cell, message));
        }
        if planner.budget(cell).is_some() {
            text += &would_fit(&planner, cell, &study.fit)?;
        }
    }
    text += "\nall figures but the message's are predicted\n";
    Ok(text)
}

/// What a message is compatible with, without a cell.
pub(super) fn without_cell(message: &Message) -> String {
    let mut text = heading(message);
    let found = compatible(message);
    if found.is_empty() {
        text += &line(
            "no weights, logits, scores or feed-forward layers of a known model have this size with a usual batch and length; \
             --model MODEL --set KEY=VALUE compares it with a plan",
        );
        return text;
    }
    text += "\nbytes that these tensors have\n";
    for Tensor { what, models } in found.iter().take(MOST) {
        let models = match models.len() {
            count if count > 4 => format!("{} and {} more", models[..3].join(", "), count - 3),
            _ => models.join(", "),
        };
        text += &line(&format!("{what}: {models}"));
    }
    if found.len() > MOST {
        text += &line(&format!("and {} more", found.len() - MOST));
    }
    text
}

fn heading(message: &Message) -> String {
    let mut text = format!("the message: {} were asked for", bytes(message.tried.bytes));
    if let Some(allocated) = message.allocated {
        let _ = write!(text, " with {} allocated", bytes(allocated.bytes));
    }
    if let Some(unallocated) = message.unallocated {
        let _ = write!(text, ", {} cached", bytes(unallocated.bytes));
    }
    if let Some(total) = message.total {
        let _ = write!(text, ", on {}", bytes(total.bytes));
    }
    wrapped(&text, 2) + "\n"
}

/// The moment, with the tensor.
fn at(moment: &Moment) -> String {
    let module = moment.module.map(|module| format!(", {module}")).unwrap_or_default();
    let purpose = match moment.category {
        Category::Parameter => "a weight",
        Category::Adapter => "an adapter's weight",
        Category::OptimizerState => "a state of the optimizer",
        Category::Gradient => "a gradient",
        Category::Activation => "a tensor that is kept for the backward pass",
        _ => "a tensor that lives within the pass",
    };
    let step = match moment.step {
        0 => String::new(),
        step => format!("step {step}, "),
    };
    format!(
        "{step}{}{module}, {purpose} of {} bytes, with {} allocated",
        moment.phase.name(),
        format::number((moment.bytes as f64).into(), 0),
        bytes(moment.allocated)
    )
}

/// What is allocated at the moment.
fn held(moment: &Moment) -> String {
    let parts = moment.by_category.iter();
    let parts = parts.filter(|(category, size)| category.is_tensor() && *size > 0);
    let parts = parts.map(|(category, size)| format!("{} {}", category.name().replace('_', " "), bytes(size)));
    match parts.collect::<Vec<_>>().join(", ") {
        nothing if nothing.is_empty() => line("nothing is held beside it"),
        parts => line(&format!("held beside it: {parts}")),
    }
}

/// Settings with which the plan agrees.
fn others(agreements: &[Agreement]) -> String {
    if agreements.is_empty() {
        return line(
            "no single other setting that was tried agrees; look at batch, length and what else runs on the device",
        );
    }
    let mut text = String::from("settings with which the plan agrees, each alone\n");
    for Agreement { key, value, moment } in agreements.iter().take(MOST) {
        let value = base::text::to_flow_yaml(value);
        text += &line(&format!("{key}={value}: {}", at(moment)));
    }
    text
}

/// What would have fit, or that the plan fits.
fn would_fit(planner: &Planner, cell: &cell::Cell, fit: &FitSpec) -> anyhow::Result<String> {
    let plan = advice::plan(planner, cell, fit, true)?;
    let needed = bytes(plan.prediction.needed_bytes);
    let Some(judgement) = plan.prediction.judgement(planner.headroom(cell)) else {
        return Ok(String::new());
    };
    let mut text = line(&format!("the plan as it is: {needed}, {}", judgement.words()));
    for found in &plan.advice {
        let changes = changes(found).join(", ");
        text += &line(&format!(
            "would fit with {changes}: {}",
            bytes(found.prediction.needed_bytes)
        ));
    }
    Ok(text)
}

fn line(text: &str) -> String {
    wrapped(&format!("  {text}"), 4) + "\n"
}

fn bytes(size: u64) -> String {
    format::bytes(size.into())
}
