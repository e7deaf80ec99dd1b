//! Pareto fronts of the held-out loss against memory and against the size of the file.

use serde::Serialize;

/// The fronts of a study on which a group may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Fronts {
    /// Of peak allocated memory and held-out loss.
    pub memory: Place,
    /// Of the file's size and held-out loss.
    pub file: Place,
}

/// A group's place on a front, where lower is better in both quantities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    /// True if no other group is at least as good in both means, and better in one.
    pub on: bool,
    /// The number of seeds with which the same is true of that seed's values alone.
    pub seeds: usize,
    /// The number of seeds; 0 without repeats.
    pub of: usize,
}

impl Place {
    /// True if it depends on the seed whether the group is on the front.
    pub(crate) fn is_uncertain(self) -> bool {
        0 < self.seeds && self.seeds < self.of
    }
}

/// True for each point that no other point beats, by being at least as good in both and better in one.
pub(crate) fn front(points: &[Option<(f64, f64)>]) -> Vec<bool> {
    let finite = |(a, b): &(f64, f64)| a.is_finite() && b.is_finite();
    let known: Vec<(f64, f64)> = points.iter().flatten().copied().filter(finite).collect();
    let beaten = |(a, b): (f64, f64)| known.iter().any(|&(x, y)| x <= a && y <= b && (x < a || y < b));
    points
        .iter()
        .map(|point| point.filter(finite).is_some_and(|point| !beaten(point)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_what_nothing_beats() {
        let points = [
            Some((1.0, 5.0)),
            Some((2.0, 3.0)),
            Some((2.0, 3.0)),
            Some((2.0, 4.0)),
            Some((3.0, 3.0)),
            Some((0.5, f64::NAN)),
            None,
        ];
        assert_eq!(front(&points), [true, true, true, false, false, false, false]);
    }
}
