//! `expctl plan --oom` without a spec and without a model: what has as many bytes as a message says.

use plan::oom::{Message, OfLengths, Tensor, compatible, lengths};

use super::plan_oom::{amount, figures, line, requests};
use super::screen::wrapped;

/// Tensors of usual lengths that are listed.
const MOST: usize = 8;

/// Widths of a kind that are listed.
const WIDTHS: usize = 4;

/// Models that are named.
const MODELS: usize = 2;

/// What the last of the messages is compatible with.
pub(super) fn compatible_with(messages: &[Message]) -> String {
    let Some(message) = messages.last() else {
        return String::new();
    };
    let (found, of_lengths) = (compatible(message), lengths(message));
    let tried = amount(message.tried);
    let answer = match (found.first(), message.own_requests(), of_lengths.first()) {
        (_, None, _) => format!("{tried} name no tensor: many requests get a segment of this size"),
        (Some(first), ..) => format!(
            "{tried} may be {} ({}), among others",
            first.what,
            models(&first.models)
        ),
        (None, _, Some(_)) => format!("{tried} are no tensor of a length that people write; other lengths have them"),
        (None, _, None) => format!("{tried} are no tensor of a known model"),
    };
    let mut text = format!("{}\n\n{}{}", wrapped(&answer, 2), figures(messages), requests(message));
    if message.own_requests().is_some() {
        text += &usual(&found);
        text += &any_length(&of_lengths);
    }
    text += "\n--model MODEL --set KEY=VALUE compares it with a plan\n";
    text
}

/// Weights, and tensors of lengths that people write.
fn usual(found: &[Tensor]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nweights, and tensors of usual lengths\n");
    for Tensor { what, models: of } in found.iter().take(MOST) {
        text += &line(&format!("{what}: {}", models(of)));
    }
    text + &more(found.len())
}

/// Kinds of tensors at the lengths that the bytes leave open.
fn any_length(found: &[OfLengths]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let heading = wrapped(
        "any length of one sample; a batch has as many tokens in all, and shifted logits lack the last of each sample",
        2,
    );
    let mut text = format!("\n{heading}\n");
    for of_kind in found.chunk_by(|one, other| one.kind.name == other.kind.name) {
        let name = of_kind[0].kind.name;
        // Families have few vocabularies, and many widths.
        let most = if name == "logits" { of_kind.len() } else { WIDTHS };
        for of_lengths in of_kind.iter().take(most) {
            text += &line(&format!("{}: {}", of_lengths.words(), models(&of_lengths.models)));
        }
        if of_kind.len() > most {
            text += &line(&format!("{name} of {} more shapes", of_kind.len() - most));
        }
    }
    text
}

fn models(names: &[&str]) -> String {
    match names.len().checked_sub(MODELS) {
        Some(others) if others > 1 => format!("{} and {others} more", names[..MODELS].join(", ")),
        _ => names.join(", "),
    }
}

fn more(count: usize) -> String {
    match count.checked_sub(MOST) {
        Some(others) if others > 0 => line(&format!("and {others} more")),
        _ => String::new(),
    }
}
