//! OFT (Qiu et al. 2023, arXiv:2306.07280): inputs are rotated block by block, by orthogonal matrices that follow from
//! skew-symmetric ones (Cayley's transform).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ia3::check_int8_inputs;
use super::interface::{Context, Facts, Layer, Method, Of, SavedTensor, Tensor, fixed, key, remark, start};
use crate::invalid::{Invalid, at_least, at_most};

/// The upper triangles of the blocks, `[blocks, size · (size - 1) / 2]`.
pub const OFT_R: &str = "oft_R.weight";

pub(super) const FACTS: Facts = Facts {
    title: "OFT",
    peft_type: "OFT",
    mark: None,
    of: Of::Layers,
    is_chosen_by_family: false,
    keys: &["oft", "adapter_dtype"],
    fields: &[
        key("r", "oft.r").decides().field(),
        key("oft_block_size", "oft.oft_block_size").decides().field(),
        fixed("module_dropout", "0.0"),
        fixed("fan_in_fan_out", "false"),
        fixed("bias", r#""none""#),
        start("init_weights", "true"),
        fixed("coft", "false"),
        remark("eps"),
        key("block_share", "oft.block_share").decides().field(),
        key("use_cayley_neumann", "oft.use_cayley_neumann").decides().field(),
        key("num_cayley_neumann_terms", "oft.num_cayley_neumann_terms")
            .decides()
            .field(),
    ],
    tensors: &[SavedTensor::matrix(OFT_R)],
};

/// Options of OFT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Oft {
    /// Features of a block. Where it does not divide a layer's inputs, the nearest divisor is taken, as in PEFT.
    pub oft_block_size: usize,
    /// Blocks of a layer, with `oft_block_size: 0`.
    pub r: usize,
    /// All blocks of a layer are one.
    pub block_share: bool,
    /// The rotation is a sum of powers in place of a solved system of equations.
    pub use_cayley_neumann: bool,
    /// Powers of that sum, from the identity on.
    #[schemars(range(min = 2))]
    pub num_cayley_neumann_terms: usize,
}

impl Default for Oft {
    fn default() -> Self {
        Self {
            oft_block_size: 32,
            r: 0,
            block_share: false,
            use_cayley_neumann: true,
            num_cayley_neumann_terms: 5,
        }
    }
}

impl Oft {
    /// Features of a block of a layer with so many inputs (`adjust_oft_parameters` in PEFT's `tuners/oft/layer.py`).
    pub fn block_size(&self, inputs: usize) -> usize {
        match self.r {
            0 => nearest_divisor(inputs, self.oft_block_size),
            blocks => inputs / nearest_divisor(inputs, blocks),
        }
    }

    /// The shape of the upper triangles of a layer with so many inputs: the blocks, and the elements of one.
    pub fn shape(&self, inputs: usize) -> [usize; 2] {
        let size = self.block_size(inputs);
        let blocks = if self.block_share { 1 } else { inputs / size };
        [blocks, size * (size - 1) / 2]
    }

    /// Terms of the sum of powers; `None` solves a system of equations.
    pub fn terms(&self) -> Option<usize> {
        self.use_cayley_neumann.then_some(self.num_cayley_neumann_terms)
    }
}

/// The divisor of `inputs` that is nearest to `asked`; the smaller one of two.
fn nearest_divisor(inputs: usize, asked: usize) -> usize {
    if asked >= inputs {
        return inputs;
    }
    let divides = |number: &usize| inputs.is_multiple_of(*number);
    let below = (1..=asked).rev().find(divides).unwrap_or(1);
    let above = (asked..=inputs).find(divides).unwrap_or(inputs);
    if asked.saturating_sub(below) <= above - asked {
        below
    } else {
        above
    }
}

impl Method for Oft {
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        vec![Tensor::new(OFT_R, self.shape(layer.columns))]
    }

    fn shorter_side(&self, _: usize) -> usize {
        if self.block_share { 1 } else { usize::MAX }
    }

    fn check_layer(&self, layer: &Layer<'_>) -> Result<(), String> {
        let (inputs, module) = (layer.columns, layer.name);
        if self.block_size(inputs) > 1 {
            return Ok(());
        }
        let (key, asked) = match self.r {
            0 => ("oft.oft_block_size", self.oft_block_size),
            blocks => ("oft.r", blocks),
        };
        Err(format!(
            "`{key}: {asked}`: the blocks of the {inputs} inputs of {module} would have one feature, and nothing to train"
        ))
    }

    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        check_int8_inputs(context, "OFT's rotated inputs", found);
    }

    fn check_values(&self, found: &mut Vec<Invalid>) {
        let (size, blocks) = (self.oft_block_size, self.r);
        found.extend(at_most("oft.oft_block_size", size, 1 << 16).err());
        found.extend(at_most("oft.r", blocks, 1 << 16).err());
        match (size, blocks) {
            (0, 0) => {
                let invalid = Invalid::new(
                    "oft.oft_block_size",
                    "neither the size nor the number of blocks is given",
                );
                found.push(
                    invalid
                        .with("oft.r")
                        .help("use `oft_block_size: 32`, or `r` with a number of blocks"),
                );
            }
            (1.., 1..) => {
                let message = "the size of blocks gives their number already";
                let invalid = Invalid::new("oft.r", message).with("oft.oft_block_size");
                found.push(invalid.help("write `oft_block_size: 0` beside `r`, as in PEFT, or leave `r` out"));
            }
            (_, _) => {}
        }
        let terms = self.num_cayley_neumann_terms;
        let key = "oft.num_cayley_neumann_terms";
        if self.use_cayley_neumann {
            let range = at_least(key, terms, 2).and_then(|()| at_most(key, terms, 1 << 10));
            found.extend(range.err());
        } else if terms != Self::default().num_cayley_neumann_terms {
            let message = "a solved system of equations has no terms";
            let invalid = Invalid::idle(key, message).with("oft.use_cayley_neumann");
            found.push(invalid.help("leave the key out, or use `use_cayley_neumann: true`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_divide_the_inputs() {
        let size = |oft_block_size, inputs| {
            let oft = Oft {
                oft_block_size,
                ..Oft::default()
            };
            oft.block_size(inputs)
        };
        // As PEFT adjusts them.
        for (asked, inputs, adjusted) in [
            (16, 40, 20),
            (32, 24, 24),
            (31, 56, 28),
            (8, 97, 1),
            (100, 896, 112),
            (32, 576, 32),
        ] {
            assert_eq!(size(asked, inputs), adjusted, "{asked} of {inputs}");
        }
        let by_number = Oft {
            oft_block_size: 0,
            r: 10,
            ..Oft::default()
        };
        assert_eq!((by_number.block_size(40), by_number.shape(40)), (4, [10, 6]));
        let shared = Oft {
            block_share: true,
            ..Oft::default()
        };
        assert_eq!((shared.shape(576), Oft::default().shape(576)), ([1, 496], [18, 496]));
    }
}
