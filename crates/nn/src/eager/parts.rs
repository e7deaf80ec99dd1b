//! The scores of the sequences, one after the other.

use std::ops::Range;

use kernels::{
    attention::{Pattern, Shape},
    softmax::ScoreMatrix,
};

/// Elements of the scores of all sequences.
pub(super) fn size(shape: Shape) -> usize {
    let lengths = shape.sequences.iter().map(|tokens| tokens.len());
    lengths.map(|len| shape.heads * len * len).sum()
}

/// The tokens of each sequence, and the part of the scores that is its own.
pub(super) fn parts(shape: Shape<'_>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut start = 0;
    shape.sequences.iter().map(move |tokens| {
        let part = start..start + shape.heads * tokens.len() * tokens.len();
        start = part.end;
        (tokens, part)
    })
}

/// The part of the scores that is each sequence's own, as a matrix.
pub(super) fn matrices<'a>(
    shape: Shape<'a>,
    pattern: Pattern<'a>,
) -> impl Iterator<Item = (Range<usize>, ScoreMatrix<'a>)> {
    parts(shape).enumerate().map(move |(sequence, (tokens, part))| {
        let len = tokens.len();
        let matrix = ScoreMatrix { sequence, len, pattern };
        (part, matrix)
    })
}
