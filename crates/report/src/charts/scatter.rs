//! Memory against speed, and against loss.

use base::text::format;
use chart::{Point, SERIES_COLOURS, Scatter};

use super::view::{Memory, View, varying};
use crate::axes::last_part;
use crate::front::Place;
use crate::group::Group;
use crate::labels::{Labels, distinct, is_optional};
use crate::methods::Titles;
use crate::speeds::Speeds;

/// Memory against speed, unless noise forbids to compare speeds.
pub(super) fn memory_speed(view: &View<'_>, speeds: &Speeds) -> Result<Scatter, String> {
    if let Some(remark) = &speeds.remark {
        return Err(remark.clone());
    }
    let memory = view.memory()?;
    let axis = Axis {
        column: speeds.of.column,
        name: "speed",
        said: |value| format::rate(value.into()),
        unit: speeds.of.unit,
    };
    let (points, labelled) = points(view, memory, &axis)?;
    Ok(Scatter {
        title: view.title(&format!("{} memory against speed", memory.name)),
        subtitle: view.subtitle(&format!("Lower and further right is better.{labelled}")),
        x_title: format!("Speed ({})", speeds.of.unit),
        y_title: view.scale(memory.name),
        x_is_log: false,
        y_is_log: false,
        points,
        line: Vec::new(),
        curves: Vec::new(),
    })
}

/// Memory against the loss that methods are compared by.
pub(super) fn memory_loss(view: &View<'_>, loss: &'static str) -> Result<Scatter, String> {
    let memory = view.memory()?;
    let name = format!("{} memory", memory.name);
    let in_unit = |group: &Group| Some(view.in_unit(view.value(group, memory.column)?));
    let says = |group: &Group| {
        let bytes = view.value(group, memory.column).unwrap_or_default();
        format!("{} {}", memory.name.to_lowercase(), view.said(bytes))
    };
    let (points, front) = by_method(view, loss, in_unit, says, |group| group.pareto.memory)?;
    Ok(Scatter {
        title: view.title(&format!("{name} against loss")),
        y_title: view.scale(memory.name),
        y_is_log: false,
        ..against_loss(view, loss, points, front)
    })
}

/// The size of what a method saves against the loss.
pub(super) fn file_loss(view: &View<'_>, loss: &'static str) -> Result<Scatter, String> {
    view.measured()?;
    let size = |group: &Group| Some(view.in_unit(group.file()?.bytes)).filter(|size| *size > 0.0);
    let says = |group: &Group| format!("file {}", view.said(group.file().map_or(0.0, |file| file.bytes)));
    let (points, front) = by_method(view, loss, size, says, |group| group.pareto.file)?;
    Ok(Scatter {
        title: view.title("File size against loss"),
        y_title: view.scale("File"),
        y_is_log: true,
        ..against_loss(view, loss, points, front)
    })
}

/// What charts of a loss share.
fn against_loss(view: &View<'_>, loss: &str, points: Vec<Point>, front: Vec<(f64, f64)>) -> Scatter {
    let dashed = match front[..] {
        [] => "",
        _ => "; the dashed line is the Pareto front, and grey points are behind it",
    };
    let bars = match points.iter().any(|point| point.deviation.is_some()) {
        true => " Bars: the standard deviation over seeds.",
        false => "",
    };
    Scatter {
        title: String::new(),
        subtitle: view.subtitle(&format!("Lower and further left is better{dashed}.{bars}")),
        x_title: if loss == "loss_eval" { "Eval loss" } else { "Train loss" }.into(),
        y_title: String::new(),
        x_is_log: false,
        y_is_log: false,
        points,
        line: staircase(&front),
        curves: Vec::new(),
    }
}

/// Points, and the corners of their front from the lowest loss on.
type Plotted = (Vec<Point>, Vec<(f64, f64)>);

