//! One method against another: the paragraph and the table for the method's own documentation.

use super::about::About;
use super::answer::listed;
use super::axes::{axes, last_part};
use super::entry::{Entry, entries};
use super::error::ReportError;
use super::group::{Group, Stat, groups};
use super::markdown::{line_code as code, tidy};
use super::methods::{FORGETTING, HELD_OUT, Method};
use super::render::Frames;
use super::speeds::speeds;
use super::value_of_axis::{Pick, pick};
use crate::results::datum::Datum;
use crate::text::counted;
use crate::text::format::{Quantity, bytes, number, percent, ratio, seconds};

/// A figure of the table.
struct Figure {
    name: &'static str,
    column: &'static str,
    write: fn(Quantity) -> String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Differs by an amount.
    Loss,
    /// Differs by a factor.
    Share,
    /// Differs by a factor, if the machine was quiet enough to compare times.
    Time,
}

const FIGURES: [Figure; 7] = [
    Figure {
        name: "Held-out loss",
        column: HELD_OUT,
        write: |loss| number(loss, 3),
        kind: Kind::Loss,
    },
    Figure {
        name: "Held-out accuracy",
        column: "accuracy_eval",
        write: percent,
        kind: Kind::Share,
    },
    Figure {
        name: "Forgetting",
        column: FORGETTING,
        write: |loss| number(loss, 3),
        kind: Kind::Loss,
    },
    Figure {
        name: "Peak of allocated memory",
        column: "allocated_peak_bytes",
        write: bytes,
        kind: Kind::Share,
    },
    Figure {
        name: "Peak of the process",
        column: "process_peak_bytes",
        write: bytes,
        kind: Kind::Share,
    },
    Figure {
        name: "Training time",
        column: "train_seconds",
        write: seconds,
        kind: Kind::Time,
    },
    Figure {
        name: "Step",
        column: "step_seconds_median",
        write: seconds,
        kind: Kind::Time,
    },
];

/// Markdown that compares the cells of `only` with those of `baseline`: values of one axis, or names of methods.
/// Configurations that agree in all other axes are compared.
///
/// # Errors
/// There are no such values, or no two configurations to compare; or the frame cannot be read.
pub fn one_method(about: &About, frames: Frames<'_>, only: &str, baseline: &str) -> Result<String, ReportError> {
    let cells = entries(frames.cells)?;
    let axes = axes(&cells, &about.axes);
    let groups = groups(&cells, &axes);
    let fail = |message: String| ReportError::OneMethod(message);
    let only = pick(&groups, &axes, only).map_err(fail)?;
    let baseline = pick(&groups, &axes, baseline).map_err(fail)?;
    let pairs = pairs(&groups, &axes, &only, &baseline).map_err(fail)?;
    let parts: Vec<String> = pairs
        .iter()
        .map(|pair| pair.markdown(about, &only, &baseline))
        .collect();
    Ok(tidy(&parts.join("\n\n")))
}

/// Two configurations that differ in the method alone.
struct Pair<'g> {
    only: &'g Group,
    baseline: &'g Group,
    /// The values of the axes that both share and other pairs do not.
    place: Vec<String>,
}

