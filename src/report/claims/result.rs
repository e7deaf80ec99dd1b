//! The result of a claim.

use serde::Serialize;

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// The condition holds.
    Supported,
    /// The condition does not hold.
    Refuted,
    /// Repeats disagree, or a value is too close to the point where the verdict changes.
    Undecided,
    /// A measurement is missing: cells did not run, failed, or ran out of memory.
    Untested,
}

impl ClaimVerdict {
    /// All verdicts, in the order in which summaries count them.
    pub const ALL: [Self; 4] = [Self::Supported, Self::Refuted, Self::Undecided, Self::Untested];

    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
            Self::Untested => "untested",
        }
    }
}

/// A claim with its verdict, for templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimResult {
    /// From 1, in the spec's order.
    pub number: usize,
    /// The sentence.
    pub claim: String,
    /// The source of the sentence.
    pub source: String,
    /// A remark of the spec.
    pub note: Option<String>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// True if the spec expects this verdict. An undecided claim contradicts no expectation.
    pub expected: bool,
    /// The condition.
    pub holds: String,
    /// The values that the spec names.
    pub measured: Vec<MeasuredValue>,
    /// The ids of the cells that the verdict rests on.
    pub cells: Vec<String>,
    /// The measured columns that it rests on.
    pub columns: Vec<String>,
    /// The reason if it is undecided or untested.
    pub why: Option<String>,
    /// The claim's place in the spec.
    pub place: String,
}

/// A named value of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MeasuredValue {
    /// Its name in the condition.
    pub name: String,
    /// The value with its unit; with the lowest and the highest if repeats differ.
    pub text: String,
    /// The expression that computes it.
    pub value: String,
}
