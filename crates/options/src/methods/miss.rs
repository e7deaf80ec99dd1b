//! MiSS (Kang & Yin 2024, arXiv:2409.15371).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interface::{Facts, Layer, Method, Of, SavedTensor, Tensor, fixed, key, other_start, word};
use crate::invalid::{Invalid, at_least, probability};

/// MiSS's block, `[rank, output features]`, or fewer columns.
pub const MISS: &str = "miss_block";

pub(super) const FACTS: Facts = Facts {
    title: "MiSS",
    peft_type: "MISS",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &["rank", "miss", "adapter_dtype"],
    fields: &[
        key("r", "rank").default("64").decides().field(),
        key("miss_dropout", "miss.miss_dropout").field(),
        key("mini_r", "miss.mini_r")
            .words(&[word("1", "null")])
            .decides()
            .field(),
        key("init_weights", "miss.init_weights")
            .words(&[word("true", r#""default""#), other_start("false", r#""default""#)])
            .decides()
            .field(),
        fixed("bias", r#""none""#),
    ],
    tensors: &[SavedTensor::matrix(MISS).rank_at(0)],
};

/// Options of MiSS. rank is the length of a shard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Miss {
    /// The variant: default, or mini, whose block has mini_r columns that are repeated.
    pub init_weights: MissInit,
    /// Columns of mini's block, a divisor of each layer's outputs. Default: 1.
    #[schemars(range(min = 1))]
    pub mini_r: Option<usize>,
    /// Dropout on the adapter's input.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub miss_dropout: f64,
}

/// The variant of MiSS, by PEFT's `init_weights`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissInit {
    /// A block with a column for each output: PEFT's `true`.
    #[default]
    Default,
    /// A block of `mini_r` columns, which are repeated.
    Mini,
    /// Each shard of the weight is multiplied with a block of its own. Not trained yet.
    Bat,
}

impl Miss {
    /// Columns of the block if they are repeated, a divisor of each layer's outputs.
    pub fn repeated(&self) -> Option<usize> {
        (self.init_weights == MissInit::Mini).then(|| self.mini_r.unwrap_or(1))
    }
}

impl Method for Miss {
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        vec![Tensor::new(MISS, [layer.rank, self.repeated().unwrap_or(layer.rows)])]
    }

    fn shorter_side(&self, rank: usize) -> usize {
        self.repeated().map_or(rank, |columns| columns.min(rank))
    }

    fn dropout(&self) -> f64 {
        self.miss_dropout
    }

    fn check_layer(&self, layer: &Layer<'_>) -> Result<(), String> {
        let (rank, module, inputs, outputs) = (layer.rank, layer.name, layer.columns, layer.rows);
        if rank > inputs {
            return Err(format!(
                "`rank: {rank}`: MiSS's shards of {module} would be longer than its {inputs} inputs"
            ));
        }
        match self.repeated().filter(|mini_r| !outputs.is_multiple_of(*mini_r)) {
            Some(mini_r) => Err(format!(
                "`miss.mini_r: {mini_r}` does not divide the {outputs} outputs of {module}"
            )),
            None => Ok(()),
        }
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        found.extend(probability("miss.miss_dropout", self.miss_dropout).err());
        if let Some(mini_r) = self.mini_r {
            found.extend(at_least("miss.mini_r", mini_r, 1).err());
            if self.init_weights != MissInit::Mini {
                let invalid = Invalid::idle("miss.mini_r", "only `init_weights: mini` has it");
                let invalid = invalid.with("miss.init_weights");
                found.push(invalid.help("leave the key out, or use `miss: {init_weights: mini}`"));
            }
        }
        if self.init_weights == MissInit::Bat {
            let message = "bat multiplies the weight itself with the blocks, which is not trained yet";
            let invalid = Invalid::new("miss.init_weights", message);
            found.push(invalid.help("use `init_weights: default` or `mini`"));
        }
    }
}
