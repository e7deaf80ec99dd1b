//! The plan of one cell for people: the answer, the parts of it, what others do, what to change.

use std::fmt::Write as _;

use base::text::Table;
use base::text::format::{self, ByteUnit, bytes_in};
use cell::{Cell, Stack};
use plan::advice::CellPlan;
use plan::speed::Speed;
use plan::variants::Variant;
use records::prediction::{Judgement, Prediction, ROUNDING};
use serde_json::json;
use spec::StudyCell;
use trace::Category;

use super::prediction_view::{range_reason, share, trainable};
use super::screen::{judged, screen_width, wrapped};

/// One cell's plan with what is printed of it.
pub(super) struct Answer<'a> {
    /// The cell.
    pub study_cell: &'a StudyCell,
    /// Its plan.
    pub plan: &'a CellPlan,
    /// The cell as others would train it.
    pub variants: &'a [Variant],
    /// Bytes of the budget that are to stay free.
    pub headroom: u64,
    /// How long a step takes, if that can be told.
    pub speed: Option<Speed>,
}

impl Answer<'_> {
    /// The answer in a sentence, then the parts, the range, and what others do.
    pub(super) fn text(&self) -> String {
        let mut text = self.sentence() + "\n";
        text += &self.parts();
        text += &self.uncertain();
        text += &self.speed();
        text += &self.variants();
        text
    }

    fn prediction(&self) -> &Prediction {
        &self.plan.prediction
    }

    /// Whose memory it is, on what, and whether it fits; what others do, if that changes the verdict.
    fn sentence(&self) -> String {
        let prediction = self.prediction();
        let mut sentence = sentence(&self.study_cell.cell, prediction, self.headroom);
        let Some(judgement) = prediction.judgement(self.headroom) else {
            return wrapped(&sentence, 2);
        };
        let others = self.variants.iter().filter_map(|variant| {
            let other = variant.prediction.judgement(self.headroom)?;
            (other != judgement && (other > Judgement::Tight || judgement > Judgement::Tight)).then(|| {
                let needed = bytes(variant.prediction.needed_bytes);
                format!("; with {} {needed}, it {}", variant.words, of_it(other))
            })
        });
        sentence.extend(others.take(1));
        wrapped(&sentence, 2)
    }

    /// The parts of what is needed, which add up to it.
    fn parts(&self) -> String {
        let prediction = self.prediction();
        let moment = match &prediction.binding_module {
            Some(module) => format!("{}, {module}", prediction.binding_phase),
            None => prediction.binding_phase.clone(),
        };
        let mut text = format!("\nat the peak ({moment})\n");
        text += &sum(parts(prediction), prediction.needed_bytes);
        let rank = self.study_cell.cell.rank;
        let _ = writeln!(
            text,
            "trained: {} weights; between steps: {}",
            trainable(rank, prediction),
            bytes(prediction.allocated_mean_bytes)
        );
        text
    }

    /// The range, with what decides it, and the headroom.
    fn uncertain(&self) -> String {
        let prediction = self.prediction();
        let mut lines = Vec::new();
        let [low, high] = prediction.possible_bytes();
        if let Some(reason) = range_reason(prediction) {
            lines.push(format!("range: {} to {}, by the {reason}", bytes(low), bytes(high)));
        }
        if let Some(room) = prediction.reserved_with_room_bytes {
            let context = prediction.context_bytes.unwrap_or(0);
            lines.push(format!(
                "with more room the allocator would keep more: {}",
                bytes(room + context)
            ));
        }
        if let (true, Some(budget)) = (self.headroom > 0, prediction.budget_bytes) {
            let free = budget.saturating_sub(high);
            lines.push(format!(
                "headroom: {} are to stay free (--headroom), {} do at the range's high end",
                bytes(self.headroom),
                bytes(free)
            ));
        }
        let lines: Vec<String> = lines.iter().map(|line| wrapped(line, 2) + "\n").collect();
        match lines.is_empty() {
            true => String::new(),
            false => format!("\n{}", lines.concat()),
        }
    }

    /// How long an optimizer step takes.
    fn speed(&self) -> String {
        let Some(Speed {
            flops,
            seconds: [least, most],
            tokens_per_second: [slow, fast],
        }) = self.speed
        else {
            return String::new();
        };
        let [least, most] = [least, most].map(|seconds| format::seconds(seconds.into()));
        let [slow, fast] = [slow, fast].map(|tokens| format::number(tokens.into(), 0));
        let line = format!(
            "time: {least} to {most} a step, {slow} to {fast} tokens/s, {} TFLOP (all samples of {} tokens)",
            format::number((flops / 1e12).into(), 0),
            self.study_cell.cell.max_seq_length
        );
        format!("\n{}\n", wrapped(&line, 2))
    }

    /// A row for each thing that others do differently.
    fn variants(&self) -> String {
        if self.variants.is_empty() {
            return String::new();
        }
        let has_verdict = self.prediction().verdict.is_some();
        let mut columns = vec!["what others do", "set", "needs"];
        columns.extend(has_verdict.then_some("verdict"));
        let mut table = Table::new(columns);
        for variant in self.variants {
            let key = match &variant.value {
                serde_json::Value::String(text) => format!("{}={text}", variant.key),
                value => format!("{}={value}", variant.key),
            };
            let mut row = vec![
                json!(variant.words),
                json!(key),
                json!(bytes(variant.prediction.needed_bytes)),
            ];
            let judgement = variant.prediction.judgement(self.headroom);
            row.extend(has_verdict.then(|| json!(judgement.map_or(format::ABSENT, Judgement::words))));
            table.rows.push(row);
        }
        format!("\n{}", table.within(screen_width()))
    }
}

