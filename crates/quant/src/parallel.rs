//! Parallel work on a flat range, cut at fixed places.

use rayon::prelude::*;

/// Elements of a part: a multiple of every block length, and enough work for a thread.
const PART: usize = 16 * 1024;

/// Calls `fill(flat index of the part's first element, part)` for the parts of `out`, whose first element has the flat
/// index `start`. Parts begin at multiples of [`PART`], so the cuts depend on the range alone.
pub(super) fn fill<T: Send>(start: usize, out: &mut [T], fill: impl Fn(usize, &mut [T]) + Sync) {
    let to_boundary = start.next_multiple_of(PART) - start;
    if out.len() <= to_boundary.max(PART) {
        return fill(start, out);
    }
    let (head, rest) = out.split_at_mut(to_boundary);
    if !head.is_empty() {
        fill(start, head);
    }
    let aligned = start + to_boundary;
    rest.par_chunks_mut(PART)
        .enumerate()
        .for_each(|(index, part)| fill(aligned + index * PART, part));
}
