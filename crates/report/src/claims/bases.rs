//! The bases that a claim is judged on.

use expression::Language;
use options::Stack;

use super::basis::Basis;
use super::bound::BoundClaim;
use super::functions::ABOUT_CELLS;
use crate::group::Group;

/// The bases of a claim: a computation if its expressions read no cell, else one for each stack of its cells, PyTorch's
/// first. A claim that the spec leaves untested has one basis, whatever its stacks. `is_plan` is true in a report of
/// predictions alone.
pub(super) fn bases(claim: &BoundClaim, groups: &[Group], is_plan: bool) -> Vec<Basis> {
    if claim.claim.untested.is_none() && !reads_cells(claim) {
        return vec![Basis::COMPUTED];
    }
    let has = |stack: &Stack| {
        groups
            .iter()
            .any(|group| claim.is_about(group) && group.stack() == *stack)
    };
    let mut stacks: Vec<Stack> = [Stack::Torch, Stack::Candle].into_iter().filter(has).collect();
    if stacks.is_empty() {
        // Its cells have left the study, which its expressions then say.
        stacks.push(Stack::Candle);
    }
    if claim.claim.untested.is_some() && stacks.len() > 1 {
        return vec![Basis::NOT_JUDGED];
    }
    stacks.into_iter().map(|stack| Basis::of(stack, is_plan)).collect()
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
