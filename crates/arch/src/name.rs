//! Hugging Face's names of modules and weights, in parts: a model has hundreds, and a plan needs none of them as text.

use std::fmt::{self, Display, Formatter};

use super::config::ModelConfig;
use super::module::Module;

/// The name of a module, such as `model.layers.0.self_attn.q_proj`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleName {
    /// The list of blocks and the index in it; `None` for a module outside blocks.
    block: Option<(&'static str, usize)>,
    path: &'static str,
}

impl ModuleName {
    /// A module outside blocks.
    pub const fn new(path: &'static str) -> Self {
        Self { block: None, path }
    }

    /// The index of the block that has the module.
    pub fn block(self) -> Option<usize> {
        self.block.map(|(_, index)| index)
    }

    /// A weight of the module: `part` is what follows its name, such as `weight`.
    pub const fn part(self, part: &'static str) -> WeightName {
        WeightName { module: self, part }
    }
}

impl Display for ModuleName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.block {
            Some((blocks, index)) => write!(f, "{blocks}.{index}.{}", self.path),
            None => f.write_str(self.path),
        }
    }
}

/// The name of a weight, such as `model.layers.0.self_attn.q_proj.weight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightName {
    /// The module that has the weight.
    pub module: ModuleName,
    /// What follows the module's name.
    pub part: &'static str,
}

impl WeightName {
    /// The name in timelines, without `.weight` at its end.
    pub fn in_timeline(&self) -> impl Display {
        InTimeline(*self)
    }
}

struct InTimeline(WeightName);

impl Display for InTimeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.part {
            "weight" => self.0.module.fmt(f),
            part => self.0.module.part(part.strip_suffix(".weight").unwrap_or(part)).fmt(f),
        }
    }
}

impl Display for WeightName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.module, self.part)
    }
}

impl ModelConfig {
    /// The name of a module of a block.
    pub fn in_block(&self, index: usize, module: &Module) -> ModuleName {
        ModuleName {
            block: Some((self.family.description().blocks, index)),
            path: module.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn names_in_parts_are_those_of_the_weights() {
        let config = Preset::named("tiny").unwrap().config();
        let description = config.family.description();
        let query = config.in_block(1, &description.block[1]).part("weight");
        assert_eq!(query.to_string(), "model.layers.1.self_attn.q_proj.weight");
        let query_in_timeline = |part| query.module.part(part).in_timeline().to_string();
        assert_eq!(query_in_timeline("weight"), "model.layers.1.self_attn.q_proj");
        assert_eq!(
            query_in_timeline("lora_A.weight"),
            "model.layers.1.self_attn.q_proj.lora_A"
        );
        assert_eq!(query_in_timeline("bias"), "model.layers.1.self_attn.q_proj.bias");
        let weights = config.weights();
        assert!(weights.iter().any(|weight| weight.name == query.to_string()));
        assert_eq!(ModuleName::new("lm_head").part("weight").to_string(), "lm_head.weight");
    }
}
