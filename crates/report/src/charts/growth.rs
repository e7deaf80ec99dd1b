//! Memory and speed over the axis that is a quantity.

use base::text::format;
use chart::{Growth, SERIES_COLOURS, Sample, Series};

use super::view::{View, varying};
use crate::axes::last_part;
use crate::group::Group;
use crate::labels::{Labels, distinct};

/// The fewest values of a quantity that show growth.
const MIN_VALUES: usize = 3;
const SPEED: &str = "tokens_per_second";
/// The axis whose quantity is the size of the model.
const MODEL: &str = "model";

/// Memory and speed over the quantity with the most values.
pub(super) fn growth(view: &View<'_>) -> Result<Growth, String> {
    let memory = view.memory()?;
    let has_speed = view.groups.iter().any(|group| view.value(group, SPEED).is_some());
    let columns = if has_speed {
        vec![memory.column, SPEED]
    } else {
        vec![memory.column]
    };
    let shown = view.having(&columns);
    let axes = varying(&shown, view.axes);
    let over = longest_quantity(view, &shown, &axes).ok_or("no axis is a quantity")?;
    let others = Labels::new(&shown, axes.iter().copied().filter(|axis| *axis != over));
    let all = Labels::new(&shown, view.axes);
    let mut series: Vec<Series> = Vec::new();
    for group in &shown {
        let name = if others.is_empty() {
            String::new()
        } else {
            others.of(group)
        };
        let sample = sample(view, group, over, &columns, all.of(group)).ok_or("no axis is a quantity")?;
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.samples.push(sample),
            None => series.push(Series {
                name,
                samples: vec![sample],
            }),
        }
    }
    for series in &mut series {
        series.samples.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    if series.iter().all(|series| series.samples.len() < MIN_VALUES) {
        return Err(format!("no axis that is a quantity has {MIN_VALUES} values"));
    }
    if series.len() > SERIES_COLOURS {
        return Err(format!("{} lines are more than colours can tell apart", series.len()));
    }
    let mut panels = vec![view.scale(memory.name)];
    panels.extend(has_speed.then(|| "Speed (tokens/s)".to_owned()));
    let what = if has_speed { "Memory and speed" } else { "Memory" };
    Ok(Growth {
        title: view.title(&format!("{what} over {}", last_part(over))),
        subtitle: view.subtitle(&format!(
            "All scales are linear and begin at zero: a straight line is linear growth.{}",
            others.explained()
        )),
        x_title: if over == MODEL {
            "Parameters of the base model (millions)".into()
        } else {
            over.clone()
        },
        panels,
        series,
    })
}

fn sample(view: &View<'_>, group: &Group, over: &str, columns: &[&str], name: String) -> Option<Sample> {
    let values: Option<Vec<f64>> = columns.iter().map(|column| view.value(group, column)).collect();
    let values = values?;
    let mut said = vec![view.said(*values.first()?)];
    said.extend(
        values
            .get(1)
            .map(|speed| format!("{} tokens/s", format::rate((*speed).into()))),
    );
    let mut y = values;
    y[0] = view.in_unit(y[0]);
    Some(Sample {
        x: quantity(view, group, over)?,
        y,
        says: format!("{name}: {}", said.join(", ")),
        label: (over == MODEL).then(|| group.axes[over].clone()),
    })
}

/// The axis that is a quantity in all groups and has the most values; the first of equal ones.
pub(super) fn longest_quantity<'a>(view: &View<'_>, shown: &[&Group], axes: &[&'a String]) -> Option<&'a String> {
    let is_quantity = |axis: &&String| shown.iter().all(|group| quantity(view, group, axis).is_some());
    let quantities = axes.iter().copied().filter(is_quantity).rev();
    quantities.max_by_key(|axis| distinct(shown, axis))
}

/// A group's place on an axis that is a quantity.
pub(super) fn quantity(view: &View<'_>, group: &Group, axis: &str) -> Option<f64> {
    if axis == MODEL {
        return Some(view.value(group, "parameter_count")? / 1e6);
    }
    let value = group.cells.first()?.number(axis)?;
    // Rank 0 trains every weight, so it is not a small rank.
    (axis != "rank" || value > 0.0).then_some(value)
}
