//! The bases that a claim is judged on.

use expression::Language;
use options::Stack;

use super::basis::Basis;
use super::bound::BoundClaim;
use super::functions::ABOUT_CELLS;
use crate::group::Group;

/// The bases of a claim: a computation if its expressions read no cell, else one for each stack of its cells, PyTorch's
/// first, and for what is measured and what is planned of it. A claim that the spec leaves untested has one basis,
/// whatever its stacks. `is_plan` is true in a report of predictions alone.
pub(super) fn bases(claim: &BoundClaim, groups: &[Group], is_plan: bool) -> Vec<Basis> {
    if claim.claim.untested.is_none() && !reads_cells(claim) {
        return vec![Basis::COMPUTED];
    }
    let has = |basis: &Basis| {
        groups
            .iter()
            .any(|group| claim.is_about(group) && group.basis(is_plan) == *basis)
    };
    let mut bases: Vec<Basis> = Basis::OF_CELLS.into_iter().filter(has).collect();
    if bases.is_empty() {
        // Its cells have left the study, which its expressions then say.
        bases.push(Basis::of(Stack::Candle, Stack::Candle.default_engine(), is_plan));
    }
    if claim.claim.untested.is_some() && bases.len() > 1 {
        return vec![Basis::NOT_JUDGED];
    }
    bases
}

/// True if an expression of the claim reads a cell. One with a mistake may, which its evaluation then reports.
fn reads_cells(claim: &BoundClaim) -> bool {
    let language = Language::new(|_| Ok(()));
    let reads = |text: &str| {
        let names = language.compile(text).map(|expression| expression.names().clone());
        names.map_or(true, |names| ABOUT_CELLS.iter().any(|name| names.contains(*name)))
    };
    claim.claim.expressions().any(reads)
}
