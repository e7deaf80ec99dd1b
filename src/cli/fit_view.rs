//! The results of a search for what fits, for people and for programs.

use std::fmt::Write as _;

use base::text::format::{self, or_absent};
use base::text::{Table, to_flow_yaml};
use plan::advice::{changes, cost};
use plan::fit::{Changed, Found};
use records::prediction::Verdict;
use results::columns::predictions;
use serde_json::{Map, Value, json};
use spec::Study;
use techniques::Harm;

use super::Format;
use super::cells::{axis_values, configuration_for_people};
use super::plan_answer::sentence;
use super::prediction_view::{self, range, range_cell, range_reason, range_reasons};
use super::screen::wrapped;

/// The result of a search for one cell.
pub(super) struct CellFit {
    /// Bytes of the budget, if there is one.
    pub budget: Option<u64>,
    /// Bytes of it that stay free.
    pub headroom: u64,
    /// The cell as it is given, then the least changes for less and less memory; of several cells with a budget, the
    /// least change that fits, or the one that saves most.
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

impl CellFit {
    /// True if something fits, or if there is nothing to fit into.
    pub(super) fn is_answered(&self) -> bool {
        let as_it_is = self.front.first().and_then(|given| given.prediction.verdict);
        self.budget.is_none() || self.least.is_some() || as_it_is == Some(Verdict::Fits)
    }
}

/// The text for a terminal.
pub(super) fn for_people(study: &Study, fits: &[CellFit]) -> String {
    let mut text = String::new();
    for (index, fit) in fits.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let axes = axis_values(&study.cells[index]).collect::<Vec<_>>().join(" · ");
        if !axes.is_empty() {
            let _ = writeln!(text, "{axes}");
        }
        text += &verdict(study, index, fit);
        if let Some(least) = fit.least.as_ref().filter(|least| !least.changes.is_empty()) {
            let _ = writeln!(text, "\nthe least change that fits: {}", of_budget(least, fit));
            text += &explained(least);
        }
        if !fit.others.is_empty() {
            text += "\nother ways, each without one of these changes\n";
            for other in &fit.others {
                let (needed, changes) = (of_budget(other, fit), changes(other).join(", "));
                let line = wrapped(&format!("  {needed}: {changes} ({})", cost(other)), 4);
                let _ = writeln!(text, "{line}");
            }
        }
        if fit.front.len() > 1 && (fits.len() == 1 || fit.budget.is_none()) {
            let _ = writeln!(
                text,
                "\nmemory against price, the least change first\n{}",
                front(fit).trim_end()
            );
        }
        text += &remarks(fit);
        if let Some(configuration) = study.named_configuration() {
            text += &configuration_for_people(&configuration);
        }
        let end = format!(
            "cell {}; {} of {} combinations were planned; all figures are predicted",
            study.cells[index].id,
            format::number((fit.planned as f64).into(), 0),
            format::number(fit.combinations.into(), 0)
        );
        let _ = writeln!(text, "\n{}", wrapped(&end, 2));
    }
    if fits.len() > 1 && fits.iter().any(|fit| fit.budget.is_some()) {
        text += "\nmemory against price, of one cell: --cell ID\n";
    }
    text
}

/// What is uncertain about the least change that fits, or about the cell as it is, and the notes on it.
fn remarks(fit: &CellFit) -> String {
    let Some(best) = fit.least.as_ref().or(fit.front.first()) else {
        return String::new();
    };
    let prediction = &best.prediction;
    let mut text = String::new();
    let reason = range_reason(prediction);
    if let (Some(reason), Some(range)) = (&reason, range(prediction)) {
        let of = match best.changes.is_empty() {
            true => "as it is",
            false => "with the least change",
        };
        let line = wrapped(&format!("range: {range} {of}, by the {reason}"), 2);
        let _ = writeln!(text, "\n{line}");
    }
    let others = fit.front.iter().map(|found| &found.prediction);
    text += &range_reasons(others.filter(|other| range_reason(other) != reason));
    let notes = &prediction.notes;
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrapped(&format!("note: {note}"), 2));
    }
    text
}

