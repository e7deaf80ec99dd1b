//! The slope of memory over each axis that is a number, and where it changes.

use super::binding::place;
use super::evidence::Evidence;
use super::figures::{ALLOCATED, Figures, Instant};
use super::naming::{amount, amounts, direction, listed, phase_words};
use super::sentence::Sentence;
use super::series::{Point, Series, are_paired, series, unit};
use crate::report::axes::last_part;
use crate::report::group::Group;
use crate::report::markdown::{escape, line_code as code};
use crate::text::format::bytes;

/// The most axes that get a sentence.
const MOST_AXES: usize = 2;

/// The most pieces of a series that are listed; more are summed up.
const MOST_PIECES: usize = 3;

/// The most distinct series that are described one by one.
const MOST_SERIES: usize = 2;

/// The most moves of the peak that are described.
const MOST_MOVES: usize = 2;

/// Slopes that differ by less are one line.
const SAME_SLOPE: f64 = 0.02;

/// A sentence for each axis that is a number: those with the most points first.
pub(super) fn sentences(evidence: &Evidence<'_>, figures: Figures) -> Vec<Sentence> {
    let known = evidence
        .groups
        .iter()
        .filter(|group| figures.mean(group, ALLOCATED).is_some());
    let known: Vec<&Group> = known.collect();
    let mut over: Vec<(&String, Vec<Series<'_>>)> = Vec::new();
    for axis in evidence.axes {
        let series = series(evidence.groups, evidence.axes, axis, figures);
        let is_told = over.iter().any(|(other, _)| are_paired(&known, other, axis));
        if !series.is_empty() && !is_told {
            over.push((axis, series));
        }
    }
    let most = |series: &[Series<'_>]| series.iter().map(|series| series.points.len()).max();
    over.sort_by_key(|(_, series)| std::cmp::Reverse(most(series)));
    let sentence = |(axis, series): (&String, Vec<Series<'_>>)| sentence(axis, &series, figures);
    over.into_iter().take(MOST_AXES).map(sentence).collect()
}

fn sentence(axis: &str, series: &[Series<'_>], figures: Figures) -> Sentence {
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
    let mut descriptions: Vec<(String, Vec<String>)> = Vec::new();
    for series in series {
        let text = describe(axis, series);
        match descriptions.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(series.name.clone()),
            None => descriptions.push((text, vec![series.name.clone()])),
        }
    }
    let text = match &descriptions[..] {
        [(text, _)] => format!("{subject} {text}."),
        several if several.len() <= MOST_SERIES => {
            let of = |(text, names): &(String, Vec<String>)| format!("with {} it {text}", listed(names));
            let parts: Vec<String> = several.iter().map(of).collect();
            format!("{subject} over {}: {}.", code(last_part(axis)), parts.join("; "))
        }
        _ => format!("{subject} {}.", range(axis, series)),
    };
    Sentence::about(text, figures, groups)
}

/// Neighbouring points on one line.
struct Piece<'s, 'g> {
    from: &'s Point<'g>,
    to: &'s Point<'g>,
    /// True if the peak moves to another phase or module between the two.
    moves: bool,
}

impl Piece<'_, '_> {
    fn change(&self) -> f64 {
        let change = self.to.peak.mean - self.from.peak.mean;
        if change.abs() <= self.noise() { 0.0 } else { change }
    }

    fn slope(&self) -> f64 {
        self.change() / (self.to.quantity - self.from.quantity)
    }

    /// The deviations over repeats, of both ends.
    fn noise(&self) -> f64 {
        self.from.peak.deviation.unwrap_or(0.0) + self.to.peak.deviation.unwrap_or(0.0)
    }

    fn continues(&self, next: &Self) -> bool {
        let (a, b) = (self.slope(), next.slope());
        let noise = |piece: &Self| piece.noise() / (piece.to.quantity - piece.from.quantity);
        !self.moves && !next.moves && (a - b).abs() <= SAME_SLOPE * a.abs().max(b.abs()) + noise(self) + noise(next)
    }

    fn ends(&self) -> String {
        format!("from {} to {}", escape(&self.from.at), escape(&self.to.at))
    }
}

fn pieces<'s, 'g>(series: &'s Series<'g>) -> Vec<Piece<'s, 'g>> {
    let mut pieces: Vec<Piece<'s, 'g>> = Vec::new();
    for pair in series.points.windows(2) {
        let moves = match (&pair[0].instant, &pair[1].instant) {
            (Some(from), Some(to)) => !from.is_at(to),
            _ => false,
        };
        let next = Piece {
            from: &pair[0],
            to: &pair[1],
            moves,
        };
        match pieces.last_mut().filter(|last| last.continues(&next)) {
            Some(last) => last.to = next.to,
            None => pieces.push(next),
        }
    }
    pieces
}

/// `rises by 12 bytes per trainable parameter from 4 to 16 and by 16 bytes from 32 to 64; …`.
fn describe(axis: &str, series: &Series<'_>) -> String {
    let pieces = pieces(series);
    if pieces.iter().all(|piece| piece.change() == 0.0) {
        let (first, last) = (pieces[0].from, pieces[pieces.len() - 1].to);
        return format!("stays the same ({})", extent(axis, series, first, last));
    }
    let steady: Vec<&Piece<'_, '_>> = pieces.iter().filter(|piece| !piece.moves).collect();
    let moves: Vec<&Piece<'_, '_>> = pieces.iter().filter(|piece| piece.moves).collect();
    let mut text = if steady.is_empty() || pieces.len() > MOST_PIECES + MOST_MOVES || steady.len() > MOST_PIECES {
        range(axis, std::slice::from_ref(series))
    } else {
        let verb = direction(&steady.iter().map(|piece| piece.change()).collect::<Vec<_>>());
        let unit = unit(axis);
        let of = |(i, piece): (usize, &&Piece<'_, '_>)| {
            let slope = piece.slope();
            let slope = if verb == "falls" { -slope } else { slope };
            match i {
                _ if slope == 0.0 => format!("by nothing {}", piece.ends()),
                0 => format!(
                    "by {} per {unit} ({})",
                    amount(slope),
                    extent(axis, series, piece.from, piece.to)
                ),
                _ => format!("by {} {}", amount(slope), piece.ends()),
            }
        };
        let parts: Vec<String> = steady.iter().enumerate().map(of).collect();
        format!("{verb} {}", listed(&parts))
    };
    for piece in moves.iter().take(MOST_MOVES) {
        text += &moved(piece);
    }
    if moves.len() > MOST_MOVES {
        text += &format!("; it moves {} more times", moves.len() - MOST_MOVES);
    }
    text
}

/// The move of the peak within a piece.
fn moved(piece: &Piece<'_, '_>) -> String {
    let (Some(from), Some(to)) = (&piece.from.instant, &piece.to.instant) else {
        return String::new();
    };
    let between = format!("; between {} and {}", escape(&piece.from.at), escape(&piece.to.at));
    let from_to = match (&from.module, &to.module) {
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
    format!("{between} the peak moves {from_to}{}", gradients(from, to))
}

fn gradients(from: &Instant, to: &Instant) -> String {
    match (from.has_gradients(), to.has_gradients()) {
        (false, true) => format!(", where {} of gradients are alive", bytes(to.gradients.into())),
        (true, false) => ", where gradients are no longer alive".into(),
        _ => String::new(),
    }
}

/// The lowest and the highest slope of several series, or of one with many pieces.
fn range(axis: &str, series: &[Series<'_>]) -> String {
    let slopes: Vec<f64> = series.iter().flat_map(pieces).map(|piece| piece.slope()).collect();
    let verb = direction(&slopes);
    let sign = if verb == "falls" { -1.0 } else { 1.0 };
    let slopes = slopes.iter().map(|slope| sign * slope);
    let (low, high) = slopes.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), slope| {
        (low.min(slope), high.max(slope))
    });
    let (unit, name) = (unit(axis), code(last_part(axis)));
    let by = amounts(low, high);
    match series {
        [series] => {
            let (first, last) = (&series.points[0], &series.points[series.points.len() - 1]);
            format!(
                "{verb} by {by} per {unit}, by the interval, and from {} to {} in all ({})",
                bytes(first.peak.mean.into()),
                bytes(last.peak.mean.into()),
                extent(axis, series, first, last),
            )
        }
        _ => format!(
            "{verb} by {by} per {unit} over {name}, by the {} other settings",
            series.len()
        ),
    }
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
