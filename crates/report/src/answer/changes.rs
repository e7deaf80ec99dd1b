//! A study that makes one change after the other: what each is worth.

use std::cmp::Ordering;

use base::text::counted;
use base::text::format::{bytes, percent};

use super::evidence::Evidence;
use super::figures::{ALLOCATED, Figures};
use super::naming::listed;
use super::sentence::Sentence;
use crate::change::{self, Order};
use crate::group::Group;
use crate::markdown::line_code as code;

/// The most savings that are named.
const MOST_SAVINGS: usize = 3;

/// A smaller change of reserved memory is noise of the allocator.
const NOTABLE: f64 = 0.02;

/// A change and the memory after it, less that before it.
struct Change {
    words: String,
    rise: f64,
    /// Reserved memory before the change and after it; `None` if it is not known.
    reserved: Option<(f64, f64)>,
}

/// The way from the first configuration to the last, with its largest savings and with what makes things worse. `None`
/// if the study does not make one change after the other.
pub(super) fn sentence(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let groups: Vec<&Group> = evidence.groups.iter().collect();
    let (Order::Cumulative, steps) = change::changes(&groups)? else {
        return None;
    };
    let at = |group: &Group| figures.mean(group, ALLOCATED);
    let mut changes = Vec::new();
    for (pair, axes) in groups.windows(2).zip(&steps) {
        let reserved = |group: &Group| figures.mean(group, "reserved_peak_bytes");
        changes.push(Change {
            words: code(&change::words(pair[0], pair[1], axes)),
            rise: at(pair[1])? - at(pair[0])?,
            reserved: reserved(pair[0]).zip(reserved(pair[1])),
        });
    }
    let (first, last) = (at(groups[0])?, at(groups[groups.len() - 1])?);
    let kind = figures.peak();
    let mut text = format!(
        "Together the {} take the {kind} of allocated memory from {} to {} ({}).",
        counted(changes.len(), "change"),
        bytes(first.into()),
        bytes(last.into()),
        signed_percent(last / first - 1.0),
    );
    text += &savings(&changes);
    text += &rises(&changes);
    text += &unchanged(&changes);
    Some(Sentence::about(text, figures, groups))
}

/// The changes that save most, the largest saving first.
fn savings(changes: &[Change]) -> String {
    let mut saving: Vec<&Change> = changes.iter().filter(|change| change.rise < 0.0).collect();
    saving.sort_by(|a, b| a.rise.partial_cmp(&b.rise).unwrap_or(Ordering::Equal));
    let named = saving.iter().take(MOST_SAVINGS);
    let named: Vec<String> = named
        .map(|change| format!("{} ({})", change.words, bytes((-change.rise).into())))
        .collect();
    if named.is_empty() {
        return String::new();
    }
    format!(" Most is saved by {}.", listed(&named))
}

/// The changes that raise allocated memory, and those that raise reserved memory without it.
fn rises(changes: &[Change]) -> String {
    let more = |change: &Change| {
        if change.rise > 0.0 {
            let amount = bytes(change.rise.into());
            return Some(format!("{} adds {amount}", change.words));
        }
        let (before, after) = change.reserved?;
        let amount = bytes((after - before).into());
        (after > before * (1.0 + NOTABLE)).then(|| format!("{} has the allocator hold {amount} more", change.words))
    };
    let more: Vec<String> = changes.iter().filter_map(more).collect();
    if more.is_empty() {
        return String::new();
    }
    format!(" Not every change saves: {}.", listed(&more))
}

/// The number of changes without effect on the peak.
fn unchanged(changes: &[Change]) -> String {
    let same: Vec<String> = changes
        .iter()
        .filter(|change| change.rise == 0.0)
        .map(|change| change.words.clone())
        .collect();
    if same.is_empty() {
        return String::new();
    }
    format!(" The peak is the same after {}.", listed(&same))
}

fn signed_percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", percent(share.abs().into()))
}
