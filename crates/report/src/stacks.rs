//! The cells of each stack, for templates that show them apart.

use serde::Serialize;

use super::axes::{self, Setting};
use super::claims::Basis;
use super::entry::Entry;
use super::group::Group;
use super::memory_unit::memory_unit;

/// The cells of one stack, measured or planned.
#[derive(Debug, Serialize)]
pub(crate) struct StackCells {
    /// The stack and the origin of its figures.
    #[serde(flatten)]
    pub basis: Basis,
    /// The name in reports, such as `PyTorch, predicted`.
    pub on: &'static str,
    /// The columns that vary among them.
    pub axes: Vec<String>,
    /// The configuration that they share.
    pub fixed: Vec<Setting>,
    /// The unit that suits their peaks.
    pub memory_unit: &'static str,
    /// The study's baseline if it is of this stack, else the first group.
    pub baseline: Group,
    /// Their groups, in the study's order.
    pub groups: Vec<Group>,
}

/// The stacks that the study has cells of, PyTorch's first, and what is measured before what is planned. `is_plan` is true in a report of predictions alone.
pub(crate) fn stacks(cells: &[Entry], groups: &[Group], study_axes: &[String], is_plan: bool) -> Vec<StackCells> {
    let of = |basis: Basis| {
        let basis_of = |cell: &Entry| Basis::of(cell.stack(), cell.engine(), is_plan);
        let cells: Vec<Entry> = cells.iter().filter(|cell| basis_of(cell) == basis).cloned().collect();
        let groups: Vec<Group> = groups
            .iter()
            .filter(|group| group.basis(is_plan) == basis)
            .cloned()
            .collect();
        let baseline = groups.iter().find(|group| group.baseline).or(groups.first())?.clone();
        let mut axes = axes::axes(&cells, study_axes);
        // An axis of the study may have one value on a stack.
        axes.retain(|axis| axes::varies(&cells, axis));
        Some(StackCells {
            basis,
            on: basis.name(),
            fixed: axes::fixed(&cells, &axes),
            memory_unit: memory_unit(&groups).name(),
            axes,
            baseline,
            groups,
        })
    };
    Basis::OF_CELLS.into_iter().filter_map(of).collect()
}
