//! What an adapter makes of a weight or a bias, some rows at a time.

use std::collections::HashMap;
use std::ops::Range;

use kernels::low_rank::move_by;
use options::AdapterMethod;
use peft::{AdapterTensor, IA3, LORA_A, LORA_B, MAGNITUDE, MISS, VERA_B, VERA_D};

/// The tensors of one module's adapter, by what follows the module's name.
pub(super) type Parts = HashMap<&'static str, AdapterTensor>;

/// The tensors that each module's adapter has.
pub(super) fn parts(method: &AdapterMethod) -> &'static [&'static str] {
    match method {
        AdapterMethod::Lora(_) => &[LORA_A, LORA_B],
        AdapterMethod::Dora(_) => &[LORA_A, LORA_B, MAGNITUDE],
        AdapterMethod::Ia3(_) => &[IA3],
        AdapterMethod::Miss(_) => &[MISS],
        AdapterMethod::Vera(_) => &[VERA_B, VERA_D],
        AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning => &[],
    }
}

/// True if a tensor suits a weight `[rows, columns]`.
pub(super) fn fits(part: &str, tensor: &AdapterTensor, [rows, columns]: [usize; 2]) -> bool {
    let shape = tensor.shape.as_slice();
    match part {
        LORA_A => shape.get(1) == Some(&columns),
        LORA_B | MAGNITUDE | VERA_B => shape.first() == Some(&rows),
        IA3 => shape == [rows, 1] || shape == [1, columns],
        MISS => shape
            .get(1)
            .is_some_and(|width| *width > 0 && rows.is_multiple_of(*width)),
        _ => true,
    }
}

/// True if the adapter scales the outputs, and the bias with them.
pub(super) fn scales_outputs(parts: &Parts) -> bool {
    parts.get(IA3).is_some_and(|factors| factors.shape.get(1) == Some(&1))
}

/// The change of a weight W, or of a bias, which has one column.
pub(super) enum Change<'a> {
    /// W + scale · B A. DoRA then scales each row to its magnitude.
    LowRank {
        a: &'a [f32],
        b: &'a [f32],
        scale: f32,
        magnitudes: Option<&'a [f32]>,
    },
    /// W + B A, with a factor for each row of B.
    Shared {
        a: Vec<f32>,
        b: &'a [f32],
        of_rows: &'a [f32],
    },
    /// A factor for each row.
    Outputs(&'a [f32]),
    /// A factor for each column.
    Inputs(&'a [f32]),
    /// A block `[rank, width]` is added to each shard of the columns, transposed. Fewer rows than W has are repeated.
    Shards { block: &'a [f32], rank: usize },
}

impl<'a> Change<'a> {
    /// The change of a weight with so many columns. `scale` is LoRA's, and `shared` VeRA's A and B.
    pub(super) fn new(parts: &'a Parts, columns: usize, scale: f32, shared: Option<&'a [AdapterTensor; 2]>) -> Self {
        let values = |part: &str| parts.get(part).map_or(&[][..], |tensor| tensor.values.as_slice());
        if let Some(block) = parts.get(MISS) {
            let rank = block.shape[0];
            return Self::Shards {
                block: &block.values,
                rank,
            };
        }
        if parts.contains_key(IA3) {
            return match scales_outputs(parts) {
                true => Self::Outputs(values(IA3)),
                false => Self::Inputs(values(IA3)),
            };
        }
        if let Some([a, b]) = shared {
            let rows = a.values.chunks(a.shape[1]).zip(values(VERA_D));
            let scaled = rows.flat_map(|(row, factor)| row[..columns].iter().map(move |value| factor * value));
            return Self::Shared {
                a: scaled.collect(),
                b: &b.values,
                of_rows: values(VERA_B),
            };
        }
        Self::LowRank {
            a: values(LORA_A),
            b: values(LORA_B),
            scale,
            magnitudes: parts.get(MAGNITUDE).map(|tensor| tensor.values.as_slice()),
        }
    }

    /// Changes these rows of the weight.
    pub(super) fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        match self {
            Self::LowRank {
                a,
                b,
                scale,
                magnitudes,
            } => {
                let rank = a.len() / columns;
                let b = &b[rows.start * rank..rows.end * rank];
                move_by(values, columns, 1.0, -scale, (b, a));
                let Some(magnitudes) = magnitudes else { return };
                for (row, magnitude) in values.chunks_mut(columns).zip(&magnitudes[rows]) {
                    let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
                    let factor = (f64::from(*magnitude) / norm) as f32;
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Self::Shared { a, b, of_rows } => {
                let rank = a.len() / columns;
                let of_b = b[rows.start * rank..rows.end * rank].chunks(rank);
                let of_b = of_b.zip(&of_rows[rows]);
                let b: Vec<f32> = of_b
                    .flat_map(|(row, factor)| row.iter().map(move |value| factor * value))
                    .collect();
                move_by(values, columns, 1.0, -1.0, (&b, a));
            }
            Self::Outputs(factors) => {
                for (row, factor) in values.chunks_mut(columns).zip(&factors[rows]) {
                    row.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Self::Inputs(factors) => {
                for row in values.chunks_mut(columns) {
                    row.iter_mut()
                        .zip(*factors)
                        .for_each(|(value, factor)| *value *= factor);
                }
            }
            Self::Shards { block, rank } => {
                let width = block.len() / rank;
                for (at, row) in rows.zip(values.chunks_mut(columns)) {
                    let column = block.iter().skip(at % width).step_by(width).cycle();
                    row.iter_mut().zip(column).for_each(|(value, added)| *value += added);
                }
            }
        }
    }
}
