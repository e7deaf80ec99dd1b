//! Measured and predicted figures behind one interface: an answer rests on one kind, never on both.

use results::columns::category_column;
use trace::Category;

use crate::entry::Entry;
use crate::group::{Group, Stat};

/// The column that the answers on memory are about.
pub(super) const ALLOCATED: &str = "allocated_peak_bytes";

/// The kind of figures that a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figures {
    /// Figures of records.
    Measured,
    /// Figures of plans.
    Predicted,
}

/// The instant of a peak.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instant {
    /// The phase of the step.
    pub phase: String,
    /// The module that is computed; `None` if it is not known.
    pub module: Option<String>,
    /// Live gradients at the instant, in bytes.
    pub gradients: f64,
    /// Their part of the peak.
    gradient_share: f64,
}

impl Figures {
    /// The words for a peak of this kind.
    pub(super) fn peak(self) -> &'static str {
        match self {
            Self::Measured => "peak",
            Self::Predicted => "predicted peak",
        }
    }

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

    /// The category with the most live bytes at the peak, and its part of the peak.
    pub(super) fn largest_category(self, group: &Group) -> Option<(&'static str, f64)> {
        let peak = self.mean(group, ALLOCATED).filter(|peak| *peak > 0.0)?;
        let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
        let held = tensors.filter_map(|category| {
            let name = category.name();
            Some((name, self.mean(group, &category_column(name))? / peak))
        });
        held.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The instant of the group's peak, if its phase is known.
    pub(super) fn instant(self, group: &Group) -> Option<Instant> {
        let (cell, [phase, module]) = match self {
            Self::Measured => (
                group.cells.iter().find(|cell| cell.is_ok())?,
                ["allocated_peak_phase", "allocated_peak_module"],
            ),
            Self::Predicted => (
                group.cells.first()?,
                ["predicted_binding_phase", "predicted_binding_module"],
            ),
        };
        let text = |column: &str| cell.text(column).filter(|text| !text.is_empty());
        let gradients = self.mean(group, &category_column(Category::Gradient.name()))?;
        Some(Instant {
            phase: text(phase)?.to_owned(),
            module: text(module).map(str::to_owned),
            gradients,
            gradient_share: gradients / self.mean(group, ALLOCATED)?,
        })
    }

    /// The cells of a group that a sentence on these figures rests on.
    pub(super) fn cells(self, group: &Group) -> impl Iterator<Item = &Entry> {
        let counts = move |cell: &&Entry| self == Self::Predicted || cell.is_ok();
        group.cells.iter().filter(counts)
    }
}

impl Instant {
    /// True if gradients are more than 1 % of the live memory.
    pub(super) fn has_gradients(&self) -> bool {
        self.gradient_share > 0.01
    }

    /// True if both instants are at the same place of a step. Blocks count as one place, because models differ in their
    /// number.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        let kind = |instant: &Self| {
            let module = instant.module.as_deref();
            module.map(|module| module.replace(|c: char| c.is_ascii_digit(), ""))
        };
        self.phase == other.phase && kind(self) == kind(other) && self.has_gradients() == other.has_gradients()
    }
}
