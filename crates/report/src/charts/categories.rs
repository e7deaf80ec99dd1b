//! The live bytes at the instant of the peak, by category.

use chart::{Bar, Bars, Colour, Part, Row};
use records::prediction::ROUNDING;
use results::columns::category_column;
use trace::Category;

use super::view::{ALLOCATED, View, few_enough, said};
use crate::change::{self, Order};
use crate::group::Group;
use crate::labels::Labels;

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
    if shown.len() > 1 && !used.iter().any(differs) {
        return Err("every category is the same in all cells, within 0.5 % of the peak".into());
    }
    let labels = Labels::new(&shown, view.axes);
    let (names, explained) = names(&shown, &labels);
    let row = |(group, name): (&&Group, &String)| {
        let peak = view.value(group, ALLOCATED.column).unwrap_or(0.0);
        let part = |held: &Held| Part {
            length: view.in_unit(bytes(group, held)),
            colour: held.colour,
            says: format!("{name}: {} {} of {}", held.name, said(bytes(group, held)), said(peak)),
        };
        Row {
            bars: vec![Bar {
                start: 0.0,
                parts: used.iter().map(part).collect(),
                note: said(peak),
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
        rows: shown.iter().zip(&names).map(row).collect(),
        line: None,
    })
}

/// The rows' names, and the sentence that explains them.
fn names(shown: &[&Group], labels: &Labels<'_>) -> (Vec<String>, String) {
    let Some((Order::Cumulative, steps)) = change::changes(shown) else {
        return (shown.iter().map(|group| labels.of(group)).collect(), labels.explained());
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
