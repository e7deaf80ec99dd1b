//! The charts of a report, made from its groups.

use std::collections::BTreeSet;

use super::chart::{Bar, Growth, Point, SERIES_COLOURS, Sample, Scatter, Series, StackedBars, bar_color};
use super::group::Group;
use crate::memory::Category;
use crate::results::columns::category_column;
use crate::text::format::{self, ByteUnit};

/// The most bars of a chart.
const MAX_BARS: usize = 100;

/// Peak memory against speed; `None` for fewer than two points.
pub(crate) fn memory_speed(groups: &[Group], axes: &[String], unit: ByteUnit) -> Option<Scatter> {
    let (points, labelled) = points(groups, axes, unit, "tokens_per_second");
    (points.len() > 1).then(|| Scatter {
        title: "Peak allocated memory against speed".into(),
        subtitle: format!("Lower and further right is better.{labelled}"),
        x_title: "Speed (tokens/s)".into(),
        y_title: format!("Peak allocated ({})", unit.name()),
        points,
        line: Vec::new(),
    })
}

/// Peak memory against the loss that methods are compared by; `None` for fewer than two points.
pub(crate) fn memory_loss(groups: &[Group], axes: &[String], unit: ByteUnit, loss: &str) -> Option<Scatter> {
    let (points, labelled) = points(groups, axes, unit, loss);
    let mut front: Vec<(f64, f64)> = groups
        .iter()
        .filter(|group| group.pareto)
        .filter_map(|group| Some((group.mean(loss)?, group.mean("allocated_peak_bytes")? / unit.bytes())))
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = if loss == "loss_eval" { "Eval loss" } else { "Train loss" };
    (points.len() > 1).then(|| Scatter {
        title: "Peak allocated memory against loss".into(),
        subtitle: format!("Lower and further left is better; the dashed line is the Pareto front.{labelled}"),
        x_title: name.into(),
        y_title: format!("Peak allocated ({})", unit.name()),
        points,
        line: staircase(&front),
    })
}

/// The front as a staircase: up to the next point's loss, no method needs less memory than this point.
fn staircase(front: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line = Vec::new();
    for (i, &(x, y)) in front.iter().enumerate() {
        line.push((x, y));
        if let Some(&(next, _)) = front.get(i + 1) {
            line.push((next, y));
        }
    }
    line
}

/// A point for each measured group, and the explanation of the labels.
fn points(groups: &[Group], axes: &[String], unit: ByteUnit, x: &str) -> (Vec<Point>, String) {
    let at = |group: &Group| {
        let x = group.mean(x).filter(|x| x.is_finite())?;
        Some((x, group.mean("allocated_peak_bytes")? / unit.bytes()))
    };
    let shown: Vec<&Group> = groups.iter().filter(|group| at(group).is_some()).collect();
    let axes = varying(&shown, axes);
    let series_axis = series_axis(&shown, &axes);
    let labels: Vec<&String> = axes.iter().copied().filter(|axis| Some(*axis) != series_axis).collect();
    let point = |group: &&Group| {
        let (x, y) = at(group)?;
        Some(Point {
            x,
            y,
            label: label(group, &labels),
            series: series_axis.map(|axis| format!("{} {}", last_part(axis), group.axes[axis])),
        })
    };
    (shown.iter().filter_map(point).collect(), labelled(&labels))
}

/// The live bytes at the instant of the peak, by category; `None` if no cell was measured.
pub(crate) fn categories(groups: &[Group], axes: &[String], unit: ByteUnit) -> Option<StackedBars> {
    let tensors: Vec<Category> = Category::ALL
        .into_iter()
        .filter(|category| category.is_tensor())
        .collect();
    let bytes = |group: &Group, category: Category| group.mean(&category_column(category.name()));
    let used: Vec<Category> = tensors
        .into_iter()
        .filter(|&category| {
            groups
                .iter()
                .any(|group| bytes(group, category).is_some_and(|n| n > 0.0))
        })
        .collect();
    let shown: Vec<&Group> = groups
        .iter()
        .filter(|group| group.mean("allocated_peak_bytes").is_some())
        .collect();
    if shown.is_empty() || shown.len() > MAX_BARS || used.is_empty() {
        return None;
    }
    let labels = varying(&shown, axes);
    let bar = |group: &&Group| Bar {
        label: label(group, &labels),
        parts: used
            .iter()
            .map(|&category| bytes(group, category).unwrap_or(0.0) / unit.bytes())
            .collect(),
        note: format::bytes(group.mean("allocated_peak_bytes").unwrap_or(0.0).into()),
    };
    Some(StackedBars {
        title: "Allocated memory at its peak, by category".into(),
        subtitle: format!("Live tensor bytes at the instant of the peak.{}", labelled(&labels)),
        x_title: format!("Allocated ({})", unit.name()),
        legend: used
            .iter()
            .map(|&category| (category.name().replace('_', " "), bar_color(category)))
            .collect(),
        bars: shown.iter().map(bar).collect(),
    })
}

