//! Series of otherwise equal configurations over an axis that is a number.

use std::cmp::Ordering;

use super::figures::{ALLOCATED, Figures, Instant};
use super::naming::name;
use crate::group::{Group, Stat};

/// Configurations that differ in one axis alone, by its rising value.
pub(super) struct Series<'g> {
    /// The values of the other axes; empty if there are none.
    pub name: String,
    /// Axes that change together with this one.
    pub paired: Vec<String>,
    /// At least two, with distinct values.
    pub points: Vec<Point<'g>>,
}

/// A configuration of a series.
pub(super) struct Point<'g> {
    /// The configuration.
    pub group: &'g Group,
    /// The axis' value as text.
    pub at: String,
    /// The quantity that memory is divided by.
    pub quantity: f64,
    /// The peak of allocated memory.
    pub peak: Stat,
    /// The instant of the peak, if it is known.
    pub instant: Option<Instant>,
}

/// The axis of gradient accumulation. Its first step from 1 adds the accumulated gradients, and no later one does.
pub(super) const ACCUMULATION: &str = "gradient_accumulation_steps";

/// The unit in which an axis counts; `None` if its number is no quantity, such as a seed or an interval.
pub(super) fn unit(axis: &str) -> Option<&'static str> {
    Some(match axis {
        "rank" => "trainable parameter",
        "model" => "parameter of the model",
        "max_seq_length" => "token",
        "batch_size" => "sample",
        ACCUMULATION => "micro-batch",
        "max_steps" => "step",
        "num_train_epochs" => "epoch",
        _ => return None,
    })
}

/// The series over an axis. Empty unless the axis is a quantity. Axes that change together with it, as `zip` pairs
/// them, do not divide it.
pub(super) fn series<'g>(groups: &'g [Group], axes: &[String], axis: &str, figures: Figures) -> Vec<Series<'g>> {
    let known: Vec<&Group> = groups
        .iter()
        .filter(|group| figures.mean(group, ALLOCATED).is_some())
        .collect();
    let (paired, others): (Vec<&String>, Vec<&String>) = axes
        .iter()
        .filter(|other| *other != axis)
        .partition(|other| are_paired(&known, axis, other));
    let mut series: Vec<(Vec<&String>, Series<'g>)> = Vec::new();
    for group in known {
        let Some(point) = point(group, axis, figures) else {
            continue;
        };
        let key: Vec<&String> = others.iter().map(|other| &group.axes[*other]).collect();
        if let Some((_, series)) = series.iter_mut().find(|(known, _)| *known == key) {
            series.points.push(point);
            continue;
        }
        let name = match others[..] {
            [] => String::new(),
            _ => name(group, groups, others.iter().copied()),
        };
        let found = Series {
            name,
            paired: paired.iter().map(ToString::to_string).collect(),
            points: vec![point],
        };
        series.push((key, found));
    }
    let mut series: Vec<Series<'g>> = series.into_iter().map(|(_, series)| series).collect();
    for series in &mut series {
        series.points.sort_by(|a, b| a.quantity.total_cmp(&b.quantity));
        series.points.dedup_by(|a, b| a.quantity == b.quantity);
    }
    series.retain(|series| series.points.len() > 1);
    series
}

/// The fewest configurations that show that two axes are paired.
const MIN_PAIRS: usize = 3;

/// True if two axes of whole numbers rise together, or one rises as the other falls, in all of at least three
/// configurations.
pub(super) fn are_paired(groups: &[&Group], first: &str, second: &str) -> bool {
    let value = |group: &&Group, axis: &str| group.cells.first()?.get(axis).as_int();
    let values = groups.iter().map(|group| value(group, first).zip(value(group, second)));
    let Some(mut pairs) = values.collect::<Option<Vec<(u64, u64)>>>() else {
        return false;
    };
    pairs.sort_unstable();
    pairs.dedup();
    let mut orders = pairs
        .windows(2)
        .map(|pair| (pair[0].0 < pair[1].0).then(|| pair[0].1.cmp(&pair[1].1)));
    let Some(Some(order)) = orders.next() else {
        return false;
    };
    pairs.len() >= MIN_PAIRS && order != Ordering::Equal && orders.all(|other| other == Some(order))
}

fn point<'g>(group: &'g Group, axis: &str, figures: Figures) -> Option<Point<'g>> {
    unit(axis)?;
    let quantity = match axis {
        "rank" => {
            // Rank 0 trains every weight, so it is not a small rank.
            let rank = group.cells.first()?.number(axis).filter(|rank| *rank > 0.0)?;
            figures.mean(group, "trainable_count").unwrap_or(rank)
        }
        "model" => figures.mean(group, "parameter_count")?,
        _ => group.cells.first()?.get(axis).as_int()? as f64,
    };
    Some(Point {
        group,
        at: group.axes.get(axis)?.clone(),
        quantity,
        peak: figures.stat(group, ALLOCATED)?,
        instant: figures.instant(group),
    })
}
