//! `expctl plan --oom TEXT|FILE|-`: PyTorch's message that memory ran out, beside a plan.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, bail};
use base::text::format;
use cell::Cell;
use plan::advice::{self, changes};
use plan::oom::{
    Agreement, Amount, Message, Moment, NoMessage, agreements, gpus_with, has_memory, lengths_of, nearest, tensor,
};
use plan::{Options, Planner};
use spec::{Study, StudyCell};
use torch::caching_allocator::rounding::{DEFAULT_LARGE_SEGMENT, SMALL_SEGMENT};
use torch::gpu::{Budget, Gpu};
use trace::Phase;

use super::plan_answer::{subject, sum, tensor_parts};
use super::screen::wrapped;

/// Changes that agree, and further cells, that are listed.
const MOST: usize = 8;

/// The messages in a text, a file, or the standard input (`-`), at least one.
///
/// # Errors
/// The file cannot be read, or there is no message.
pub(super) fn read(given: &str) -> anyhow::Result<Vec<Message>> {
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
    Ok(Message::read_all(&text)?)
}

/// A cell beside a message.
struct Compared<'a> {
    study: &'a Study,
    study_cell: &'a StudyCell,
    planner: &'a Planner,
    /// The nearest moment of its plan, if that asks for such a segment.
    moment: Option<Moment>,
}

/// What the cells of studies say about the last of the messages: the one that agrees best, and then the others.
///
/// # Errors
/// A cell cannot be planned.
pub(super) fn explain(studies: &[Study], messages: &[Message], options: Options) -> anyhow::Result<String> {
    let Some(message) = messages.last() else {
        return Ok(String::new());
    };
    let options = Options {
        budget: budget(message, options.budget),
        ..options
    };
    let planners: Vec<Planner> = studies
        .iter()
        .map(|study| Planner::new(study.roots(), options))
        .collect();
    let mut compared = Vec::new();
    for (study, planner) in studies.iter().zip(&planners) {
        for study_cell in &study.cells {
            compared.push(Compared {
                study,
                study_cell,
                planner,
                moment: nearest(planner, &study_cell.cell, message)?,
            });
        }
    }
    compared.sort_by(|one, other| {
        let rank = |compared: &Compared<'_>| {
            let difference = compared
                .moment
                .map_or(f64::INFINITY, |moment| moment.difference(message).abs());
            (
                !compared.moment.is_some_and(|moment| moment.agrees(message)),
                other_gpu(&compared.study_cell.cell, message).is_some(),
                difference,
            )
        };
        let (one, other) = (rank(one), rank(other));
        (one.0, one.1).cmp(&(other.0, other.1)).then(one.2.total_cmp(&other.2))
    });
    let Some((best, others)) = compared.split_first() else {
        return Ok(String::new());
    };
    let mut text = best.text(messages, message)?;
    text += &other_cells(others, message);
    text += "\nall figures but the message's are predicted\n";
    Ok(text)
}

/// What would have fit is looked for on the message's device, unless another one is given.
fn budget(message: &Message, given: Option<Budget>) -> Option<Budget> {
    match (given, message.total) {
        (Some(Budget::Gpu(gpu)), Some(total)) if has_memory(gpu.total_bytes, total) => Some(Budget::Bytes(total.bytes)),
        (None, Some(total)) => Some(Budget::Bytes(total.bytes)),
        (given, _) => given,
    }
}

/// The cell's GPU, if the message is not of one with its memory.
fn other_gpu(cell: &Cell, message: &Message) -> Option<&'static Gpu> {
    let gpu = Gpu::named(cell.gpu.as_deref()?).ok()?;
    (!has_memory(gpu.total_bytes, message.total?)).then_some(gpu)
}

