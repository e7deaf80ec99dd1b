//! The shares of their budgets that plans need, as a heat map.

use base::text::format;
use chart::{Colour, HeatMap, Square};
use trace::Category;

use super::growth::{longest_quantity, quantity};
use super::view::{View, few_enough, varying};
use crate::axes::last_part;
use crate::group::Group;
use crate::judged::Judged;
use crate::labels::Labels;

/// The most columns whose squares are wide enough for their words.
const MAX_COLUMNS: usize = 8;
/// From this multiple of the budget on, a square is as strong as can be.
const STRONGEST: f64 = 4.0;

/// A column for each value of the quantity with the most values, a row for the rest; what is needed of the budget, and
/// its largest part.
pub(super) fn heat_map(view: &View<'_>) -> Result<HeatMap, String> {
    let shown: Vec<&Group> = view.groups.iter().filter(|group| Judged::of(group).is_some()).collect();
    if shown.is_empty() {
        return Err("no cell has a budget".into());
    }
    let axes = varying(&shown, view.axes);
    let over = longest_quantity(view, &shown, &axes).ok_or("no axis is a quantity")?;
    let mut columns: Vec<(f64, String)> = Vec::new();
    for group in &shown {
        let name = &group.axes[over];
        if columns.iter().all(|(_, known)| known != name) {
            columns.push((quantity(view, group, over).unwrap_or_default(), name.clone()));
        }
    }
    columns.sort_by(|a, b| a.0.total_cmp(&b.0));
    if columns.len() > MAX_COLUMNS {
        return Err(format!(
            "{} values are more columns than the {MAX_COLUMNS} that have room",
            columns.len()
        ));
    }
    let others = Labels::new(&shown, axes.iter().copied().filter(|axis| *axis != over));
    if others.is_empty() {
        return Err("only one axis varies".into());
    }
    let mut rows: Vec<(String, Vec<Option<Square>>)> = Vec::new();
    let mut first_of_rows: Vec<&Group> = Vec::new();
    for group in shown {
        let name = others.of(group);
        let row = rows.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            rows.push((name.clone(), vec![None; columns.len()]));
            first_of_rows.push(group);
            rows.len() - 1
        });
        let column = columns.iter().position(|(_, known)| *known == group.axes[over]);
        let place = column.and_then(|column| rows[row].1.get_mut(column));
        if let (Some(place), Some(judged)) = (place, Judged::of(group))
            && place
                .replace(square(
                    &judged,
                    &format!("{name}, {} {}", last_part(over), group.axes[over]),
                ))
                .is_some()
        {
            return Err(format!("two cells are `{name}` with {over} {}", group.axes[over]));
        }
    }
    few_enough(&first_of_rows)?;
    Ok(HeatMap {
        title: "Predicted memory needed of the budget".into(),
        subtitle: format!(
            "Computed from shapes, not measured. The share of the budget, and the largest part of what is allocated at the \
             peak. The stronger a colour, the larger the share.{}",
            others.explained()
        ),
        x_title: over.clone(),
        legend: vec![("fits".into(), Colour::Less), ("does not fit".into(), Colour::More)],
        columns: columns.into_iter().map(|(_, name)| name).collect(),
        rows,
    })
}

/// The square of a plan: its share, and its largest part.
fn square(judged: &Judged<'_>, name: &str) -> Square {
    let share = judged.share();
    let percent = format!("{}%", format::number((100.0 * share).into(), 0));
    let mut lines = vec![percent.clone()];
    lines.extend(largest_part(judged.group).map(str::to_owned));
    let strength = match judged.fits {
        true => share,
        false => (share.max(1.0).log2() / STRONGEST.log2()).max(0.2),
    };
    Square {
        colour: if judged.fits { Colour::Less } else { Colour::More },
        strength,
        says: format!(
            "{name}: {} of {}, {percent}",
            format::bytes(judged.needed.into()),
            format::bytes(judged.budget.into())
        ),
        lines,
    }
}

/// The category of which most is allocated at the peak, in a word.
fn largest_part(group: &Group) -> Option<&'static str> {
    let cell = group.cells.first()?;
    let bytes = |category: Category| {
        let column = format!("predicted_allocated_peak_{}_bytes", category.name());
        cell.number(&column).filter(|bytes| *bytes > 0.0)
    };
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    let known = tensors.filter_map(|category| Some((category, bytes(category)?)));
    let (largest, _) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(match largest {
        Category::Parameter => "weights",
        Category::Adapter => "adapters",
        Category::OptimizerState => "states",
        Category::Gradient => "gradients",
        Category::Activation => "activations",
        Category::Input => "inputs",
        Category::Temporary => "temporaries",
        Category::Host | Category::Offloaded => return None,
    })
}
