//! The results of a search for what fits, for people and for programs.

use std::fmt::Write as _;

use base::text::format::{self, or_absent};
use base::text::{Table, to_flow_yaml};
use plan::advice::{changes, cost};
use plan::fit::Found;
use results::columns::predictions;
use results::setting;
use serde_json::{Map, Value, json};
use spec::Study;
use techniques::Harm;

use super::Format;
use super::cells::configuration_for_people;
use super::prediction_view::{may_not_fit, range, range_cell, range_reasons};

/// The result of a search for one cell.
pub(super) struct CellFit {
    /// Bytes to fit into, if there is a budget.
    pub budget: Option<u64>,
    /// The cell as it is given, then the least changes for less and less memory.
    pub front: Vec<Found>,
    /// The least change that fits.
    pub least: Option<Found>,
    /// Other ways to fit, each without a technique that the least change uses.
    pub others: Vec<Found>,
    /// Combinations that were predicted.
    pub planned: usize,
    /// Combinations that there are.
    pub combinations: f64,
}

/// The text for a terminal.
pub(super) fn for_people(study: &Study, fits: &[CellFit]) -> String {
    let mut text = String::new();
    for (index, fit) in fits.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text += &heading(study, index);
        text += &verdict(fit);
        if let Some(least) = fit.least.as_ref().filter(|least| !least.changes.is_empty()) {
            let _ = writeln!(text, "\nthe least change that fits: {}", of_budget(least, fit.budget));
            text += &explained(least);
        }
        if !fit.others.is_empty() {
            text += "\nother ways, each without one of these changes\n";
            for other in &fit.others {
                let (needed, changes) = (of_budget(other, fit.budget), changes(other).join(", "));
                let _ = writeln!(text, "  {needed}: {changes} ({})", cost(other));
            }
        }
        if fit.front.len() > 1 {
            let _ = writeln!(
                text,
                "\nmemory against price, the least change first\n{}",
                front(fit).aligned().trim_end()
            );
        }
        text += &remarks(fit);
        if let Some(configuration) = study.named_configuration() {
            text += &configuration_for_people(&configuration);
        }
        let _ = writeln!(
            text,
            "\n{} of {} combinations were planned; all figures are predicted",
            format::number((fit.planned as f64).into(), 0),
            format::number(fit.combinations.into(), 0)
        );
    }
    text
}

/// The cell's id and its values of the axes.
fn heading(study: &Study, index: usize) -> String {
    let study_cell = &study.cells[index];
    let values = study_cell
        .heeded_axes()
        .map(|(axis, _)| format!("{axis} {}", setting(axis, &study_cell.shown_axis(axis).into())));
    let words: Vec<String> = std::iter::once(study_cell.id.clone()).chain(values).collect();
    words.join(" · ") + "\n"
}

/// What is uncertain about the least change that fits, or about the cell as it is, and the notes on it.
fn remarks(fit: &CellFit) -> String {
    let Some(best) = fit.least.as_ref().or(fit.front.first()) else {
        return String::new();
    };
    let prediction = &best.prediction;
    let mut text = String::new();
    if let (Some(reason), Some(range)) = (&prediction.range_reason, range(prediction)) {
        let of = match best.changes.is_empty() {
            true => "as it is",
            false => "with the least change",
        };
        let _ = writeln!(text, "\nrange: {range} {of}; it depends on the {reason}");
    }
    let others = fit.front.iter().map(|found| &found.prediction);
    text += &range_reasons(others.filter(|other| other.range_reason != prediction.range_reason));
    let notes = &prediction.notes;
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn verdict(fit: &CellFit) -> String {
    let Some(given) = fit.front.first().map(|given| &given.prediction) else {
        return String::new();
    };
    let needed = given.needed_bytes;
    let least = fit.front.last().map_or(needed, |last| last.prediction.needed_bytes);
    if let Some(over) = given.past_host_budget() {
        let end = match (fit.budget, &fit.least) {
            (None, _) => "; the device has no budget",
            (Some(_), Some(_)) => "",
            (Some(_), None) => "; no change that may be made makes it fit",
        };
        let (needed, over) = (bytes(needed), bytes(over));
        return format!("as it is: {needed}, and {over} more of the host's memory than host_memory gives{end}\n");
    }
    let Some(budget) = fit.budget else {
        return format!("as it is: {}; there is no budget\n", bytes(needed));
    };
    let budget_text = bytes(budget);
    match (needed.checked_sub(budget), &fit.least) {
        (None | Some(0), _) => {
            let doubt = if may_not_fit(given) { ", but may not fit" } else { "" };
            format!("as it is: {}, fits into {budget_text}{doubt}\n", bytes(needed))
        }
        (Some(over), Some(_)) => {
            let doubt = match given.needed_low_bytes.is_some_and(|low| low <= budget) {
                true => ", but may fit",
                false => "",
            };
            let over = bytes(over);
            format!("as it is: {}, {over} more than {budget_text}{doubt}\n", bytes(needed))
        }
        (Some(over), None) => format!(
            "as it is: {}, {} more than {budget_text}; no change that may be made makes it fit, {} is the least\n",
            bytes(needed),
            bytes(over),
            bytes(least)
        ),
    }
}

/// A line for each change, with its price.
fn explained(found: &Found) -> String {
    let lines: Vec<(String, &str)> = found
        .changes
        .iter()
        .map(|changed| {
            let keys: Vec<String> = changed
                .keys
                .iter()
                .map(|(key, value)| format!("{key}: {}", to_flow_yaml(value)))
                .collect();
            (keys.join(", "), changed.meaning.as_str())
        })
        .collect();
    let width = lines.iter().map(|(keys, _)| keys.chars().count()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(keys, meaning)| format!("  {keys:<width$}  {meaning}\n"))
        .collect()
}

/// The front as a table.
fn front(fit: &CellFit) -> Table {
    let mut columns = vec!["needed"];
    columns.extend(fit.budget.map(|_| "of budget"));
    let has_range = fit.front.iter().any(|found| range(&found.prediction).is_some());
    columns.extend(has_range.then_some("range"));
    columns.extend(["more FLOPs", "harm", "changes"]);
    let mut table = Table::new(columns);
    for found in &fit.front {
        let mut row = vec![json!(bytes(found.prediction.needed_bytes))];
        row.extend(fit.budget.map(|budget| json!(share(found, budget))));
        row.extend(has_range.then(|| json!(range_cell(&found.prediction))));
        let recomputed = found.price.amount(Harm::Recomputation);
        let flops = match recomputed > 0.0 {
            true => format::percent(recomputed.into()),
            false => format::ABSENT.to_owned(),
        };
        let words = match found.changes.is_empty() {
            true => "as it is".to_owned(),
            false => changes(found).join(", "),
        };
        row.extend([json!(flops), json!(in_words(found.price.worst())), json!(words)]);
        table.rows.push(row);
    }
    table
}

/// The worst that a change does, in a word or two.
fn in_words(harm: Harm) -> &'static str {
    match harm {
        Harm::None => "none",
        Harm::SmallerProducts => "smaller products",
        Harm::Recomputation => "time",
        Harm::Transfers => "transfers",
        Harm::StatePrecision => "precision of states",
        Harm::WeightPrecision => "precision of weights",
        Harm::Algorithm => "another algorithm",
        Harm::Capacity => "fewer trained weights",
        Harm::Data => "fewer tokens",
    }
}

