//! The slope of memory over each axis that is a number, and where it changes.

use std::collections::HashSet;

use arch::Preset;
use base::text::format::bytes;

use super::binding::place;
use super::evidence::Evidence;
use super::figures::{ALLOCATED, Figures, Instant};
use super::naming::{amount, amounts, direction, listed, phase_words};
use super::pieces::{Piece, first_accumulation, is_accumulated, pieces, pieces_of};
use super::sentence::Sentence;
use super::series::{Point, Series, are_paired, series, unit};
use crate::axes::last_part;
use crate::group::Group;
use crate::markdown::{escape, line_code as code};

/// The most axes that get a sentence.
const MOST_AXES: usize = 2;

/// The most pieces of a series that are listed; more are summed up.
const MOST_PIECES: usize = 3;

/// The most distinct series that are described one by one.
const MOST_SERIES: usize = 2;

/// The most moves of the peak that are described.
const MOST_MOVES: usize = 2;

/// The part of a study that an axis covers at least, to be told beside others.
const LEAST_COVER: f64 = 1.0 / 3.0;

/// Peaks that differ by a smaller share have no slope worth telling.
const NOTABLE: f64 = 0.02;

/// A sentence for each axis that is a number: those with the most points first.
pub(super) fn sentences(evidence: &Evidence<'_>, figures: Figures) -> Vec<Sentence> {
    let known = evidence
        .groups
        .iter()
        .filter(|group| figures.mean(group, ALLOCATED).is_some());
    let known: Vec<&Group> = known.collect();
    let peaks = known.iter().filter_map(|group| figures.mean(group, ALLOCATED));
    if !differ(peaks) {
        return Vec::new();
    }
    let mut over: Vec<(&String, Vec<Series<'_>>)> = Vec::new();
    for axis in evidence.axes {
        let series = series(evidence.groups, evidence.axes, axis, figures);
        if axis == "model" && !have_one_vocabulary(&known) {
            continue;
        }
        let is_told = over.iter().any(|(other, _)| are_paired(&known, other, axis));
        if !series.is_empty() && !is_told && has_effect_or_none(&series) {
            over.push((axis, series));
        }
    }
    let covers = |series: &[Series<'_>]| series.iter().map(|series| series.points.len()).sum::<usize>();
    let covers_enough =
        |(_, series): &(&String, Vec<Series<'_>>)| covers(series) as f64 >= LEAST_COVER * known.len() as f64;
    if over.iter().any(covers_enough) {
        over.retain(covers_enough);
    }
    let most = |series: &[Series<'_>]| series.iter().map(|series| series.points.len()).max();
    over.sort_by_key(|(_, series)| std::cmp::Reverse(most(series)));
    let sentence = |(axis, series): (&String, Vec<Series<'_>>)| {
        let is_whole = covers(&series) == known.len();
        sentence(axis, &series, is_whole, figures)
    };
    over.into_iter().filter_map(sentence).take(MOST_AXES).collect()
}

/// True if the models are known to have one vocabulary. Else the logits grow with another quantity than the parameters.
fn have_one_vocabulary(groups: &[&Group]) -> bool {
    let vocabulary = |group: &&Group| {
        let model = group.cells[0].text("model")?;
        let preset = Preset::named(model).or_else(|| Preset::of_hub_name(model))?;
        Some(preset.config().vocab_size)
    };
    let sizes: HashSet<Option<usize>> = groups.iter().map(vocabulary).collect();
    sizes.len() == 1 && !sizes.contains(&None)
}

/// True if the highest is notably more than the lowest.
fn differ(peaks: impl Iterator<Item = f64>) -> bool {
    let (low, high) = peaks.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), peak| {
        (low.min(peak), high.max(peak))
    });
    high > low * (1.0 + NOTABLE)
}

/// True if the axis changes some peaks notably, or none at all. What lies between is not worth a sentence.
fn has_effect_or_none(series: &[Series<'_>]) -> bool {
    let peaks = |series: &Series<'_>| differ(series.points.iter().map(|point| point.peak.mean));
    series.iter().any(peaks) || series.iter().flat_map(pieces).all(|piece| piece.change() == 0.0)
}

/// `None` for slopes over so many settings that a range of them says nothing.
fn sentence(axis: &str, series: &[Series<'_>], is_whole: bool, figures: Figures) -> Option<Sentence> {
    let subject = if figures == Figures::Measured {
        "Peak allocated memory"
    } else {
        "Predicted peak allocated memory"
    };
    let groups: Vec<&Group> = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.group)
        .collect();
    // Series that read the same share a description.
    let mut descriptions: Vec<(String, Vec<&str>)> = Vec::new();
    for series in series {
        let text = describe(axis, series);
        match descriptions.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(&series.name),
            None => descriptions.push((text, vec![&series.name])),
        }
    }
    let text = match &descriptions[..] {
        [(text, names)] if is_whole || names.iter().any(|name| name.is_empty()) => format!("{subject} {text}."),
        [(text, names)] => format!("With {}, {} {text}.", settings(names), uncapitalised(subject)),
        several if several.len() <= MOST_SERIES => {
            let of = |(text, names): &(String, Vec<&str>)| format!("with {} it {text}", settings(names));
            let parts: Vec<String> = several.iter().map(of).collect();
            format!("{subject} over {}: {}.", code(last_part(axis)), parts.join("; "))
        }
        _ => return None,
    };
    Some(Sentence::about(text, figures, groups))
}

/// The names of series, the first of them if there are many.
fn settings(names: &[&str]) -> String {
    match names {
        [first, others @ ..] if others.len() >= MOST_SERIES => format!("{first} and {} other settings", others.len()),
        _ => listed(&names.iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

fn uncapitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// `rises by 12 bytes per trainable parameter from 4 to 16 and by 16 bytes from 32 to 64; …`.
fn describe(axis: &str, series: &Series<'_>) -> String {
    let Some((first, rest)) = first_accumulation(axis, series) else {
        return describe_points(axis, series, &series.points);
    };
    let change = first.change();
    let text = format!(
        "{} by {} once ({}{})",
        direction(&[change]),
        amount(change.abs()),
        extent(axis, series, first.from, first.to),
        if is_accumulated(&first) {
            ", the accumulated gradients"
        } else {
            ""
        },
    );
    match rest.len() {
        1 => text,
        _ => format!("{text} and then {}", describe_points(axis, series, rest)),
    }
}

fn describe_points(axis: &str, series: &Series<'_>, points: &[Point<'_>]) -> String {
    let pieces = pieces_of(points);
    let (first, last) = (&points[0], &points[points.len() - 1]);
    if pieces.iter().all(|piece| piece.change() == 0.0) {
        let extent = extent(axis, series, first, last);
        return match pieces.iter().all(|piece| piece.difference() == 0.0) {
            true => format!("stays the same ({extent})"),
            false => format!("differs by no more than its repeats do ({extent})"),
        };
    }
    let (moves, steady): (Vec<&Piece<'_, '_>>, Vec<&Piece<'_, '_>>) = pieces.iter().partition(|piece| piece.moves);
    let is_long = pieces.len() > MOST_PIECES + MOST_MOVES || steady.len() > MOST_PIECES;
    let mut text = if steady.is_empty() {
        let changes: Vec<f64> = pieces.iter().map(Piece::change).collect();
        format!(
            "{} {} ({})",
            direction(&changes),
            from_to(first, last),
            extent(axis, series, first, last)
        )
    } else if is_long {
        format!(
            "{}, by the interval, and {} in all ({})",
            slopes(axis, pieces.iter().map(Piece::slope).collect()),
            from_to(first, last),
            extent(axis, series, first, last)
        )
    } else {
        listed_slopes(axis, series, &steady)
    };
    for piece in moves.iter().take(MOST_MOVES) {
        text += &moved(piece, pieces.len() == 1);
    }
    if moves.len() > MOST_MOVES {
        text += &format!("; it moves {} more times", moves.len() - MOST_MOVES);
    }
    text
}

/// Each slope with its ends. The first part names the axis, and the first slope its unit.
fn listed_slopes(axis: &str, series: &Series<'_>, steady: &[&Piece<'_, '_>]) -> String {
    let verb = direction(&steady.iter().map(|piece| piece.change()).collect::<Vec<_>>());
    let first_slope = steady.iter().position(|piece| piece.change() != 0.0);
    let of = |(i, piece): (usize, &&Piece<'_, '_>)| {
        let slope = if verb == "falls" { -piece.slope() } else { piece.slope() };
        let by = match slope == 0.0 {
            true if piece.difference() == 0.0 => "nothing".to_owned(),
            true => "no more than its repeats differ".to_owned(),
            false => amount(slope),
        };
        let per = match unit(axis).filter(|_| first_slope == Some(i)) {
            Some(unit) => format!(" per {unit}"),
            None => String::new(),
        };
        let ends = match i {
            0 => format!("({})", extent(axis, series, piece.from, piece.to)),
            _ => piece.ends(),
        };
        format!("by {by}{per} {ends}")
    };
    let parts: Vec<String> = steady.iter().enumerate().map(of).collect();
    format!("{verb} {}", listed(&parts))
}

/// `from 1.5 MiB to 2.0 MiB`.
fn from_to(from: &Point<'_>, to: &Point<'_>) -> String {
    format!(
        "from {} to {}",
        bytes(from.peak.mean.into()),
        bytes(to.peak.mean.into())
    )
}

/// The move of the peak within a piece, with the change of the peak unless it is said.
fn moved(piece: &Piece<'_, '_>, is_said: bool) -> String {
    let (Some(from), Some(to)) = (&piece.from.instant, &piece.to.instant) else {
        return String::new();
    };
    let between = format!("; between {} and {}", escape(&piece.from.at), escape(&piece.to.at));
    let change = piece.change();
    let changes = match is_said || change == 0.0 {
        true => String::new(),
        false => format!(" {} by {} and", direction(&[change]), bytes(change.abs().into())),
    };
    let places = match (&from.module, &to.module) {
        _ if place(from) == place(to) => format!("within {}", place(from)),
        (Some(first), Some(second)) if from.phase == to.phase => {
            format!(
                "within {} from {} to {}",
                phase_words(&from.phase),
                code(first),
                code(second)
            )
        }
        _ => format!("from {} to {}", place(from), place(to)),
    };
    format!("{between} the peak{changes} moves {places}{}", gradients(from, to))
}

fn gradients(from: &Instant, to: &Instant) -> String {
    match (from.has_gradients(), to.has_gradients()) {
        (false, true) => format!(", where {} of gradients are alive", bytes(to.gradients.into())),
        (true, false) => ", where gradients are no longer alive".into(),
        _ => String::new(),
    }
}

/// `rises by 12 to 16 bytes per trainable parameter`: the lowest and the highest slope.
fn slopes(axis: &str, slopes: Vec<f64>) -> String {
    let unit = unit(axis).unwrap_or("unit");
    format!("{} per {unit}", changes(slopes))
}

/// `rises by 12 to 16 bytes`: the lowest and the highest change.
fn changes(changes: Vec<f64>) -> String {
    let verb = direction(&changes);
    let sign = if verb == "falls" { -1.0 } else { 1.0 };
    let signed = changes.iter().map(|change| sign * change);
    let (low, high) = signed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), change| {
        (low.min(change), high.max(change))
    });
    format!("{verb} by {}", amounts(low, high))
}

/// The values of the axis, and of those that change with it: `rank` from 4 to 16.
fn extent(axis: &str, series: &Series<'_>, from: &Point<'_>, to: &Point<'_>) -> String {
    let of = |axis: &str| {
        let at = |point: &Point<'_>| escape(point.group.axes.get(axis).map_or("", String::as_str));
        format!("{} from {} to {}", code(last_part(axis)), at(from), at(to))
    };
    let axes = std::iter::once(axis).chain(series.paired.iter().map(String::as_str));
    axes.map(of).collect::<Vec<_>>().join(", ")
}