/// The cell as it is, and how much must go.
fn verdict(study: &Study, index: usize, fit: &CellFit) -> String {
    let Some(given) = fit.front.first().map(|given| &given.prediction) else {
        return String::new();
    };
    let mut text = sentence(&study.cells[index].cell, given, fit.headroom);
    if let Some(budget) = fit.budget {
        // With room for its cache: what changes are compared by is without a limit, too.
        let room = given.reserved_with_room_bytes.zip(given.context_bytes);
        let needed = room.map_or(given.needed_bytes, |(reserved, context)| reserved + context);
        let limit = budget.saturating_sub(fit.headroom);
        let least = fit.front.last().map_or(needed, |last| last.prediction.needed_bytes);
        if let Some(over) = needed.checked_sub(limit).filter(|over| *over > 0) {
            let of_headroom = match fit.headroom {
                0 => String::new(),
                headroom => format!(" to leave {} free", bytes(headroom)),
            };
            let _ = write!(text, "; {} must go{of_headroom}", bytes(over));
        }
        if fit.least.is_none() {
            let fits = match given.verdict {
                Some(Verdict::Fits) => "leaves that free for certain",
                _ => "makes it fit",
            };
            let _ = write!(
                text,
                "; no change that may be made {fits}, {} is the least",
                bytes(least)
            );
        }
    } else if given.judgement(0).is_none() {
        text += "; there is no budget";
    }
    wrapped(&text, 2) + "\n"
}

/// A line for each change, with its price.
fn explained(found: &Found) -> String {
    let line = |changed: &Changed| {
        let keys: Vec<String> = changed
            .keys
            .iter()
            .map(|(key, value)| format!("{key}: {}", to_flow_yaml(value)))
            .collect();
        wrapped(&format!("  {} ({})", keys.join(", "), changed.meaning), 4) + "\n"
    };
    found.changes.iter().map(line).collect()
}

/// The front: a line for each row, and below it the changes.
fn front(fit: &CellFit) -> String {
    let mut columns = vec!["needs"];
    columns.extend(fit.budget.map(|_| "verdict"));
    let has_range = fit.front.iter().any(|found| range(&found.prediction).is_some());
    columns.extend(has_range.then_some("range"));
    columns.extend(["more FLOPs", "harm"]);
    let mut table = Table::new(columns);
    for found in &fit.front {
        let mut row = vec![json!(bytes(found.prediction.needed_bytes))];
        let verdict = prediction_view::verdict(&found.prediction, fit.headroom).0;
        row.extend(fit.budget.map(|_| json!(verdict)));
        row.extend(has_range.then(|| json!(range_cell(&found.prediction))));
        let recomputed = found.price.amount(Harm::Recomputation);
        let flops = match recomputed > 0.0 {
            true => format::percent(recomputed.into()),
            false => format::ABSENT.to_owned(),
        };
        row.extend([json!(flops), json!(in_words(found.price.worst()))]);
        table.rows.push(row);
    }
    let aligned = table.aligned();
    let mut lines = aligned.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, found) in lines.zip(&fit.front) {
        let words = match found.changes.is_empty() {
            true => "as it is".to_owned(),
            false => changes(found).join(", "),
        };
        let _ = writeln!(text, "{line}\n{}", wrapped(&format!("    {words}"), 6));
    }
    text
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
                "headroom_bytes": fit.headroom,
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

/// `22.1 GB, fits (93 %)`.
fn of_budget(found: &Found, fit: &CellFit) -> String {
    let needed = bytes(found.prediction.needed_bytes);
    match prediction_view::verdict(&found.prediction, fit.headroom) {
        (verdict, Some(_)) => format!("{needed}, {verdict}"),
        (_, None) => needed,
    }
}

fn bytes(size: u64) -> String {
    or_absent(Some(size), format::bytes)
}
