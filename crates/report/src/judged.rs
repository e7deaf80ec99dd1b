//! Plans that have a budget, and its verdict.

use crate::group::Group;

/// What a plan needs of its budget.
pub(crate) struct Judged<'g> {
    pub(crate) group: &'g Group,
    pub(crate) fits: bool,
    /// In bytes.
    pub(crate) needed: f64,
    pub(crate) budget: f64,
}

impl<'g> Judged<'g> {
    /// `None` without a budget.
    pub(crate) fn of(group: &'g Group) -> Option<Self> {
        let cell = group.cells.first()?;
        Some(Self {
            group,
            fits: cell.text("predicted_verdict")? == "fits",
            needed: cell
                .number("predicted_needed_bytes")
                .filter(|needed| needed.is_finite())?,
            budget: cell
                .number("predicted_budget_bytes")
                .filter(|budget| budget.is_finite() && *budget > 0.0)?,
        })
    }

    pub(crate) fn share(&self) -> f64 {
        self.needed / self.budget
    }
}
