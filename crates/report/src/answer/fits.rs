//! The verdicts on the budgets.

use base::text::format::bytes;

use super::evidence::Evidence;
use super::failures::remedy;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::group::Group;
use crate::judged::Judged;

/// The most configurations that are named.
const MOST_NAMED: usize = 2;

/// The configurations that fit their budget, and what would make others fit. `None` without a budget.
pub(super) fn sentence(evidence: &Evidence<'_>) -> Option<Sentence> {
    let mut judged: Vec<Judged<'_>> = evidence.groups.iter().filter_map(Judged::of).collect();
    judged.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let groups: Vec<&Group> = judged.iter().map(|judged| judged.group).collect();
    let (fit, over): (Vec<&Judged<'_>>, Vec<&Judged<'_>>) = judged.iter().partition(|judged| judged.fits);
    let budget = budget(&judged)?;
    if let [only] = &judged[..] {
        return Some(Sentence::about(
            only.alone(evidence, &budget),
            Figures::Predicted,
            groups,
        ));
    }
    let mut text = match (fit.len(), judged.len()) {
        (2, 2) => format!("Both configurations fit {budget}"),
        (n, all) if n == all => format!("All {all} configurations fit {budget}"),
        (0, 2) => format!("Neither configuration fits {budget}"),
        (0, all) => format!("None of {all} configurations fits {budget}"),
        (n, all) => format!(
            "{n} of {all} configurations {} {budget}",
            if n == 1 { "fits" } else { "fit" }
        ),
    };
    if let Some(largest) = fit.last() {
        text += &format!("; the tightest is {} with {}", largest.named(evidence), largest.sizes());
    }
    text += ".";
    for judged in over.iter().take(MOST_NAMED) {
        text += &format!(
            " {} needs {}{}.",
            judged.named(evidence),
            judged.sizes(),
            remedy(&judged.group.cells[0])
        );
    }
    Some(Sentence::about(text, Figures::Predicted, groups))
}

impl Judged<'_> {
    /// The verdict on the only configuration.
    fn alone(&self, evidence: &Evidence<'_>, budget: &str) -> String {
        let (name, needed) = (self.named(evidence), bytes(self.needed.into()));
        match self.fits {
            true => format!("{name} fits {budget}: it needs {needed}."),
            false => format!(
                "{name} does not fit {budget}: it needs {needed}{}.",
                remedy(&self.group.cells[0])
            ),
        }
    }

    fn named(&self, evidence: &Evidence<'_>) -> String {
        evidence.name(self.group)
    }

    fn sizes(&self) -> String {
        format!("{} of {}", bytes(self.needed.into()), bytes(self.budget.into()))
    }
}

/// The common budget, by its GPU and its size: `the t4 (14.56 GiB)`.
fn budget(judged: &[Judged<'_>]) -> Option<String> {
    let first = judged.first()?;
    let gpu = |judged: &Judged<'_>| judged.group.cells[0].text("gpu").map(str::to_owned);
    let size = bytes(first.budget.into());
    let one_size = judged.iter().all(|judged| judged.budget == first.budget);
    Some(match gpu(first) {
        Some(name)
            if judged
                .iter()
                .all(|judged| gpu(judged).as_deref() == Some(name.as_str())) =>
        {
            format!("the {name} ({size})")
        }
        _ if one_size => format!("a budget of {size}"),
        _ => "their budgets".into(),
    })
}
