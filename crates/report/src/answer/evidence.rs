//! Everything that answers are computed from.

use base::text::format::ByteUnit;

use super::naming;
use crate::claims::ClaimResult;
use crate::figures::AnswerResult;
use crate::group::Group;
use crate::methods::Losses;
use crate::outcomes::ComparedOutcome;
use crate::profile_path::{ProfilePath, Twins};
use crate::published::ComparedFigure;
use crate::speeds::Speeds;

/// The parts of a report's context that answers read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// The rows in the order of the study, with repeats in one group.
    pub groups: &'a [Group],
    /// Columns that vary.
    pub axes: &'a [String],
    /// Published figures, each compared with the measured or the predicted one.
    pub published: &'a [ComparedFigure],
    /// Published outcomes, each compared with the run's or the plan's.
    pub outcomes: &'a [ComparedOutcome],
    /// The spec's claims with their verdicts.
    pub claims: &'a [ClaimResult],
    /// The answer of the spec's author.
    pub own: &'a [AnswerResult],
    /// The judgement on the losses.
    pub losses: &'a Losses,
    /// The judgement on the speeds.
    pub speeds: &'a Speeds,
    /// The ways from profiles to trainings.
    pub paths: &'a [ProfilePath],
    /// Profiles with trainings of equal micro-batches and accumulation.
    pub twins: &'a [Twins],
    /// The unit for all memory of the study.
    pub memory_unit: ByteUnit,
}

impl Evidence<'_> {
    /// A configuration's name by its first axes, as code, where the ids of cells tell it from others of that name.
    pub(super) fn short_name(&self, group: &Group) -> String {
        naming::short_name(group, self.axes)
    }

    /// A configuration's name, as code. No other configuration of the study has it.
    pub(super) fn name(&self, group: &Group) -> String {
        naming::name(group, self.groups, self.axes)
    }
}