/// The configurations of both sides that agree in the other axes; if each side has only one, they are
/// a pair whatever their axes are.
fn pairs<'g>(groups: &'g [Group], axes: &[String], only: &Pick, baseline: &Pick) -> Result<Vec<Pair<'g>>, String> {
    let of = |pick: &Pick| {
        groups
            .iter()
            .filter(|group| pick.has(group) && group.ok > 0)
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (of(only), of(baseline));
    for (pick, found) in [(only, &ours), (baseline, &theirs)] {
        if found.is_empty() {
            return Err(format!("no cell of `{pick}` has a result"));
        }
    }
    // A cell that failed may have been the right partner, so it counts.
    let is_single = |pick: &Pick| groups.iter().filter(|group| pick.has(group)).count() == 1;
    if let ([ours], [theirs], true) = (&ours[..], &theirs[..], is_single(only) && is_single(baseline)) {
        return match ours.cells[0].text("group_id") == theirs.cells[0].text("group_id") {
            true => Err(format!("`{only}` and `{baseline}` are the same cells")),
            false => Ok(vec![Pair {
                only: ours,
                baseline: theirs,
                place: Vec::new(),
            }]),
        };
    }
    let compared: Vec<&String> = axes
        .iter()
        .filter(|axis| only.decides(axis) || baseline.decides(axis))
        .collect();
    let shared: Vec<&String> = axes.iter().filter(|axis| !compared.contains(axis)).collect();
    // A key that a method does not heed has no value, and training of all weights has no rank.
    let is_unset = |axis: &str, value: &Datum| value.is_null() || axis == "rank" && *value == Datum::Int(0);
    let agrees = |one: &Group, other: &Group| {
        shared.iter().all(|axis| {
            let (one, other) = (one.cells[0].get(axis), other.cells[0].get(axis));
            one == other || is_unset(axis, one) || is_unset(axis, other)
        })
    };
    let mut pairs = Vec::new();
    for &ours in &ours {
        let alike = theirs.iter().filter(|theirs| agrees(theirs, ours));
        let alike = alike.filter(|theirs| theirs.cells[0].text("group_id") != ours.cells[0].text("group_id"));
        pairs.extend(alike.map(|&theirs| Pair {
            only: ours,
            baseline: theirs,
            place: Vec::new(),
        }));
    }
    let varies = |axis: &&&String| {
        pairs
            .iter()
            .any(|pair| pair.only.axes[**axis] != pairs[0].only.axes[**axis])
    };
    let telling: Vec<&String> = shared.iter().filter(varies).copied().collect();
    for pair in &mut pairs {
        let words = telling
            .iter()
            .map(|axis| format!("{} {}", last_part(axis), pair.only.axes[*axis]));
        pair.place = words.collect();
    }
    match pairs.is_empty() {
        true => Err(format!(
            "no two cells of `{only}` and `{baseline}` agree in all else ({})",
            shared.iter().map(|axis| axis.as_str()).collect::<Vec<_>>().join(", ")
        )),
        false => Ok(pairs),
    }
}