/// A point for each method that has the loss and the quantity, and the front.
fn by_method(
    view: &View<'_>,
    loss: &'static str,
    quantity: impl Fn(&Group) -> Option<f64>,
    says: impl Fn(&Group) -> String,
    place: impl Fn(&Group) -> Place,
) -> Result<Plotted, String> {
    let at = |group: &Group| Some((view.value(group, loss)?, quantity(group)?));
    let shown: Vec<&Group> = view.groups.iter().filter(|group| at(group).is_some()).collect();
    match shown[..] {
        [] => return Err("no loss was measured".into()),
        [_] => return Err("the loss of only one cell was measured".into()),
        [first, ..]
            if shown
                .iter()
                .all(|group| view.value(group, loss) == view.value(first, loss)) =>
        {
            return Err("the loss is the same in all cells".into());
        }
        _ => {}
    }
    let titles = Titles::new(shown.clone(), view.axes);
    let has_front = shown.iter().any(|group| place(group).on);
    let point = |group: &&Group| {
        let (x, y) = at(group)?;
        let title = titles.of(group);
        Some(Point {
            x,
            y,
            deviation: view.deviation(group, loss),
            says: format!("{title}: {}, loss {}", says(group), format::number(x.into(), 4)),
            label: title,
            series: None,
            is_muted: has_front && !place(group).on,
        })
    };
    let points = shown.iter().filter_map(point).collect();
    let on_front = shown.iter().filter(|group| place(group).on);
    let mut front: Vec<(f64, f64)> = on_front.filter_map(|group| at(group)).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok((points, front))
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

/// The column of a horizontal axis, and its value in words.
struct Axis {
    column: &'static str,
    name: &'static str,
    said: fn(f64) -> String,
    unit: &'static str,
}

/// A point for each group, and the explanation of the labels.
fn points(view: &View<'_>, memory: Memory, x: &Axis) -> Result<(Vec<Point>, String), String> {
    let shown = view.having(&[memory.column, x.column]);
    let value = |group: &Group| view.value(group, x.column);
    match shown[..] {
        [] => return Err(format!("no {} was measured", x.name)),
        [_] => return Err(format!("the {} of only one cell was measured", x.name)),
        [first, ..] if shown.iter().all(|group| value(group) == value(first)) => {
            return Err(format!("the {} is the same in all cells", x.name));
        }
        _ => {}
    }
    let axes = varying(&shown, view.axes);
    let series_axis = series_axis(&shown, &axes);
    let all = Labels::new(&shown, view.axes);
    let labels = Labels::new(&shown, axes.iter().copied().filter(|axis| Some(*axis) != series_axis));
    let point = |group: &&Group| {
        let (x_value, bytes) = (value(group)?, view.value(group, memory.column)?);
        Some(Point {
            x: x_value,
            y: view.in_unit(bytes),
            deviation: None,
            label: labels.of_set(group).unwrap_or_else(|| all.of(group)),
            says: format!(
                "{}: {} {}, {} {}",
                all.of(group),
                memory.name.to_lowercase(),
                view.said(bytes),
                (x.said)(x_value),
                x.unit
            )
            .trim_end()
            .to_owned(),
            is_muted: false,
            series: series_axis.map(|axis| format!("{} {}", last_part(axis), group.axes[axis])),
        })
    };
    Ok((shown.iter().filter_map(point).collect(), labels.explained()))
}

/// The axis that colours stand for: of several axes the one with the fewest values, because colours are harder to tell
/// apart than letters.
fn series_axis<'a>(shown: &[&Group], axes: &[&'a String]) -> Option<&'a String> {
    if axes.len() < 2 {
        return None;
    }
    let counted = axes.iter().map(|axis| (distinct(shown, axis), *axis));
    // A colour for each point would say nothing.
    let counted = counted.filter(|(n, _)| *n < shown.len());
    // The last of equals: the axis that the spec names first stays in the labels.
    let few = counted
        .filter(|(n, axis)| *n <= SERIES_COLOURS && !is_optional(shown, axis))
        .rev();
    few.min_by_key(|(n, _)| *n).map(|(_, axis)| axis)
}