/// The columns of a prediction's range and notes, in the order of all columns.
const REMARKS: [&str; 4] = [
    "predicted_needed_low_bytes",
    "predicted_needed_high_bytes",
    "predicted_range_reason",
    "predicted_notes",
];

/// JSON with everything, or the rows of the fronts.
pub(super) fn for_programs(study: &Study, fits: &[CellFit], format: Format) -> String {
    if format == Format::Json {
        let configuration = study.named_configuration();
        let cells = fits.iter().zip(&study.cells).map(|(fit, study_cell)| {
            let mut object = json!({
                "cell_id": study_cell.id,
                "axes": study_cell.axes,
                "budget_bytes": fit.budget,
                "least": fit.least.as_ref().map(found_for_programs),
                "others": fit.others.iter().map(found_for_programs).collect::<Vec<_>>(),
                "front": fit.front.iter().map(found_for_programs).collect::<Vec<_>>(),
                "planned": fit.planned,
                "combinations": fit.combinations,
            });
            if let Some(configuration) = &configuration {
                object["configuration"] = json!(configuration);
            }
            object
        });
        return format!("{:#}\n", Value::Array(cells.collect()));
    }
    let harms = Harm::ALL.iter().map(|harm| format!("price_{}", harm.name()));
    let mut table = Table::new(
        ["cell_id", "needed_bytes", "budget_bytes", "changes"]
            .map(String::from)
            .into_iter()
            .chain(harms)
            .chain(REMARKS.map(String::from)),
    );
    for (fit, study_cell) in fits.iter().zip(&study.cells) {
        for found in &fit.front {
            let needed = found.prediction.needed_bytes;
            let row = [
                json!(study_cell.id),
                json!(needed),
                json!(fit.budget),
                json!(changes(found).join(", ")),
            ];
            let prices = Harm::ALL.iter().map(|&harm| json!(found.price.amount(harm)));
            let remarks = predictions().into_iter();
            let remarks = remarks.filter(|column| REMARKS.contains(&column.name.as_str()));
            let remarks = remarks.map(|column| json!((column.value)(&found.prediction)));
            table.rows.push(row.into_iter().chain(prices).chain(remarks).collect());
        }
    }
    format.render(&table)
}

fn found_for_programs(found: &Found) -> Value {
    let keys: Map<String, Value> = found
        .keys()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    let price = Harm::ALL
        .iter()
        .map(|&harm| (harm.name().to_owned(), json!(found.price.amount(harm))));
    let predicted = predictions()
        .into_iter()
        .map(|column| (column.name, json!((column.value)(&found.prediction))));
    let mut object: Map<String, Value> = predicted.collect();
    object.insert("changes".into(), keys.into());
    object.insert("cost".into(), json!(cost(found)));
    object.insert("price".into(), price.collect::<Map<_, _>>().into());
    object.into()
}

/// `22.1 GB (93 %)`, or `22.1 GB (93 %, may not fit)` if the range goes beyond the budget.
fn of_budget(found: &Found, budget: Option<u64>) -> String {
    let needed = bytes(found.prediction.needed_bytes);
    let Some(budget) = budget else { return needed };
    let doubt = match may_not_fit(&found.prediction) {
        true => ", may not fit",
        false => "",
    };
    format!("{needed} ({}{doubt})", share(found, budget))
}

fn share(found: &Found, budget: u64) -> String {
    let percent = 100.0 * found.prediction.needed_bytes as f64 / budget as f64;
    // What barely fits does not fill the budget, and what barely does not is over it.
    let decimals = if (99.0..101.0).contains(&percent) { 2 } else { 0 };
    format!("{percent:.decimals$} %")
}

fn bytes(size: u64) -> String {
    or_absent(Some(size), format::bytes)
}
