//! The live bytes at the instant of the peak, by category.

use chart::{Bar, Bars, Colour, Part, Row};
use records::prediction::ROUNDING;
use results::columns::category_column;
use trace::Category;

use super::view::{ALLOCATED, View, few_enough, varying};
use crate::change::{self, Order};
use crate::group::Group;
use crate::labels::{Labels, difference_label, differences};

/// The least difference that a reader sees in bars, as a part of the longest.
const VISIBLE: f64 = 0.005;

/// A bar of categories for each group.
pub(super) fn categories(view: &View<'_>) -> Result<Bars, String> {
    view.measured()?;
    let shown = view.having(&[ALLOCATED.column]);
    few_enough(&shown)?;
    let bytes = |group: &Group, part: &Held| view.value(group, &part.column).unwrap_or(0.0);
    let is_held = |part: &Held| shown.iter().any(|group| bytes(group, part) > 0.0);
    let used: Vec<Held> = parts().filter(is_held).collect();
    if used.is_empty() {
        return Err("no category holds memory".into());
    }
    let peaks = shown.iter().filter_map(|group| view.value(group, ALLOCATED.column));
    let visible = VISIBLE * peaks.fold(0.0, f64::max);
    let differs = |part: &Held| {
        shown
            .iter()
            .any(|group| (bytes(group, part) - bytes(shown[0], part)).abs() > visible)
    };
    if shown.len() == 1 {
        return Err("one bar compares nothing".into());
    }
    if !used.iter().any(differs) {
        return Err("every category is the same in all cells, within 0.5 % of the peak".into());
    }
    let labels = Labels::new(&shown, view.axes);
    let (names, explained) = names(view, &shown, &labels);
    let is_cumulative = matches!(change::changes(&shown), Some((Order::Cumulative, _)));
    let alike = |one: &Group, other: &Group| {
        let close = |part: &Held| (bytes(one, part) - bytes(other, part)).abs() <= visible;
        used.iter().all(close)
    };
    let merged = merged(shown.iter().copied().zip(names), |one, other| {
        !is_cumulative && alike(one, other)
    });
    let is_merged = merged.len() < shown.len();
    let explained = match is_merged {
        true => format!("{explained} Cells that differ by no more than 0.5 % of the longest bar share one."),
        false => explained,
    };
    let row = |(group, name): &(&Group, String)| {
        let peak = view.value(group, ALLOCATED.column).unwrap_or(0.0);
        let part = |held: &Held| Part {
            length: view.in_unit(bytes(group, held)),
            colour: held.colour,
            says: format!(
                "{name}: {} {} of {}",
                held.name,
                view.said(bytes(group, held)),
                view.said(peak)
            ),
        };
        Row {
            bars: vec![Bar {
                start: 0.0,
                parts: used.iter().map(part).collect(),
                note: view.said(peak),
            }],
            label: name.clone(),
            carry: None,
        }
    };
    Ok(Bars {
        title: view.title("Allocated memory at its peak, by category"),
        subtitle: view.subtitle(&format!("Live tensor bytes at the instant of the peak.{explained}")),
        x_title: view.scale("Allocated"),
        legend: used.iter().map(|held| (held.name.clone(), held.colour)).collect(),
        rows: merged.iter().map(row).collect(),
        line: None,
    })
}

/// The most axes of a label that has all of its values: of more, it has what differs from the base.
const MOST_AXES: usize = 2;

/// The first of the groups that are alike, with the shortest of their names and the number of the others.
fn merged<'g>(
    groups: impl Iterator<Item = (&'g Group, String)>,
    alike: impl Fn(&Group, &Group) -> bool,
) -> Vec<(&'g Group, String)> {
    let mut bars: Vec<(&Group, Vec<String>)> = Vec::new();
    for (group, name) in groups {
        match bars.iter_mut().find(|(first, _)| alike(first, group)) {
            Some((_, names)) => names.push(name),
            None => bars.push((group, vec![name])),
        }
    }
    let named = |(group, names): (&'g Group, Vec<String>)| {
        let shortest = names.iter().min_by_key(|name| name.chars().count());
        let shortest = shortest.cloned().unwrap_or_default();
        let name = match names.len() {
            1 => shortest,
            several => format!("{shortest} and {} more", several - 1),
        };
        (group, name)
    };
    bars.into_iter().map(named).collect()
}

/// The rows' names, and the sentence that explains them.
fn names(view: &View<'_>, shown: &[&Group], labels: &Labels<'_>) -> (Vec<String>, String) {
    let Some((Order::Cumulative, steps)) = change::changes(shown) else {
        if varying(shown, view.axes).len() <= MOST_AXES {
            return (shown.iter().map(|group| labels.of(group)).collect(), labels.explained());
        }
        let base = shown
            .iter()
            .copied()
            .find(|group| group.baseline)
            .or(shown.first().copied());
        let name = |group: &&Group| difference_label(&differences(group, base, view.axes));
        return (
            shown.iter().map(name).collect(),
            " Labels: what differs from the base.".to_owned(),
        );
    };
    let changes = shown.windows(2).zip(&steps);
    let changes = changes.map(|(pair, axes)| change::words(pair[0], pair[1], axes));
    let names = std::iter::once("start".to_owned()).chain(changes).collect();
    (names, " Each row keeps the changes above it.".into())
}

/// A part of a peak.
struct Held {
    name: String,
    column: String,
    colour: Colour,
}

/// The categories of tensors and, in plans of PyTorch's stack, what its allocator's blocks hold beyond them.
fn parts() -> impl Iterator<Item = Held> {
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let named = |(name, colour): (&str, Colour)| Held {
        name: name.replace('_', " "),
        column: category_column(name),
        colour,
    };
    let categories = tensors.map(|category| (category.name(), Colour::Category(category)));
    categories.chain([(ROUNDING, Colour::Rounding)]).map(named)
}
