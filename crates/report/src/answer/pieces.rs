//! The straight pieces of a series.

use super::series::{ACCUMULATION, Point, Series};
use crate::markdown::escape;

/// Slopes that differ by less are one line.
const SAME_SLOPE: f64 = 0.02;

/// Neighbouring points on one line.
pub(super) struct Piece<'s, 'g> {
    pub(super) from: &'s Point<'g>,
    pub(super) to: &'s Point<'g>,
    /// True if the peak moves to another phase or module between the two.
    pub(super) moves: bool,
}

impl Piece<'_, '_> {
    /// The change, or zero if repeats differ by as much.
    pub(super) fn change(&self) -> f64 {
        let change = self.difference();
        if change.abs() <= self.noise() { 0.0 } else { change }
    }

    /// The change between the means.
    pub(super) fn difference(&self) -> f64 {
        self.to.peak.mean - self.from.peak.mean
    }

    /// The change for each unit of the axis.
    pub(super) fn slope(&self) -> f64 {
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

    /// `from 4 to 16`.
    pub(super) fn ends(&self) -> String {
        format!("from {} to {}", escape(&self.from.at), escape(&self.to.at))
    }
}

/// The pieces of a series.
pub(super) fn pieces<'s, 'g>(series: &'s Series<'g>) -> Vec<Piece<'s, 'g>> {
    pieces_of(&series.points)
}

/// The pieces of neighbouring points.
pub(super) fn pieces_of<'s, 'g>(points: &'s [Point<'g>]) -> Vec<Piece<'s, 'g>> {
    let mut pieces: Vec<Piece<'s, 'g>> = Vec::new();
    for pair in points.windows(2) {
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

/// The first piece from one micro-batch to several, if the series has one, and the points after it.
pub(super) fn first_accumulation<'s, 'g>(
    axis: &str,
    series: &'s Series<'g>,
) -> Option<(Piece<'s, 'g>, &'s [Point<'g>])> {
    let (from, rest) = series.points.split_first()?;
    let piece = Piece {
        from,
        to: rest.first()?,
        moves: false,
    };
    (axis == ACCUMULATION && from.quantity == 1.0 && piece.change() != 0.0).then_some((piece, rest))
}

/// True if live gradients explain the change.
pub(super) fn is_accumulated(piece: &Piece<'_, '_>) -> bool {
    let gradients = piece.from.instant.as_ref().zip(piece.to.instant.as_ref());
    gradients.is_some_and(|(from, to)| {
        let change = piece.change();
        (to.gradients - from.gradients - change).abs() <= SAME_SLOPE * change.abs()
    })
}
