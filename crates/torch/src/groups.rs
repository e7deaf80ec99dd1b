//! The parameters that are trained, in the groups that the optimizer steps one after the other.

use super::tape::Tensor;
use super::view::StorageId;

/// Groups of LoRA+: A and all else, B and vectors, biases (`create_loraplus_optimizer` in `optimizers/loraplus.py`).
const GROUPS: usize = 3;

/// The parameters that are trained.
pub(super) struct Groups<'t> {
    is_split: bool,
    groups: [Vec<Tensor<'t>>; GROUPS],
    /// The tables of embeddings.
    embeddings: Vec<StorageId>,
}

impl<'t> Groups<'t> {
    /// No parameters yet; of several groups if `loraplus`.
    pub(super) fn new(loraplus: bool) -> Self {
        Self {
            is_split: loraplus,
            groups: [const { Vec::new() }; GROUPS],
            embeddings: Vec::new(),
        }
    }

    /// Adds the parameter that is `part` of its module, such as `lora_B.weight`.
    pub(super) fn push(&mut self, parameter: Tensor<'t>, part: &str) {
        let group = match part {
            _ if !self.is_split => 0,
            "bias" => 2,
            options::methods::LORA_B => 1,
            _ if parameter.dims().len() == 1 => 1,
            _ => 0,
        };
        self.groups[group].push(parameter);
    }

    /// Adds the table of an embedding.
    pub(super) fn push_embedding(&mut self, table: Tensor<'t>) {
        self.embeddings.push(table.view.storage);
        self.push(table, "weight");
    }

    /// True for the table of an embedding, and so for a head that is tied to it.
    pub(super) fn is_embedding(&self, parameter: &Tensor<'t>) -> bool {
        self.embeddings.contains(&parameter.view.storage)
    }

    /// The parameters that become others, in the same groups. None of them is the table of an embedding.
    pub(super) fn filter_map<'u>(&self, mut become_other: impl FnMut(&Tensor<'t>) -> Option<Tensor<'u>>) -> Groups<'u> {
        let mut others = Groups::new(self.is_split);
        for (group, into) in self.groups.iter().zip(&mut others.groups) {
            into.extend(group.iter().filter_map(&mut become_other));
        }
        others
    }

    /// All parameters, group by group.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tensor<'t>> {
        self.groups.iter().flatten()
    }

    /// The groups that have parameters.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[Tensor<'t>]> {
        self.groups.iter().map(Vec::as_slice).filter(|group| !group.is_empty())
    }

    /// The number of parameters.
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }
}
