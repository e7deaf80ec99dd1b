//! LoKr (Yeh et al. 2023, arXiv:2309.14859): the Kronecker product of a small matrix and a low-rank product is added to
//! the weight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::interface::{Context, Facts, Layer, Method, Of, OwnScales, SavedTensor, Tensor, fixed, key, start, word};
use super::loha::{DROPOUTS, check_four_bits};
use crate::Patterns;
use crate::invalid::{Invalid, at_least};

/// The first matrix, `[l, m]`, or its factors.
pub const LOKR_W1: [&str; 3] = ["lokr_w1", "lokr_w1_a", "lokr_w1_b"];
/// The second matrix, `[k, n]`, or its factors. Outputs are l · k, inputs m · n.
pub const LOKR_W2: [&str; 3] = ["lokr_w2", "lokr_w2_a", "lokr_w2_b"];

pub(super) const FACTS: Facts = Facts {
    title: "LoKr",
    peft_type: "LOKR",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &["rank", "lokr", "adapter_dtype"],
    fields: &[
        key("r", "rank").default("8").decides().field(),
        key("alpha", "lokr.alpha").decides().field(),
        DROPOUTS[0],
        DROPOUTS[1],
        fixed("use_effective_conv2d", "false"),
        key("decompose_both", "lokr.decompose_both").decides().field(),
        key("decompose_factor", "lokr.decompose_factor")
            .words(&[word("-1", "null")])
            .decides()
            .field(),
        fixed("rank_dropout_scale", "false"),
        start("init_weights", "true"),
        key("rank_pattern", "lokr.rank_pattern").decides().field(),
        key("alpha_pattern", "lokr.alpha_pattern").decides().field(),
    ],
    tensors: &[
        SavedTensor::matrix(LOKR_W1[0]),
        SavedTensor::matrix(LOKR_W1[1]).rank_at(1),
        SavedTensor::matrix(LOKR_W1[2]).rank_at(0),
        SavedTensor::matrix(LOKR_W2[0]),
        SavedTensor::matrix(LOKR_W2[1]).rank_at(1),
        SavedTensor::matrix(LOKR_W2[2]).rank_at(0),
    ],
};

/// Options of LoKr.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lokr {
    /// The product is scaled by alpha / rank.
    pub alpha: f64,
    /// The first matrix is a product of two factors, too, where its larger side is more than twice the rank.
    pub decompose_both: bool,
    /// The first factor of the sides. Default: both factors of a side are as equal as can be, PEFT's -1.
    #[serde(deserialize_with = "factor")]
    #[schemars(range(min = 1))]
    pub decompose_factor: Option<usize>,
    /// Other ranks of some modules, by a regular expression for the end of their names.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub rank_pattern: Patterns<usize>,
    /// Other values of alpha for some modules, by patterns as in rank_pattern.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub alpha_pattern: Patterns<f64>,
}

impl Default for Lokr {
    fn default() -> Self {
        Self {
            alpha: 8.0,
            decompose_both: false,
            decompose_factor: None,
            rank_pattern: Patterns::new(),
            alpha_pattern: Patterns::new(),
        }
    }
}

/// What stands for PEFT's -1.
const NO_FACTOR: &str = "leave the key out for PEFT's -1";

/// The first factor of the sides. PEFT's -1 is a mistake of its own.
fn factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let Some(factor) = Option::<i64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let wrong = |_| de::Error::custom(format!("must be at least 1, got {factor}; {NO_FACTOR}"));
    usize::try_from(factor).map(Some).map_err(wrong)
}

/// The shapes of LoKr's two matrices for one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LokrShape {
    /// Rows and columns of the first matrix.
    pub first: [usize; 2],
    /// Rows and columns of the second matrix.
    pub second: [usize; 2],
    /// The rank of the first matrix's factors, if it has factors.
    pub first_rank: Option<usize>,
    /// The rank of the second matrix's factors, if it has factors.
    pub second_rank: Option<usize>,
}

impl Lokr {
    /// The shapes for a layer with an adapter of this rank (`update_layer` in PEFT's `tuners/lokr/layer.py`).
    pub fn shape(&self, rank: usize, rows: usize, columns: usize) -> LokrShape {
        let [l, k] = self.factors(rows);
        let [m, n] = self.factors(columns);
        let is_low = |side: usize| 2 * rank < side;
        LokrShape {
            first: [l, m],
            second: [k, n],
            first_rank: (self.decompose_both && is_low(l.max(m))).then_some(rank),
            second_rank: is_low(k.max(n)).then_some(rank),
        }
    }

    /// Two factors of a side (`factorization`).
    fn factors(&self, side: usize) -> [usize; 2] {
        let most = self.decompose_factor.unwrap_or(side);
        if self.decompose_factor.is_some() && side.is_multiple_of(most) {
            return [most, side / most];
        }
        let (mut first, mut second) = (1, side);
        while first < second {
            let next = (first + 1..).find(|next| side.is_multiple_of(*next)).unwrap_or(side);
            let other = side / next;
            // PEFT never shortens the length that it compares with.
            if next + other > 1 + side || next > most {
                break;
            }
            (first, second) = (next, other);
        }
        [first.min(second), first.max(second)]
    }
}

impl Method for Lokr {
    fn own_scales(&self) -> Option<OwnScales<'_>> {
        Some(OwnScales {
            map: "lokr",
            ranks: &self.rank_pattern,
            alphas: &self.alpha_pattern,
            alpha_key: "lokr.alpha",
            alpha: Some(self.alpha),
        })
    }

    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let shape = self.shape(layer.rank, layer.rows, layer.columns);
        let matrix = |names: [&'static str; 3], [rows, columns]: [usize; 2], rank: Option<usize>| match rank {
            None => vec![Tensor::new(names[0], [rows, columns])],
            Some(rank) => vec![
                Tensor::new(names[1], [rows, rank]),
                Tensor::new(names[2], [rank, columns]),
            ],
        };
        let mut tensors = matrix(LOKR_W1, shape.first, shape.first_rank);
        tensors.extend(matrix(LOKR_W2, shape.second, shape.second_rank));
        tensors
    }

    fn shorter_side(&self, _: usize) -> usize {
        usize::MAX
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        if let Some(own) = self.own_scales() {
            own.check_values(found);
        }
        if let Some(factor) = self.decompose_factor {
            let least = at_least("lokr.decompose_factor", factor, 1);
            found.extend(least.err().map(|invalid| invalid.help(NO_FACTOR)));
        }
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        self.check_patterns(context.rank, context.lora_alpha, found);
        check_four_bits(context, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_the_factors_of_peft() {
        let factors = |decompose_factor, side| {
            let lokr = Lokr {
                decompose_factor,
                ..Lokr::default()
            };
            lokr.factors(side)
        };
        for (side, expected) in [
            (576, [24, 24]),
            (896, [28, 32]),
            (4864, [64, 76]),
            (1536, [32, 48]),
            (11_008, [86, 128]),
            (127, [1, 127]),
            (40, [5, 8]),
        ] {
            assert_eq!(factors(None, side), expected, "{side}");
        }
        assert_eq!((factors(Some(8), 24), factors(Some(16), 24)), ([8, 3], [4, 6]));
    }
}
