//! The basis of a verdict: a stack, and the origin of its figures.

use options::Stack;
use serde::Serialize;

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
    /// No figures: the spec says why nothing here can judge the claim.
    None,
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
    pub(super) const COMPUTED: Self = Self {
        stack: None,
        evidence: Evidence::Computed,
    };

    /// The verdict of no stack, on a claim that is untested on all of them.
    pub(super) const NOT_JUDGED: Self = Self {
        stack: None,
        evidence: Evidence::None,
    };

    /// The basis of a stack's cells. They are measured if the stack has an engine, unless the report `is_plan`.
    pub fn of(stack: Stack, is_plan: bool) -> Self {
        let evidence = match stack.engine() {
            Some(_) if !is_plan => Evidence::Measured,
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
            (_, Evidence::None) => "not judged",
            (None, _) | (_, Evidence::Computed) => "computed",
            (Some(Stack::Torch), _) => "PyTorch, predicted",
            (Some(Stack::Candle), Evidence::Predicted) => "our trainer, predicted",
            (Some(Stack::Candle), Evidence::Measured) => "our trainer, measured",
        }
    }
}
