//! What differs between two plans, and between two runs.

use std::collections::{BTreeMap, BTreeSet};

use expctl::cell::acts::Move;
use serde_json::Value;

/// Values by their names.
pub type Figures = BTreeMap<String, Value>;

/// The figures below `value`, by dotted names.
pub fn flatten(value: &Value, prefix: &str, figures: &mut Figures) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                flatten(value, &format!("{prefix}{name}."), figures);
            }
        }
        value => _ = figures.insert(prefix.trim_end_matches('.').to_owned(), value.clone()),
    }
}

fn differing<'f>(before: &'f Figures, after: &'f Figures) -> impl Iterator<Item = &'f str> {
    let changed = before.iter().filter(|(name, value)| after.get(*name) != Some(*value));
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    changed.chain(new).map(|(name, _)| name.as_str())
}

/// The kinds of figures that differ between two plans.
pub fn in_plans(before: &Figures, after: &Figures) -> BTreeSet<Move> {
    // Bounds of a range and what follows from the budget are no figures of memory, and the process is rounded.
    let told = [
        "fits_with",
        "budget",
        "needed",
        "_low_",
        "_high_",
        "process",
        "rounding",
    ];
    let kind = |name: &str| match name {
        "cell_id" => None,
        name if name.ends_with("file_bytes") => Some(Move::File),
        name if name.ends_with("_bytes") && !told.iter().any(|told| name.contains(told)) => Some(Move::Bytes),
        name if name.contains("process") || name.contains("rounding") => None,
        _ => Some(Move::Report),
    };
    differing(before, after).filter_map(kind).collect()
}

/// The kinds of figures that differ between two runs, without those that differ between any two.
pub fn in_runs(before: &Figures, after: &Figures) -> BTreeSet<Move> {
    let kind = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let is_noise = ["reserved", "process", "system", "page_faults", "seconds"]
            .iter()
            .any(|noise| last.contains(noise));
        match name {
            // The bytes that wait in the host's memory are those of a moment.
            _ if is_noise || last == "host" => None,
            "adapter" => Some(Move::File),
            "status" | "reason" => Some(Move::Report),
            name if name.starts_with("oom.") || name.starts_with("provenance.") => Some(Move::Report),
            name if !name.starts_with("measured.") => None,
            name if last.contains("loss") || name.contains("forgetting") => Some(Move::Loss),
            _ if ["tokens", "real_tokens", "steps"].contains(&last) => Some(Move::Tokens),
            _ if last.ends_with("file_bytes") => Some(Move::File),
            name if last.ends_with("_bytes") || name.contains("_by_") || name.contains("in_phase") => Some(Move::Bytes),
            _ => None,
        }
    };
    differing(before, after).filter_map(kind).collect()
}
