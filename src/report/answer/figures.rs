//! Measured and predicted figures behind one interface: an answer rests on one kind, never on both.

use crate::report::group::{Group, Stat};

/// The kind of figures that a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figures {
    /// Figures of records.
    Measured,
    /// Figures of plans.
    Predicted,
}

impl Figures {
    /// A column of numbers over a group's repeats, by its measured name. A mean that is not finite is no figure.
    pub(super) fn stat(self, group: &Group, column: &str) -> Option<Stat> {
        let stats = match self {
            Self::Measured => &group.stats,
            Self::Predicted => &group.predicted,
        };
        stats
            .get(column)
            .copied()
            .flatten()
            .filter(|stat| stat.mean.is_finite())
    }

    /// The mean of [`Self::stat`].
    pub(super) fn mean(self, group: &Group, column: &str) -> Option<f64> {
        self.stat(group, column).map(|stat| stat.mean)
    }
}
