//! Which modules an adapter's configuration names.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// PEFT's `target_modules`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of names, or a regular expression")]
pub enum Targets {
    /// Last components of the modules' names, or the names in full.
    Names(BTreeSet<String>),
    /// A regular expression for names in full.
    Pattern(String),
}

impl Targets {
    /// True if last components of names would be those of other modules, too. PEFT would apply a pattern to modules of
    /// every kind.
    pub(super) fn are_single(&self) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|name| name.contains('.')),
            Self::Pattern(_) => true,
        }
    }

    /// The last components of the names; none of a regular expression.
    pub fn last_components(&self) -> BTreeSet<String> {
        let names = match self {
            Self::Names(names) => names.iter(),
            Self::Pattern(_) => return BTreeSet::new(),
        };
        names
            .filter_map(|name| name.rsplit('.').next())
            .map(str::to_owned)
            .collect()
    }
}

/// PEFT's `layers_to_transform`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the index of a block, or a list of indices")]
pub enum Layers {
    /// One block.
    One(usize),
    /// Some blocks.
    Several(Vec<usize>),
}
