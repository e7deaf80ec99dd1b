//! What `show` says of a cell before its lists.

use base::text::format;
use report::{Entry, method_name};
use results::setting;

use super::screen::wrapped;

/// A cell in a few words: the method and the model, then memory, speed and losses as far as they are known. Empty for a cell
/// without a figure.
pub(super) fn cell_summary(row: &Entry) -> String {
    let figures: Vec<String> = [memory(row), speed(row), loss(row), time(row)]
        .into_iter()
        .flatten()
        .collect();
    if figures.is_empty() {
        return String::new();
    }
    let model = setting("model", row.get("model"));
    let text = format!("{} on {model}: {}.", method_name(row), figures.join("; "));
    format!("{}\n", wrapped(&text, 2))
}

fn bytes(row: &Entry, column: &str) -> Option<String> {
    row.number(column).map(|bytes| format::bytes(bytes.into()))
}

/// The peak with its place, and how it was predicted; or the prediction alone, or why there is no peak.
fn memory(row: &Entry) -> Option<String> {
    let column = "allocated_peak_bytes";
    let predicted = bytes(row, "predicted_allocated_peak_bytes");
    let Some(peak) = bytes(row, column) else {
        let predicted = predicted.map(|peak| format!("a peak of {peak} predicted"));
        let fits = row
            .text("predicted_fits_with")
            .map(|changes| format!("it would fit with {changes}"));
        let parts: Vec<String> = [row.text("reason").map(str::to_owned), predicted, fits]
            .into_iter()
            .flatten()
            .collect();
        return (!parts.is_empty()).then(|| parts.join(", "));
    };
    let place: Vec<&str> = ["allocated_peak_phase", "allocated_peak_module"]
        .into_iter()
        .filter_map(|column| row.text(column))
        .collect();
    let place = match place.is_empty() {
        true => String::new(),
        false => format!(" in {}", place.join(" ")),
    };
    let is_exact = row.number(column) == row.number("predicted_allocated_peak_bytes");
    let predicted = match predicted {
        _ if is_exact => ", as predicted".to_owned(),
        Some(predicted) => format!(", {predicted} predicted"),
        None => String::new(),
    };
    Some(format!("peak {peak}{place}{predicted}"))
}

fn speed(row: &Entry) -> Option<String> {
    let rate = format::rate(row.number("tokens_per_second")?.into());
    let spread = row
        .number("step_seconds_spread")
        .map(|spread| format::percent(spread.into()));
    Some(match spread {
        Some(spread) => format!("{rate} tokens/s, steps spread by {spread}"),
        None => format!("{rate} tokens/s"),
    })
}

fn loss(row: &Entry) -> Option<String> {
    let number = |column: &str| row.number(column).map(|loss| format::number(loss.into(), 3));
    let (first, last) = (number("loss_first")?, number("loss_last")?);
    let held_out = number("loss_eval").map_or_else(String::new, |loss| format!(", {loss} held out"));
    Some(format!("loss {first} to {last}{held_out}"))
}

fn time(row: &Entry) -> Option<String> {
    let seconds = format::seconds(row.number("wall_seconds")?.into());
    Some(format!("{seconds} in all"))
}