/// Whose memory it is, on what.
pub(super) fn subject(cell: &Cell) -> String {
    let model = &cell.model;
    match (cell.stack, cell.gpu.as_deref()) {
        (Stack::Candle, _) => format!("{model} by our trainer on the CPU"),
        (Stack::Torch, gpu) => {
            let each = match (cell.world_size, gpu) {
                (1, gpu) => gpu.unwrap_or("a GPU").to_owned(),
                (count, Some(gpu)) => format!("each of {count} × {gpu}"),
                (count, None) => format!("each of {count} GPUs"),
            };
            format!("{model} on {each}, PyTorch (transformers, PEFT)")
        }
    }
}

/// Whose memory it is, on what, and whether it fits.
pub(super) fn sentence(cell: &Cell, prediction: &Prediction, headroom: u64) -> String {
    let subject = subject(cell);
    let needed = bytes(prediction.needed_bytes);
    let mut sentence = match (prediction.judgement(headroom), prediction.budget_bytes) {
        (Some(judgement), Some(budget)) => {
            let verdict = judged(judgement.words(), judgement);
            let share = share(prediction.needed_bytes, budget);
            format!("{subject}: {verdict}, {needed} of {} ({share})", bytes(budget))
        }
        _ => format!("{subject}: {needed}"),
    };
    if let Some(over) = prediction.past_host_budget() {
        let _ = write!(
            sentence,
            ", and {} more of the host's memory than host_memory gives",
            bytes(over)
        );
    }
    sentence
}

/// The words after "it".
fn of_it(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Tight => "is tight",
        other => other.words(),
    }
}

/// Parts in lines, with what they add up to.
pub(super) fn sum(mut parts: Vec<(&'static str, u64)>, together: u64) -> String {
    parts.push(("together", together));
    let width = parts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    // One unit, so that they can be added.
    let unit = ByteUnit::of(together as f64);
    let mut text = String::new();
    for (name, size) in parts {
        let size = bytes_in(size.into(), unit);
        let _ = writeln!(text, "  {name:<width$}  {size:>7} {}", unit.name());
    }
    text
}

/// What a prediction's needed bytes are for; parts of nothing are left out. Without a GPU that is live tensors alone.
pub(super) fn parts(prediction: &Prediction) -> Vec<(&'static str, u64)> {
    let of = |name: &str| prediction.allocated_peak_by_category.get(name).copied().unwrap_or(0);
    let mut parts = tensor_parts(|category| of(category.name()), prediction.allocated_peak_loss_bytes);
    let others = [
        (
            "fragmentation",
            prediction.fragmentation_bytes.unwrap_or(0) + of(ROUNDING),
        ),
        ("more while it is loaded", prediction.more_while_loading()),
        (context_name(prediction), prediction.context_bytes.unwrap_or(0)),
    ];
    parts.extend(others.into_iter().filter(|(_, bytes)| *bytes > 0));
    parts
}

/// What live tensors are for, from their bytes by category and those of the loss; parts of nothing are left out.
pub(super) fn tensor_parts(of: impl Fn(Category) -> u64, loss: u64) -> Vec<(&'static str, u64)> {
    // The loss's own bytes are activations as far as they are kept for the backward pass.
    let kept = of(Category::Activation) + of(Category::Input) + of(Category::Temporary) - loss;
    let parts = [
        ("weights", of(Category::Parameter)),
        ("adapters", of(Category::Adapter)),
        ("gradients", of(Category::Gradient)),
        ("optimizer", of(Category::OptimizerState)),
        ("activations, workspaces", kept),
        ("logits and loss", loss),
    ];
    parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

fn context_name(prediction: &Prediction) -> &'static str {
    match prediction.context_low_bytes == prediction.context_high_bytes {
        true => "CUDA context",
        false => "CUDA context, estimated",
    }
}

fn bytes(size: u64) -> String {
    format::bytes(size.into())
}
