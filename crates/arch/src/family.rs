//! The families that are known here.

use options::Task;

use super::description::Description;
use super::families;
use super::module::Kind;

macro_rules! families {
    ($($(#[$doc:meta])* $name:ident => $module:ident,)+) => {
        /// Kinds of models that differ in more than their sizes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Family {
            $($(#[$doc])* $name,)+
        }

        impl Family {
            /// Every family: decoders, then encoders.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The facts of the family.
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Self::$name => &families::$module::FAMILY,)+
                }
            }
        }
    };
}

families! {
    /// Touvron et al. 2023, arXiv:2302.13971; Grattafiori et al. 2024, arXiv:2407.21783.
    Llama => llama,
    /// Jiang et al. 2023, arXiv:2310.06825.
    Mistral => mistral,
    /// Qwen 2 and 2.5: Yang et al. 2024, arXiv:2407.10671.
    Qwen2 => qwen2,
    /// Yang et al. 2025, arXiv:2505.09388.
    Qwen3 => qwen3,
    /// Phi 3 and 4: Abdin et al. 2024, arXiv:2404.14219.
    Phi3 => phi3,
    /// Gemma Team 2024, arXiv:2403.08295.
    Gemma => gemma,
    /// Gemma Team 2024, arXiv:2408.00118.
    Gemma2 => gemma2,
    /// The language model: Gemma Team 2025, arXiv:2503.19786.
    Gemma3 => gemma3,
    /// Sanh et al. 2019, arXiv:1910.01108.
    DistilBert => distilbert,
    /// Devlin et al. 2018, arXiv:1810.04805.
    Bert => bert,
}

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
