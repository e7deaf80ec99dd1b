//! The answer of the spec's author, and what it leaves to the others.

use base::text::Dimension;
use results::columns::dimension;

use super::evidence::Evidence;
use super::sentence::Sentence;
use crate::claims::ClaimVerdict;
use crate::figures::AnswerResult;
use crate::markdown::escape;

/// The sentences of the spec. One that the cells leave open, or that they contradict, says so.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let sentence = |own: &AnswerResult| {
        let text = match (own.verdict, &own.why) {
            (ClaimVerdict::Supported, _) => own.text.clone(),
            (ClaimVerdict::Undecided | ClaimVerdict::Untested, Some(why)) => {
                format!("Undecided ({}): {}", escape(why), own.text)
            }
            _ => format!("**Does not hold**: {}", own.text),
        };
        Sentence::with_ids(text, own.cells.iter().map(String::as_str))
    };
    evidence.own.iter().map(sentence).collect()
}

/// The subjects that the author's answer speaks of: nothing is said twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// True if there is an answer of the author.
    pub any: bool,
    /// The bytes of peaks.
    pub memory: bool,
    /// Losses, accuracies and forgetting.
    pub loss: bool,
}

impl Said {
    /// The subjects by the columns that the sentences read.
    pub(super) fn by(evidence: &Evidence<'_>) -> Self {
        let columns = || evidence.own.iter().flat_map(|own| &own.columns);
        let is_loss =
            |column: &String| column.starts_with("loss_") || column == "forgetting" || column == "accuracy_eval";
        Self {
            any: !evidence.own.is_empty(),
            memory: columns().any(|column| column.contains("peak") && dimension(column) == Dimension::Memory),
            loss: columns().any(is_loss),
        }
    }
}
