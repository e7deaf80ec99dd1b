//! What is known of a method, whatever its options.

use super::field::Field;

/// The keys that all methods of linear layers have.
pub(crate) const OF_LAYERS: [&str; 4] = [
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "modules_to_save",
];

/// What is known of a method.
#[derive(Debug)]
pub struct Facts {
    /// The name in the literature.
    pub title: &'static str,
    /// PEFT's `peft_type`.
    pub peft_type: &'static str,
    /// The field of `adapter_config.json` that is true for this method alone, of those with the same type.
    pub mark: Option<&'static str>,
    /// What gets an adapter.
    pub of: Of,
    /// True if PEFT's choice for the model's family is the default.
    pub is_chosen_by_family: bool,
    /// The keys at the top of a cell that only some methods have, without those of all methods of layers.
    pub keys: &'static [&'static str],
    /// The fields of `adapter_config.json`, in the order in which they are written.
    pub fields: &'static [Field],
    /// The tensors of one module's adapter.
    pub tensors: &'static [SavedTensor],
}

impl Facts {
    /// True if a module's adapter has a tensor of this name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.tensors.iter().any(|tensor| tensor.name == name)
    }

    /// The key that a field of PEFT stands for.
    pub fn key_of(&self, field: &str) -> Option<&'static str> {
        let mut fields = self.fields.iter().filter_map(Field::key);
        fields.find(|own| own.name == field).map(|own| own.key)
    }
}

/// What gets an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Linear layers.
    Layers,
    /// The embeddings of what stands before each sequence.
    VirtualTokens,
    /// The keys and values of what stands before each sequence, in every block: a key-value cache.
    CachedTokens,
    /// Norms, which are trained themselves.
    Norms,
}

/// A tensor of a module's adapter in a file.
#[derive(Debug, Clone, Copy)]
pub struct SavedTensor {
    /// What follows the module's name.
    pub name: &'static str,
    /// Number of dimensions.
    pub dims: usize,
    /// The dimension that is the rank.
    pub rank_at: Option<usize>,
}

impl SavedTensor {
    /// A vector.
    pub(crate) const fn vector(name: &'static str) -> Self {
        Self {
            name,
            dims: 1,
            rank_at: None,
        }
    }

    /// A matrix.
    pub(crate) const fn matrix(name: &'static str) -> Self {
        Self {
            dims: 2,
            ..Self::vector(name)
        }
    }

    /// The tensor with the rank as this dimension.
    pub(crate) const fn rank_at(self, dimension: usize) -> Self {
        Self {
            rank_at: Some(dimension),
            ..self
        }
    }
}