impl Compared<'_> {
    /// The answer in a sentence; then the message, the moment with what is held, what does not agree, and what fits.
    fn text(&self, messages: &[Message], message: &Message) -> anyhow::Result<String> {
        let cell = &self.study_cell.cell;
        let agrees = self.moment.is_some_and(|moment| moment.agrees(message));
        let changes = match agrees {
            true => Vec::new(),
            false => agreements(self.planner, cell, message),
        };
        let explained = match (&self.moment, changes.first()) {
            (_, Some(agreement)) => Some((&agreement.cell, &agreement.moment)),
            (Some(moment), None) => Some((cell, moment)),
            (None, None) => None,
        };
        let answer = match (explained, changes.first()) {
            (Some((cell, moment)), Some(agreement)) => {
                let changes = agreement.words();
                format!(
                    "the plan does not have this moment; with {changes} it has: {}",
                    self.at(cell, moment)?
                )
            }
            (Some((cell, moment)), None) if agrees => format!("the plan has this moment: {}", self.at(cell, moment)?),
            _ => "the plan does not have this moment, nor with other settings that were tried".to_owned(),
        };
        let mut text = format!("{}\n\n{}", wrapped(&answer, 2), figures(messages));
        let plan = format!("the plan: {}, cell {}", subject(cell), self.study_cell.id);
        text += &(wrapped(&plan, 2) + "\n");
        text += &requests(message);
        text += &self.disagreements(agrees, message)?;
        if !changes.is_empty() {
            text += "\nchanges with which the plan has the moment, each alone\n";
            for agreement in changes.iter().take(MOST) {
                text += &line(&self.change(agreement)?);
            }
        }
        if let Some((_, moment)) = explained {
            text += &held(moment);
        }
        if self.moment.is_none() {
            text += &self.by_bytes_alone(message)?;
        }
        if self.planner.budget(cell).is_some() {
            text += &self.would_fit(changes.first(), message)?;
        }
        Ok(text)
    }

    /// The tensor that a moment asks for, and when.
    fn at(&self, cell: &Cell, moment: &Moment) -> anyhow::Result<String> {
        let what = tensor(moment, cell, &*self.planner.model(cell)?);
        let module = moment.module.map(|module| format!(" ({module})")).unwrap_or_default();
        let when = match (moment.phase, moment.step) {
            (Phase::Load, _) | (_, 0) => "while the model is loaded".to_owned(),
            (Phase::Optimizer, step) => format!("in step {step}'s optimizer step"),
            (Phase::Idle, step) => format!("after step {step}"),
            (phase, step) => format!("in step {step}'s {} pass", phase.name()),
        };
        Ok(format!("{what}, {when}{module}"))
    }

    /// A change, with the moment.
    fn change(&self, agreement: &Agreement) -> anyhow::Result<String> {
        let between = match (agreement.between, agreement.changes.last()) {
            (Some([from, to]), Some((key, _))) if from < to => {
                format!(" ({key} from {from} to {to} asks for such a segment)")
            }
            _ => String::new(),
        };
        Ok(format!(
            "{}: {}, with {} allocated{between}",
            agreement.words(),
            self.at(&agreement.cell, &agreement.moment)?,
            bytes(agreement.moment.allocated)
        ))
    }

    /// What the plan as it is does not have of the message.
    fn disagreements(&self, agrees: bool, message: &Message) -> anyhow::Result<String> {
        let cell = &self.study_cell.cell;
        let mut lines = Vec::new();
        if let (Some(gpu), Some(total)) = (other_gpu(cell, message), message.total) {
            let names: Vec<&str> = gpus_with(total).iter().take(3).map(|gpu| gpu.name).collect();
            let as_others = match names.is_empty() {
                true => String::new(),
                false => format!(", as {} have", names.join(", ")),
            };
            lines.push(format!(
                "gpu: {gpu} has {}, and the message's device {}{as_others}",
                bytes(gpu.total_bytes),
                amount(total)
            ));
        }
        match self.moment {
            Some(moment) if !agrees => lines.push(format!(
                "the plan as it is asks for as much with {} allocated: {}",
                bytes(moment.allocated),
                self.at(cell, &moment)?
            )),
            None => lines.push("the plan as it is never asks for a segment of this size".to_owned()),
            Some(_) => {}
        }
        Ok(match lines.is_empty() {
            true => String::new(),
            false => format!(
                "\nwhat does not agree\n{}",
                lines.iter().map(|text| line(text)).collect::<String>()
            ),
        })
    }

    /// What has the bytes of the message at some length of the cell's model.
    fn by_bytes_alone(&self, message: &Message) -> anyhow::Result<String> {
        let found = lengths_of(message, &*self.planner.model(&self.study_cell.cell)?);
        if found.is_empty() {
            return Ok(String::new());
        }
        let lines = found.iter().map(|of_lengths| line(&of_lengths.words()));
        Ok(format!(
            "\nby the bytes alone, one sample of this model\n{}",
            lines.collect::<String>()
        ))
    }

    /// What would have fit, or that the plan fits: with the change that agrees, if there is one.
    fn would_fit(&self, agreement: Option<&Agreement>, message: &Message) -> anyhow::Result<String> {
        let cell = agreement.map_or(&self.study_cell.cell, |agreement| &agreement.cell);
        let plan = advice::plan(self.planner, cell, &self.study.fit, true)?;
        let prediction = &plan.prediction;
        let budget = prediction.budget_bytes;
        let (Some(judgement), Some(budget)) = (prediction.judgement(self.planner.headroom(cell)), budget) else {
            return Ok(String::new());
        };
        let as_planned = agreement.map_or("as it is".to_owned(), |agreement| format!("with {}", agreement.words()));
        let of_message = message.total.is_some_and(|total| total.bytes == budget);
        let verdict = format!(
            "the plan {as_planned}: {}, {} of {}{}",
            judgement.words(),
            bytes(prediction.needed_bytes),
            bytes(budget),
            if of_message { ", the message's" } else { "" }
        );
        let mut text = format!("\n{}\n", wrapped(&verdict, 2));
        for found in &plan.advice {
            let changes = changes(found).join(", ");
            text += &line(&format!(
                "would fit with {changes}: {}",
                bytes(found.prediction.needed_bytes)
            ));
        }
        Ok(text)
    }
}