impl Pair<'_> {
    fn markdown(&self, about: &About, only: &Pick, baseline: &Pick) -> String {
        let (only, baseline) = (code(&only.to_string()), code(&baseline.to_string()));
        let place = match &self.place[..] {
            [] => String::new(),
            place => format!(" at {}", code(&place.join(", "))),
        };
        let mut rows = vec![
            format!("| Figure | {only} | {baseline} | Difference |"),
            "| --- | ---: | ---: | --- |".into(),
        ];
        rows.extend(FIGURES.iter().filter_map(|figure| self.row(figure)));
        rows.extend(self.counts());
        format!(
            "{}\n\n{}\n\n{}",
            self.sentences(&only, &baseline, &place).join(" "),
            rows.join("\n"),
            self.legend(about)
        )
    }

    fn stats(&self, column: &str) -> Option<(Stat, Stat)> {
        let of = |group: &Group| {
            group
                .stats
                .get(column)
                .copied()
                .flatten()
                .filter(|stat| stat.mean.is_finite())
        };
        of(self.only).zip(of(self.baseline))
    }

    /// True if the noise of the speeds allows to compare them.
    fn has_speeds(&self) -> bool {
        speeds(&[self.only.clone(), self.baseline.clone()]).comparable
    }

    /// A row of the table; `None` if one of the two lacks the figure.
    fn row(&self, figure: &Figure) -> Option<String> {
        let (ours, theirs) = self.stats(figure.column)?;
        let Figure { name, write, .. } = figure;
        let difference = match figure.kind {
            Kind::Loss => signed(ours.mean - theirs.mean),
            Kind::Time if !self.has_speeds() => "too noisy to compare".into(),
            Kind::Share | Kind::Time => ratio((ours.mean / theirs.mean).into()),
        };
        let noise = match ours.is_beyond_noise(theirs) {
            _ if ours.mean == theirs.mean || figure.kind == Kind::Time && !self.has_speeds() => "",
            None if figure.column == "allocated_peak_bytes" => "",
            None => ", single seeds",
            Some(true) => ", beyond the spread",
            Some(false) => ", within the spread",
        };
        Some(format!(
            "| {name} | {} | {} | {difference}{noise} |",
            write(ours.into()),
            write(theirs.into())
        ))
    }

    /// Rows of what seeds do not change: the trained share, and the saved file.
    fn counts(&self) -> Vec<String> {
        let methods = [self.only, self.baseline].map(Method::of);
        let row = |name: &str, [ours, theirs]: [Option<f64>; 2], write: fn(Quantity) -> String| {
            let (ours, theirs) = ours.zip(theirs)?;
            let difference = ratio((ours / theirs).into());
            Some(format!(
                "| {name} | {} | {} | {difference} |",
                write(ours.into()),
                write(theirs.into())
            ))
        };
        let shares = [methods[0].trainable_share, methods[1].trainable_share];
        let files = [&methods[0].file, &methods[1].file].map(|file| file.as_ref().map(|file| file.bytes));
        let file = match methods
            .iter()
            .flat_map(|method| &method.file)
            .any(|file| file.is_predicted)
        {
            true => "Saved file (full fine-tuning's is predicted)",
            false => "Saved file",
        };
        [row("Trained share", shares, percent), row(file, files, bytes)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The paragraph: quality, then memory, time and size.
    fn sentences(&self, only: &str, baseline: &str, place: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        let methods = [self.only, self.baseline].map(Method::of);
        let factor = |column: &str| {
            let (ours, theirs) = self.stats(column)?;
            Some(number((ours.mean / theirs.mean).into(), 2))
        };
        let costs = [
            methods[0]
                .trainable_share
                .map(|share| format!("trains {} of the weights", percent(share.into()))),
            factor("allocated_peak_bytes").map(|factor| format!("peaks at {factor} times the allocated memory")),
            factor("train_seconds")
                .filter(|_| self.has_speeds())
                .map(|factor| format!("takes {factor} times as long")),
        ];
        let costs: Vec<String> = costs.into_iter().flatten().collect();
        if !costs.is_empty() {
            sentences.push(format!("Compared with {baseline}{place}, {only} {}.", listed(&costs)));
        }
        let is_random = [self.only, self.baseline]
            .iter()
            .any(|group| group.cells[0].text("weights") == Some("random"));
        for (column, words) in [(HELD_OUT, "held-out loss"), (FORGETTING, "forgetting")] {
            if let Some((ours, theirs)) = self.stats(column).filter(|_| !is_random) {
                let noise = match ours.is_beyond_noise(theirs) {
                    None => "from single seeds, so the noise is not known",
                    Some(true) => "more than the seeds differ",
                    Some(false) => "no more than the seeds differ",
                };
                let change = if ours.mean < theirs.mean { "lower" } else { "higher" };
                let amount = number((ours.mean - theirs.mean).abs().into(), 3);
                sentences.push(format!("Its {words} is {amount} {change}: {noise}."));
            }
        }
        if is_random {
            sentences.push("Weights are random, so losses say nothing about the methods.".into());
        }
        sentences
    }

    /// Where the figures come from.
    fn legend(&self, about: &About) -> String {
        let cells = || {
            self.only
                .cells
                .iter()
                .chain(&self.baseline.cells)
                .filter(|cell| cell.is_ok())
        };
        let mut machines: Vec<&str> = cells().filter_map(|cell| cell.text("machine_cpu")).collect();
        machines.dedup();
        let ids: Vec<String> = cells().filter_map(short_id).collect();
        let mut methods = [self.only, self.baseline].map(Method::name_of).to_vec();
        methods.dedup();
        let [ours, theirs] = [self.only.ok, self.baseline.ok].map(|seeds| counted(seeds, "seed"));
        let seeds = match ours == theirs {
            true => format!("{ours} each"),
            false => format!("{ours} and {theirs}"),
        };
        format!(
            "{} of `{}`, {seeds} on {}: {}. ± is the sample standard deviation over seeds; a difference beyond the \
             spread is more than twice the larger one.",
            methods.join(" and "),
            about.name,
            machines.join(", "),
            ids.join(" "),
        )
    }
}

fn short_id(cell: &Entry) -> Option<String> {
    let id = cell.text("cell_id")?;
    Some(code(id.get(..6).unwrap_or(id)))
}

/// A difference with its sign, where `−` is U+2212.
fn signed(difference: f64) -> String {
    let sign = match difference {
        below if below < 0.0 => "−",
        above if above > 0.0 => "+",
        _ => "",
    };
    format!("{sign}{}", number(difference.abs().into(), 3))
}
