//! The encoders that differ in more than names and sizes.

use crate::arch::Family;

/// An encoder's family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    DistilBert,
    Bert,
}

impl Variant {
    /// The variant of `family`; `None` if it is a decoder.
    pub(super) fn new(family: Family) -> Option<Self> {
        match family {
            Family::DistilBert => Some(Self::DistilBert),
            Family::Bert => Some(Self::Bert),
            Family::Llama | Family::Mistral | Family::Qwen2 | Family::Qwen3 | Family::Phi3 => None,
        }
    }

    /// The family of this variant.
    pub(super) fn family(self) -> Family {
        match self {
            Self::DistilBert => Family::DistilBert,
            Self::Bert => Family::Bert,
        }
    }
}
