//! The basis of a verdict: a stack, and the origin of its figures.

use options::{Engine, Stack};
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

    /// The bases of cells that have figures, in the order of reports.
    pub(crate) const OF_CELLS: [Self; 4] = [
        Self::new(Stack::Torch, Evidence::Measured),
        Self::new(Stack::Torch, Evidence::Predicted),
        Self::new(Stack::Candle, Evidence::Measured),
        Self::new(Stack::Candle, Evidence::Predicted),
    ];

    const fn new(stack: Stack, evidence: Evidence) -> Self {
        Self {
            stack: Some(stack),
            evidence,
        }
    }

    /// The basis of a stack's cells. They are measured if they have an engine, unless the report `is_plan`.
    pub fn of(stack: Stack, engine: Option<Engine>, is_plan: bool) -> Self {
        match engine {
            Some(_) if !is_plan => Self::new(stack, Evidence::Measured),
            _ => Self::new(stack, Evidence::Predicted),
        }
    }

    /// The name in reports, such as `PyTorch, predicted`.
    pub fn name(self) -> &'static str {
        match (self.stack, self.evidence) {
            (_, Evidence::None) => "not judged",
            (None, _) | (_, Evidence::Computed) => "computed",
            (Some(Stack::Torch), Evidence::Predicted) => "PyTorch, predicted",
            (Some(Stack::Torch), Evidence::Measured) => "PyTorch, measured",
            (Some(Stack::Candle), Evidence::Predicted) => "our trainer, predicted",
            (Some(Stack::Candle), Evidence::Measured) => "our trainer, measured",
        }
    }
}
