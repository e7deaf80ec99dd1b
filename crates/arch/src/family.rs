//! What follows from the facts of a family.

use options::Task;

use super::description::Description;
pub use super::families::Family;
use super::module::{Kind, Module};

impl Family {
    /// The family's name: its `model_type`.
    pub fn name(self) -> &'static str {
        self.description().model_type
    }

    /// True for an encoder with a classifier; the others are decoders.
    pub fn is_encoder(self) -> bool {
        self.description().task == Task::SequenceClassification
    }

    /// The linear layers that can have an adapter, by the last parts of their names; several layers may share one.
    pub fn target_modules(self) -> Vec<&'static str> {
        target_modules([self])
    }
}

impl Description {
    /// The layer that predicts tokens, if the family has one, with a weight of its own or not.
    pub fn token_head(&self) -> Option<&'static Module> {
        self.head.iter().find(|module| module.kind == Kind::TokenHead)
    }

    /// True unless `key` is one of those that only other families read.
    pub(super) fn reads(&self, key: &str) -> bool {
        let lists = |family: &Self| family.keys.contains(&key);
        lists(self) || !Family::ALL.iter().any(|family| lists(family.description()))
    }
}

/// The linear layers of some families that can have an adapter, each name once.
pub fn target_modules(families: impl IntoIterator<Item = Family>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for family in families {
        let Description { block, head, .. } = family.description();
        for module in block.iter().chain(*head).filter(|module| module.kind == Kind::Linear) {
            if !names.contains(&module.name()) {
                names.push(module.name());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A description that begins with another's could have kept its names.
    #[test]
    fn each_family_has_names_of_its_own() {
        let descriptions = || Family::ALL.iter().map(|family| family.description());
        let types: BTreeSet<_> = descriptions().map(|description| description.model_type).collect();
        let classes: BTreeSet<_> = descriptions().map(|description| description.class).collect();
        assert_eq!((types.len(), classes.len()), (Family::ALL.len(), Family::ALL.len()));
        assert!(!types.contains("") && !classes.contains(""));
    }
}