/// The fewest values of a quantity that show growth.
const MIN_VALUES: usize = 3;

/// Peak memory and speed over the axis that is a quantity, the one with the most values. `None` without such an axis, or
/// with more other configurations than colours.
pub(crate) fn growth(groups: &[Group], axes: &[String], unit: ByteUnit) -> Option<Growth> {
    let y = |group: &Group| {
        let memory = group.mean("allocated_peak_bytes")? / unit.bytes();
        Some(vec![memory, group.mean("tokens_per_second")?])
    };
    let shown: Vec<&Group> = groups.iter().filter(|group| y(group).is_some()).collect();
    let axes = varying(&shown, axes);
    let is_quantity = |axis: &&String| shown.iter().all(|group| quantity(group, axis).is_some());
    let quantities = axes.iter().copied().filter(is_quantity).rev();
    let over = quantities.max_by_key(|axis| distinct(&shown, axis))?;
    let others: Vec<&String> = axes.into_iter().filter(|axis| *axis != over).collect();
    let mut series: Vec<Series> = Vec::new();
    for group in &shown {
        let name = match others[..] {
            [] => String::new(),
            _ => label(group, &others),
        };
        let sample = Sample {
            x: quantity(group, over)?,
            y: y(group)?,
            label: (over == MODEL).then(|| group.axes[over].clone()),
        };
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
    let grows = series.iter().any(|series| series.samples.len() >= MIN_VALUES);
    (grows && series.len() <= SERIES_COLOURS).then(|| Growth {
        title: format!("Memory and speed over {}", last_part(over)),
        subtitle: format!(
            "All scales are linear and begin at zero: a straight line is linear growth.{}",
            labelled(&others)
        ),
        x_title: if over == MODEL {
            "Parameters of the base model (millions)".into()
        } else {
            over.clone()
        },
        panels: vec![format!("Peak allocated ({})", unit.name()), "Speed (tokens/s)".into()],
        series,
    })
}

/// The axis whose quantity is the size of the model.
const MODEL: &str = "model";

/// A group's place on an axis that is a quantity.
fn quantity(group: &Group, axis: &str) -> Option<f64> {
    if axis == MODEL {
        return Some(group.mean("parameter_count")? / 1e6);
    }
    let value = group.cells.first()?.number(axis)?;
    // Rank 0 trains every weight, so it is not a small rank.
    (axis != "rank" || value > 0.0).then_some(value)
}

/// The axes in which the groups of a chart differ. A failed group, which is not shown, may be the only different one.
fn varying<'a>(shown: &[&Group], axes: &'a [String]) -> Vec<&'a String> {
    axes.iter().filter(|axis| distinct(shown, axis) > 1).collect()
}

fn distinct(shown: &[&Group], axis: &str) -> usize {
    let values: BTreeSet<&String> = shown.iter().map(|group| &group.axes[axis]).collect();
    values.len()
}

/// The axis that colours stand for: of several axes the one with the fewest values, because colours are harder to tell
/// apart than letters.
fn series_axis<'a>(shown: &[&Group], axes: &[&'a String]) -> Option<&'a String> {
    if axes.len() < 2 {
        return None;
    }
    let counted = axes.iter().map(|axis| (distinct(shown, axis), *axis));
    // The last of equals: the axis that the spec names first stays in the labels.
    let few = counted.filter(|(n, _)| *n <= SERIES_COLOURS).rev();
    few.min_by_key(|(n, _)| *n).map(|(_, axis)| axis)
}

/// The label of a point or a bar.
fn label(group: &Group, axes: &[&String]) -> String {
    match axes {
        [] => group.label.clone(),
        [axis] => format!("{} {}", last_part(axis), group.axes[*axis]),
        _ => {
            let values: Vec<&str> = axes.iter().map(|axis| group.axes[*axis].as_str()).collect();
            values.join(" · ")
        }
    }
}

/// The explanation of labels of several values, for a subtitle.
fn labelled(axes: &[&String]) -> String {
    if axes.len() < 2 {
        return String::new();
    }
    let names: Vec<&str> = axes.iter().map(|axis| last_part(axis)).collect();
    format!(" Labels: {}.", names.join(" · "))
}

fn last_part(axis: &str) -> &str {
    axis.rsplit('.').next().unwrap_or(axis)
}
