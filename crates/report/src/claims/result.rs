//! The result of a claim.

use serde::Serialize;

use super::basis::Basis;

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// The condition holds.
    Supported,
    /// The claim is understated: the effect is larger than claimed.
    Exceeded,
    /// The condition does not hold.
    Refuted,
    /// Repeats disagree, or a value is too close to the point where the verdict changes.
    Undecided,
    /// A figure is missing, or nothing here can judge the claim.
    Untested,
}

impl ClaimVerdict {
    /// All verdicts, in the order in which summaries count them.
    pub const ALL: [Self; 5] = [
        Self::Supported,
        Self::Exceeded,
        Self::Refuted,
        Self::Undecided,
        Self::Untested,
    ];

    /// The name in a spec.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Exceeded => "exceeded",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
            Self::Untested => "untested",
        }
    }
}

/// A claim with its verdicts, for templates.
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
    /// The condition; `None` if nothing here can judge the claim.
    pub holds: Option<String>,
    /// The condition for being understated.
    pub exceeds: Option<String>,
    /// The verdicts, one for each basis.
    pub verdicts: Vec<BasisVerdict>,
    /// The claim's place in the spec.
    pub place: String,
}

impl ClaimResult {
    /// Its place among refuted claims, the lowest first: those that all stacks refute, then those on which they disagree. What a
    /// single stack or the claim's own numbers refute comes last.
    pub(crate) fn weight(&self) -> u8 {
        let is_refuted = |verdict: &BasisVerdict| verdict.verdict == ClaimVerdict::Refuted;
        match self.verdicts.as_slice() {
            [_] => 2,
            verdicts => u8::from(!verdicts.iter().all(is_refuted)),
        }
    }
}

/// The verdict on a claim by the cells of one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BasisVerdict {
    /// The stack and the origin of the figures.
    #[serde(flatten)]
    pub basis: Basis,
    /// The name of the basis in reports.
    pub on: &'static str,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// True if the spec expects this verdict. An undecided claim contradicts no expectation.
    pub expected: bool,
    /// The values that the spec names.
    pub measured: Vec<NamedValue>,
    /// The ids of the cells that the verdict rests on.
    pub cells: Vec<String>,
    /// The columns that it rests on.
    pub columns: Vec<String>,
    /// The reason if it is undecided or untested.
    pub why: Option<String>,
}

/// A named value of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// Its name in the condition.
    pub name: String,
    /// The value with its unit; with the lowest and the highest if repeats differ.
    pub text: String,
    /// The expression that computes it.
    pub value: String,
}
