//! Transposes of float32, in squares that registers hold.

use crate::InstructionSet;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// Writes `out[place * stride + column] = columns[column][place]`.
///
/// # Panics
/// Where the columns differ in length, there are more than `stride`, or `out` is too small; unless the first one is
/// empty.
#[inline(always)]
pub(super) fn transpose(level: InstructionSet, columns: &[&[f32]], out: &mut [f32], stride: usize) {
    let places = columns.first().map_or(0, |column| column.len());
    if places == 0 {
        return;
    }
    assert!(columns.iter().all(|column| column.len() == places));
    assert!(columns.len() <= stride && (places - 1) * stride + columns.len() <= out.len());
    let edge = edge(level);
    let whole = |len: usize| len - len % edge;
    #[cfg(target_arch = "x86_64")]
    for column in (0..whole(columns.len())).step_by(edge) {
        for place in (0..whole(places)).step_by(edge) {
            let from = |at: usize| columns[column + at][place..].as_ptr();
            let out = out[place * stride + column..].as_mut_ptr();
            // SAFETY: the CPU has the level; a square of its edge lies within the columns and the places.
            unsafe {
                match level {
                    InstructionSet::Avx2 => avx2::transpose(std::array::from_fn(from), out, stride),
                    _ => avx512::transpose(std::array::from_fn(from), out, stride),
                }
            }
        }
    }
    for place in 0..places {
        let done = if place < whole(places) { whole(columns.len()) } else { 0 };
        let out = &mut out[place * stride..][..columns.len()];
        for (out, column) in out[done..].iter_mut().zip(&columns[done..]) {
            *out = column[place];
        }
    }
}

/// Rows and columns of a square: more than there are without vectors.
fn edge(level: InstructionSet) -> usize {
    match level {
        _ if !cfg!(target_arch = "x86_64") => usize::MAX,
        InstructionSet::Portable => usize::MAX,
        InstructionSet::Avx2 => 8,
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::transpose;
    use crate::{instruction_set::forced::at_each_level, testing::values};

    #[test]
    fn whole_squares_and_what_is_left_are_in_their_places() {
        at_each_level(|level| {
            for (columns, places, stride) in [
                (16, 16, 16),
                (16, 48, 32),
                (9, 7, 11),
                (17, 33, 40),
                (32, 0, 32),
                (31, 23, 31),
            ] {
                let stored = values(columns * places.max(1), 1);
                let stored: Vec<&[f32]> = (0..columns).map(|at| &stored[at * places..][..places]).collect();
                let mut out = vec![f32::NAN; stride * places];
                transpose(level, &stored, &mut out, stride);
                for (at, got) in out.iter().enumerate() {
                    let want = stored.get(at % stride).map(|column| column[at / stride]);
                    assert_eq!(
                        want,
                        Some(*got).filter(|got| !got.is_nan()),
                        "{columns} x {places} at {at}"
                    );
                }
            }
        });
    }
}
