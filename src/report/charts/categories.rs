//! The live bytes at the instant of the peak, by category.

use super::labels::Labels;
use super::view::{ALLOCATED, View, said};
use crate::memory::Category;
use crate::report::chart::{Bar, Bars, Colour, Part, Row};
use crate::report::group::Group;
use crate::results::columns::category_column;

/// The most rows of a chart.
const MAX_ROWS: usize = 60;

/// A bar of categories for each group.
pub(super) fn categories(view: &View<'_>) -> Result<Bars, String> {
    view.measured()?;
    let shown = view.having(&[ALLOCATED.column]);
    if shown.len() > MAX_ROWS {
        return Err(format!(
            "{} cells are more than the {MAX_ROWS} that a chart shows",
            shown.len()
        ));
    }
    let bytes = |group: &Group, category: Category| {
        let column = category_column(category.name());
        view.value(group, &column).unwrap_or(0.0)
    };
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let held = |category: &Category| shown.iter().any(|group| bytes(group, *category) > 0.0);
    let used: Vec<Category> = tensors.filter(held).collect();
    if used.is_empty() {
        return Err("no category holds memory".into());
    }
    let same = |group: &&Group| {
        used.iter()
            .all(|&category| bytes(group, category) == bytes(shown[0], category))
    };
    if shown.len() > 1 && shown.iter().all(same) {
        return Err("every category is the same in all cells".into());
    }
    let labels = Labels::new(&shown, view.axes);
    let row = |group: &&Group| {
        let name = labels.of(group);
        let peak = view.value(group, ALLOCATED.column).unwrap_or(0.0);
        let part = |&category: &Category| Part {
            length: view.in_unit(bytes(group, category)),
            colour: Colour::Category(category),
            says: format!(
                "{name}: {} {} of {}",
                words(category),
                said(bytes(group, category)),
                said(peak)
            ),
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
        subtitle: view.subtitle(&format!(
            "Live tensor bytes at the instant of the peak.{}",
            labels.explained()
        )),
        x_title: view.scale("Allocated"),
        legend: used
            .iter()
            .map(|&category| (words(category), Colour::Category(category)))
            .collect(),
        rows: shown.iter().map(row).collect(),
        line: None,
    })
}

fn words(category: Category) -> String {
    category.name().replace('_', " ")
}
