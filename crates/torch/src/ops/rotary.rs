//! Rotary position embedding.

use crate::dtype::Dtype;
use crate::tape::Tape;
use crate::tape::Tensor;

/// A layer's own rotary embedding, as older releases of transformers have it.
pub(crate) struct Rotary<'t> {
    pub width: u32,
    /// Cosines and sines of all positions.
    pub tables: Option<[Tensor<'t>; 2]>,
    /// The layer looks its angles up in the tables instead of computing them.
    pub takes_out: bool,
}

impl<'t> Rotary<'t> {
    /// Cosines and sines for `states` (batch, heads, length, width), in their format.
    pub(crate) fn angles(&self, tape: &'t Tape, states: &Tensor<'t>) -> [Tensor<'t>; 2] {
        let (length, dtype) = (states.dim_from_last(1), states.dtype());
        match &self.tables {
            Some(tables) if self.takes_out => tables.each_ref().map(|table| {
                let rows = table.clone().with_layout(table.view.layout.narrow(0, length)).to(dtype);
                tape.empty(&[1, length, self.width], rows.dtype())
            }),
            // All releases that have these multiply so.
            _ => angles(tape, [1, length], self.width, dtype, true),
        }
    }
}

/// Cosines and sines for positions (rows, length), of which there is one row for all samples or one for each, and this
/// head width, in the format of the hidden states. Positions and frequencies are multiplied by cuBLAS, as a column and
/// a row, if `by_cublas`.
pub(crate) fn angles(
    tape: &Tape,
    [rows, length]: [u32; 2],
    width: u32,
    dtype: Dtype,
    by_cublas: bool,
) -> [Tensor<'_>; 2] {
    let float = tape.empty(&[rows, length, 1], Dtype::Float32);
    let frequencies = tape.empty(&[rows, length, width / 2], Dtype::Float32);
    // Releases that multiply by cuBLAS hold on to the positions until the angles are there.
    let float = Some(float).filter(|_| by_cublas);
    if by_cublas {
        tape.use_cublas();
    }
    let both = tape.empty(&[rows, length, width], Dtype::Float32);
    let [cos, sin] = [0, 1].map(|_| {
        let wave = both.like(Dtype::Float32);
        wave.like(Dtype::Float32)
    });
    let result = [cos.to(dtype), sin.to(dtype)];
    drop((float, frequencies, both, cos, sin));
    // All heads of a sample turn alike.
    match rows {
        1 => result,
        _ => result.map(|angles| angles.reshape(&[rows, 1, length, width])),
    }
}

impl<'t> Tensor<'t> {
    fn rotate_half(&self) -> Tensor<'t> {
        let half = self.dim_from_last(0) / 2;
        let first = self.slice_last(half);
        let second = self.slice_last(self.dim_from_last(0) - half);
        second.neg().cat(&first, self.view.layout.rank() - 1)
    }

    /// (batch, heads, length, width) turned by its positions: `(x * cos) + (rotate_half(x) * sin)`.
    fn rotate(&self, cos: &Self, sin: &Self) -> Tensor<'t> {
        let straight = self.mul(cos);
        let crossed = self.rotate_half().mul(sin);
        straight.add(&crossed)
    }
}

/// Queries and keys turned by their positions. If a share of a head may be turned, that is put before the rest, even
/// where there is none.
pub(crate) fn rotate<'t>(
    states: [&Tensor<'t>; 2],
    cos: &Tensor<'t>,
    sin: &Tensor<'t>,
    by_share: bool,
) -> [Tensor<'t>; 2] {
    let (width, turned) = (states[0].dim_from_last(0), cos.dim_from_last(0));
    if !by_share {
        return states.map(|states| states.rotate(cos, sin));
    }
    let parts = states.map(|states| {
        // A slice of all is no operation.
        let first = if turned == width {
            states.clone()
        } else {
            states.slice_last(turned)
        };
        (first, states.slice_last(width - turned))
    });
    parts
        .each_ref()
        .map(|(first, rest)| first.rotate(cos, sin).cat(rest, rest.dims().len() - 1))
}
