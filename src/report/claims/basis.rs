//! The bases of verdicts: a stack, and the origin of its figures.

use serde::Serialize;

use super::bound::BoundClaim;
use super::functions::ABOUT_CELLS;
use crate::expression::Language;
use crate::options::Stack;
use crate::report::group::Group;

/// The origin of the figures that a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Training runs.
    Measured,
    /// Plans.
    Predicted,
    /// The claim's own numbers: its expressions read no cell.
    Computed,
}

/// The purpose of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Finding mistakes in a spec, over made-up figures.
    DryRun,
    /// A report of records.
    Report,
    /// A report of predictions alone.
    Plan,
}

/// A stack whose cells a claim is judged by, and the origin of their figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Basis {
    /// The stack; `None` for a computation.
    pub stack: Option<Stack>,
    /// The origin of the figures.
    pub evidence: Evidence,
}

impl Basis {
    /// The verdict of a computation.
    const COMPUTED: Self = Self {
        stack: None,
        evidence: Evidence::Computed,
    };

    /// The basis of a stack's cells. PyTorch's are planned; ours are measured, unless the report `is_plan`.
    pub(crate) fn of(stack: Stack, is_plan: bool) -> Self {
        let evidence = match stack {
            Stack::Candle if !is_plan => Evidence::Measured,
            _ => Evidence::Predicted,
        };
        Self {
            stack: Some(stack),
            evidence,
        }
    }

    /// The name in reports, such as `PyTorch, predicted`.
    pub fn name(self) -> &'static str {
        match (self.stack, self.evidence) {
            (None, _) | (_, Evidence::Computed) => "computed",
            (Some(Stack::Torch), _) => "PyTorch, predicted",
            (Some(Stack::Candle), Evidence::Predicted) => "our trainer, predicted",
            (Some(Stack::Candle), Evidence::Measured) => "our trainer, measured",
        }
    }
}

/// The bases of a claim: a computation if its expressions read no cell, else one for each stack of its cells, PyTorch's
/// first. `is_plan` is true in a report of predictions alone.
pub(crate) fn bases(claim: &BoundClaim, groups: &[Group], is_plan: bool) -> Vec<Basis> {
    if claim.claim.untested.is_none() && !reads_cells(claim) {
        return vec![Basis::COMPUTED];
    }
    let has = |stack: &Stack| {
        groups
            .iter()
            .any(|group| claim.is_about(group) && group.stack() == *stack)
    };
    let stacks = [Stack::Torch, Stack::Candle].into_iter().filter(has);
    stacks.map(|stack| Basis::of(stack, is_plan)).collect()
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
