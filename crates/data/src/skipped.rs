//! Samples that are left out, and those that are worth a remark.

use std::fmt;

use base::text::counted;
use records::LeftOut;
use serde::{Deserialize, Serialize};

/// The number of samples that nothing can be trained on, and of those whose prompt is not what it seems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Samples of fewer than two tokens.
    pub(super) short: usize,
    /// Samples whose predicted tokens all lie beyond `max_seq_length`.
    pub(super) cut: usize,
    /// Samples that have no predicted token, however long they may be.
    pub(super) without_targets: usize,
    /// Samples that do not begin with all tokens of their prompt. They are not left out.
    pub(super) prompt_mismatches: usize,
}

/// The skipped samples of each part of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedParts {
    /// Of the data to train on, and of what `eval_fraction` holds out of it.
    pub(super) training: Skipped,
    /// Of the data for evaluation.
    pub(super) evaluation: Skipped,
    /// Of the data whose forgetting is measured.
    pub(super) forgetting: Skipped,
}

impl SkippedParts {
    /// Sentences for the user, on each part.
    pub fn remarks(self) -> impl Iterator<Item = String> {
        let training = self.training.remarks("samples");
        let evaluation = self.evaluation.remarks("samples for evaluation");
        training
            .chain(evaluation)
            .chain(self.forgetting.remarks("samples for forgetting"))
    }

    /// The numbers for the record, of the data to train on; `None` if no sample of it was left out.
    pub fn left_out(&self) -> Option<LeftOut> {
        self.training.left_out()
    }
}

impl Skipped {
    /// Sentences for the user on these `samples`. Those of fewer than two tokens alone need none.
    fn remarks(self, samples: &str) -> impl Iterator<Item = String> {
        let left_out = (self.cut + self.without_targets > 0).then(|| format!("{samples}: {self}"));
        let prompt_mismatches = (self.prompt_mismatches > 0).then(|| {
            let (prompts, begin) = match self.prompt_mismatches {
                1 => ("1 prompt has".into(), "its sample does not begin"),
                _ => (counted(self.prompt_mismatches, "prompt") + " have", "their samples do not begin"),
            };
            format!(
                "{samples}: {prompts} tokens with which {begin}; what is predicted begins where they part, as in TRL. End \
                 prompts where a token ends, or use a chat template that writes a prompt alone in the same way"
            )
        });
        [left_out, prompt_mismatches].into_iter().flatten()
    }

    fn left_out(self) -> Option<LeftOut> {
        let left_out = LeftOut {
            short: self.short,
            cut: self.cut,
            without_targets: self.without_targets,
        };
        (left_out != LeftOut::default()).then_some(left_out)
    }
}

/// Such as `3 shorter ones were left out`; empty if none was.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.short, "shorter ones were left out"),
            (
                self.cut,
                "were left out because `max_seq_length` cuts off all that is predicted",
            ),
            (
                self.without_targets,
                "were left out because nothing in them is predicted, such as conversations in which the assistant says nothing",
            ),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, reason)| format!("{count} {reason}")).collect();
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted() {
        let of = |short, cut, without_targets| Skipped {
            short,
            cut,
            without_targets,
            ..Skipped::default()
        };
        let remark = |skipped: Skipped| skipped.remarks("samples").collect::<Vec<_>>();
        assert_eq!(of(0, 0, 0).to_string(), "");
        assert_eq!(of(3, 0, 0).to_string(), "3 shorter ones were left out");
        assert!(remark(of(3, 0, 0)).is_empty() && remark(of(0, 0, 0)).is_empty());
        let cut = "2 were left out because `max_seq_length` cuts off all that is predicted";
        assert_eq!(remark(of(0, 2, 0)), [format!("samples: {cut}")]);
        assert_eq!(of(1, 2, 0).to_string(), format!("1 shorter ones were left out; {cut}"));
        let nothing = "4 were left out because nothing in them is predicted, such as";
        assert!(of(1, 2, 4).to_string().contains(&format!("{cut}; {nothing}")));
        assert!(remark(of(0, 0, 4))[0].contains(nothing));
    }

    #[test]
    fn prompts_that_differ_are_no_reason_to_leave_samples_out() {
        let of = |prompt_mismatches| Skipped {
            prompt_mismatches,
            ..Skipped::default()
        };
        assert_eq!(of(5).to_string(), "");
        assert!(of(5).left_out().is_none());
        assert!(
            of(5)
                .remarks("samples")
                .next()
                .unwrap()
                .starts_with("samples: 5 prompts have")
        );
    }

    #[test]
    fn the_parts_of_the_data_are_told_apart() {
        let of = |cut| Skipped {
            cut,
            ..Skipped::default()
        };
        let parts = SkippedParts {
            training: of(2),
            evaluation: of(3),
            forgetting: of(4),
        };
        let remarks: Vec<String> = parts.remarks().collect();
        let begins = [
            "samples: 2 were",
            "samples for evaluation: 3 were",
            "samples for forgetting: 4 were",
        ];
        assert!(
            remarks.len() == 3
                && remarks
                    .iter()
                    .zip(begins)
                    .all(|(remark, begin)| remark.starts_with(begin))
        );
        assert_eq!(parts.left_out().unwrap().cut, 2);
    }
}
