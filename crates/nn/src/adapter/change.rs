//! What an adapter on disk makes of a weight, some rows at a time.

use std::collections::HashMap;
use std::ops::Range;

use kernels::low_rank::move_by;
use options::AdapterOptions;
use peft::AdapterTensor;

/// What an adapter makes of a weight.
pub trait Change {
    /// Changes these rows of a weight, or of a bias, which has one column.
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>);

    /// True if the bias is changed with the weight.
    fn changes_bias(&self) -> bool {
        false
    }
}

/// The adapter of one module as a file has it.
#[derive(Debug, Clone, Copy)]
pub struct Saved<'a> {
    /// The adapters.
    pub options: &'a AdapterOptions,
    /// The module's name in full.
    pub module: &'a str,
    /// Columns of its weight.
    pub columns: usize,
    /// The tensors, by what follows the module's name.
    pub parts: &'a HashMap<&'static str, AdapterTensor>,
    /// VeRA's A and B.
    pub shared: Option<&'a [AdapterTensor; 2]>,
}

impl<'a> Saved<'a> {
    /// The elements of a tensor; none if it is not there.
    pub(super) fn values(&self, part: &str) -> &'a [f32] {
        self.parts.get(part).map_or(&[][..], |tensor| tensor.values.as_slice())
    }

    /// The shape of a tensor.
    pub(super) fn shape(&self, part: &str) -> &'a [usize] {
        self.parts.get(part).map_or(&[][..], |tensor| tensor.shape.as_slice())
    }
}

/// Adds `scale · B A` to rows of a weight.
pub(super) fn add_product(
    values: &mut [f32],
    columns: usize,
    rows: Range<usize>,
    scale: f32,
    (b, a): (&[f32], &[f32]),
) {
    let rank = a.len() / columns;
    move_by(
        values,
        columns,
        1.0,
        -scale,
        (&b[rows.start * rank..rows.end * rank], a),
    );
}
