//! The loss over the learning rate, a line for each method.

use base::text::format;
use chart::{Point, Scatter};
use indexmap::IndexMap;

use super::view::{View, varying};
use crate::group::Group;
use crate::labels::Labels;
use crate::methods::{Method, is_of_methods};

const RATE: &str = "learning_rate";

/// The fewest rates of a line.
const FEWEST: usize = 2;

/// Losses that are farther above the lowest than this many times the distance between the lowest losses of methods are left
/// out: a training that diverged would press all others together.
const REACH: f64 = 1.5;

/// A method's rates with their losses.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// A line for each method that was trained at several rates. Its lowest point has the method's name.
pub(super) fn rates(view: &View<'_>, loss: &'static str) -> Result<Scatter, String> {
    view.measured()?;
    let at = |group: &Group| {
        Some((
            group.cells[0].number(RATE).filter(|rate| *rate > 0.0)?,
            view.value(group, loss)?,
        ))
    };
    let shown: Vec<&Group> = view.groups.iter().filter(|group| at(group).is_some()).collect();
    if !varying(&shown, view.axes).iter().any(|axis| *axis == RATE) {
        return Err("the learning rate does not vary".into());
    }
    let others = Labels::new(
        &shown,
        view.axes.iter().filter(|axis| *axis != RATE && !is_of_methods(axis)),
    );
    let mut methods: IndexMap<Vec<&str>, Line> = IndexMap::new();
    for group in &shown {
        let axes = group.axes.iter().filter(|(axis, _)| *axis != RATE);
        let key = axes.map(|(_, value)| value.as_str()).collect();
        let name = || match others.of_set(group) {
            Some(others) if !others.is_empty() && methods_are_alike(&shown, group) => {
                format!("{}, {others}", Method::name_of(group))
            }
            _ => Method::name_of(group),
        };
        let line = methods.entry(key).or_insert_with(|| Line {
            name: name(),
            points: Vec::new(),
        });
        line.points.extend(at(group));
    }
    methods.retain(|_, line| line.points.len() >= FEWEST);
    if methods.is_empty() {
        return Err("no method was trained at several learning rates".into());
    }
    for line in methods.values_mut() {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let lowest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let lows: Vec<f64> = methods.values().map(|line| lowest(&line.points)).collect();
    let (best, worst) = (
        lows.iter().copied().fold(f64::INFINITY, f64::min),
        lows.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let most = worst + REACH * (worst - best).max(0.01 * best.abs());
    let (mut points, mut curves, mut far) = (Vec::new(), Vec::new(), 0);
    for Line { name, points: all } in methods.values() {
        let near: Vec<(f64, f64)> = all.iter().filter(|point| point.1 <= most).copied().collect();
        far += all.len() - near.len();
        let lowest = lowest(&near);
        points.extend(near.iter().map(|&(x, y)| Point {
            x,
            y,
            deviation: None,
            label: if y == lowest { name.clone() } else { String::new() },
            says: format!("{name} at {x}: loss {}", format::number(y.into(), 4)),
            series: None,
            is_muted: y != lowest,
        }));
        curves.push(near);
    }
    let left_out = match far {
        0 => String::new(),
        1 => " One loss is above the chart.".to_owned(),
        far => format!(" {far} losses are above the chart."),
    };
    Ok(Scatter {
        title: view.title("Loss over the learning rate"),
        subtitle: view.subtitle(&format!(
            "A line for each method; its name is at its lowest loss.{left_out}"
        )),
        x_title: "Learning rate".into(),
        y_title: if loss == "loss_eval" { "Eval loss" } else { "Train loss" }.into(),
        x_is_log: true,
        y_is_log: false,
        points,
        line: Vec::new(),
        curves,
    })
}

/// True if another method of the study has this one's name.
fn methods_are_alike(shown: &[&Group], group: &Group) -> bool {
    let others = |other: &&&Group| {
        let is_other = |(axis, value): (&String, &String)| axis != RATE && group.axes.get(axis) != Some(value);
        other.axes.iter().any(is_other)
    };
    let name = Method::name_of(group);
    shown.iter().filter(others).any(|other| Method::name_of(other) == name)
}

#[cfg(test)]
mod tests {
    use base::text::format::ByteUnit;

    use super::super::testing::study;
    use super::*;

    #[test]
    fn each_method_is_a_line_and_what_diverged_is_left_out() {
        let row = |adapter: &'static str, rate: &'static str, loss: &'static str| {
            vec![
                ("status", "ok"),
                ("adapter", adapter),
                ("rank", "8"),
                ("learning_rate", rate),
                ("loss_eval", loss),
                ("allocated_peak_bytes", "1000"),
            ]
        };
        let rows = [
            row("lora", "0.001", "2.5"),
            row("lora", "0.002", "2.25"),
            row("lora", "0.004", "9.5"),
            row("dora", "0.001", "2.0"),
            row("dora", "0.002", "2.125"),
            row("ia3", "0.002", "2.125"),
        ];
        let groups = study(&rows, &["adapter", "learning_rate"]);
        let axes = ["adapter", "learning_rate"].map(str::to_owned);
        let view = View::new(&groups, &axes, ByteUnit::MiB);
        let chart = rates(&view, "loss_eval").unwrap();
        assert_eq!(
            chart.curves,
            [vec![(0.001, 2.5), (0.002, 2.25)], vec![(0.001, 2.0), (0.002, 2.125)]],
            "one rate is no line"
        );
        let labels: Vec<&str> = chart.points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!(labels, ["", "LoRA", "DoRA", ""]);
        assert!(
            chart.subtitle.ends_with("One loss is above the chart."),
            "{}",
            chart.subtitle
        );
        let view = View::new(&groups[..1], &axes, ByteUnit::MiB);
        assert_eq!(
            rates(&view, "loss_eval").unwrap_err(),
            "the learning rate does not vary"
        );
    }
}
