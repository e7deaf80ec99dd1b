//! Claims bound to the groups that they are about.

use base::text::Mistake;
use indexmap::IndexSet;
use spec::{Claim, Selector, SpecError, Study};

use crate::group::Group;

/// A claim of a spec and the groups that it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundClaim {
    /// Its place in the spec, from 0.
    pub index: usize,
    /// The claim as the spec states it.
    pub claim: Claim,
    /// The `group_id` of each group.
    pub groups: IndexSet<String>,
}

/// The claims of a study.
pub(crate) fn bind(study: &Study) -> Vec<BoundClaim> {
    let selector = Selector::new(study);
    let bound = |(index, claim): (usize, &Claim)| BoundClaim {
        index,
        claim: claim.clone(),
        groups: selector.groups(&claim.cells),
    };
    study.claims.iter().enumerate().map(bound).collect()
}

impl BoundClaim {
    /// True if the claim is about this group.
    pub(super) fn is_about(&self, group: &Group) -> bool {
        group.cells[0]
            .text("group_id")
            .is_some_and(|id| self.groups.contains(id))
    }

    /// A mistake in the expression `text`, which stands at `key`.
    pub fn error(&self, key: &str, text: &str, mistake: Mistake) -> SpecError {
        self.claim.origin.mistake_in(key, text, mistake)
    }
}