/// The other cells, a line each.
fn other_cells(others: &[Compared<'_>], message: &Message) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nother cells\n");
    for Compared { study_cell, moment, .. } in others.iter().take(MOST) {
        let found = match moment {
            None => "never asks for a segment of this size".to_owned(),
            Some(moment) if moment.agrees(message) => "has this moment, too".to_owned(),
            Some(moment) => format!("asks for as much with {} allocated", bytes(moment.allocated)),
        };
        text += &line(&format!(
            "{}, cell {}: {found}",
            subject(&study_cell.cell),
            study_cell.id
        ));
    }
    if others.len() > MOST {
        text += &line(&format!("and {} more", others.len() - MOST));
    }
    text
}

/// The last message's figures.
pub(super) fn figures(messages: &[Message]) -> String {
    let Some(message) = messages.last() else {
        return String::new();
    };
    let which = match messages.len() {
        1 => "the message".to_owned(),
        count => format!("the last of {count} messages"),
    };
    let mut text = format!("{which}: {} were asked for", amount(message.tried));
    if let Some(allocated) = message.allocated {
        let _ = write!(text, " with {} allocated", amount(allocated));
    }
    if let Some(unallocated) = message.unallocated {
        let _ = write!(text, ", {} cached", amount(unallocated));
    }
    if let Some(total) = message.total {
        let _ = write!(text, ", on {}", amount(total));
    }
    if let Some(outside) = message.outside() {
        let _ = write!(
            text,
            "; {} of it lay outside PyTorch's allocator (CUDA context, other programs)",
            bytes(outside)
        );
    }
    wrapped(&text, 2) + "\n"
}

/// What the allocator asks the device for: more than a tensor has.
pub(super) fn requests(message: &Message) -> String {
    let of = |segment| message.tried.is(segment);
    let text = match (of(SMALL_SEGMENT), of(DEFAULT_LARGE_SEGMENT)) {
        (true, _) => "2 MiB are the segment that PyTorch's allocator asks for if a tensor has at most 1 MiB",
        (_, true) => {
            "20 MiB are the segment that PyTorch's allocator asks for if a tensor has 1 to 10 MiB; larger ones get their own, \
             rounded up to 2 MiB"
        }
        _ => "PyTorch's allocator rounds tensors of 10 MiB and more up to 2 MiB, and the message rounds that",
    };
    wrapped(text, 2) + "\n"
}

/// What is allocated at the moment, in a plan's words.
fn held(moment: &Moment) -> String {
    let parts = tensor_parts(|category| moment.by_category[category], moment.of_loss);
    let requested: u64 = parts.iter().map(|(_, size)| size).sum();
    let rounding = ("rounding", moment.allocated - requested);
    let parts = parts.into_iter().chain([rounding]).filter(|(_, size)| *size > 0);
    let parts: Vec<_> = parts.collect();
    match parts.is_empty() {
        true => "\nnothing is held beside it\n".to_owned(),
        false => format!("\nheld beside it\n{}", sum(parts, moment.allocated)),
    }
}

pub(super) fn line(text: &str) -> String {
    wrapped(&format!("  {text}"), 4) + "\n"
}

pub(super) fn amount(amount: Amount) -> String {
    bytes(amount.bytes)
}

fn bytes(size: u64) -> String {
    format::bytes(size.into())
}
