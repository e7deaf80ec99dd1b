//! Rows of tables by their token: their sum, and sums of gradients.

use super::{Element, rows::for_rows};

/// For each token, the sum of its row of `table`, the row of `positions` of its place in a sample of `len` tokens, and
/// `shared`, which is empty or one row of `cols` elements; rounded once.
pub fn sum_tables<E: Element, O: Element>(
    (table, positions, shared): (&[E], &[E], &[E]),
    ids: &[u32],
    len: usize,
    cols: usize,
    out: &mut [O],
) {
    assert!(out.len() == ids.len() * cols && positions.len() >= len * cols);
    assert!(shared.is_empty() || shared.len() == cols);
    assert!(ids.iter().all(|&id| (id as usize) < table.len() / cols));
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            for (row, out) in (start / cols..).zip(part.chunks_exact_mut(cols)) {
                let table = &table[ids[row] as usize * cols..][..cols];
                let positions = &positions[row % len * cols..][..cols];
                if shared.is_empty() {
                    for ((out, a), b) in out.iter_mut().zip(table).zip(positions) {
                        *out = O::narrow(a.widen() + b.widen());
                    }
                } else {
                    for (((out, a), b), c) in out.iter_mut().zip(table).zip(positions).zip(shared) {
                        *out = O::narrow(a.widen() + c.widen() + b.widen());
                    }
                }
            }
        },
    );
}

/// The rows of `table` (of `cols` elements) with these ids, multiplied by `factor` and rounded once.
pub fn rows<E: Element, O: Element>(table: &[E], cols: usize, factor: f32, ids: &[u32], out: &mut [O]) {
    assert!(out.len() == ids.len() * cols);
    assert!(ids.iter().all(|&id| (id as usize) < table.len() / cols));
    for_rows(
        out,
        cols,
        #[inline(always)]
        |start, part| {
            for (&id, out) in ids[start / cols..].iter().zip(part.chunks_exact_mut(cols)) {
                for (out, value) in out.iter_mut().zip(&table[id as usize * cols..][..cols]) {
                    *out = O::narrow(value.widen() * factor);
                }
            }
        },
    );
}

/// Adds each of `rows` (of `cols` elements) to the table's row of its id: in float32 and in order, rounded once for
/// each row of the table. `order` has an element for each id, and whatever values.
pub fn add_rows<E: Element, R: Element>(table: &mut [E], cols: usize, ids: &[u32], rows: &[R], order: &mut [usize]) {
    assert!(rows.len() == ids.len() * cols && table.len().is_multiple_of(cols));
    assert!(ids.iter().all(|&id| (id as usize) < table.len() / cols));
    for (at, place) in order.iter_mut().enumerate() {
        *place = at;
    }
    order.sort_by_key(|&at| ids[at]);
    let order = &*order;
    let below = |id: usize| order.partition_point(|&at| (ids[at] as usize) < id);
    for_rows(
        table,
        cols,
        #[inline(always)]
        |start, part| {
            let first = start / cols;
            let here = &order[below(first)..below(first + part.len() / cols)];
            if here.is_empty() {
                return;
            }
            let mut sum = vec![0f32; cols];
            for same in here.chunk_by(|&a, &b| ids[a] == ids[b]) {
                sum.fill(0.0);
                for &at in same {
                    for (sum, value) in sum.iter_mut().zip(&rows[at * cols..][..cols]) {
                        *sum += value.widen();
                    }
                }
                let row = ids[same[0]] as usize - first;
                for (value, sum) in part[row * cols..][..cols].iter_mut().zip(&sum) {
                    *value = E::narrow(value.widen() + sum);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{narrowed, values},
    };

    #[test]
    fn rows_of_one_id_are_summed_before_they_are_rounded() {
        at_each_level(|level| {
            for (vocabulary, cols, tokens) in [(1, 1, 3), (7, 15, 0), (50, 33, 100), (3, 20_001, 5), (2000, 63, 300)] {
                let before = narrowed::<bf16>(&values(vocabulary * cols, 1));
                let rows = values(tokens * cols, 2);
                let ids: Vec<u32> = (0..tokens)
                    .map(|token| (token * token * 31 % vocabulary) as u32)
                    .collect();
                let mut sums = vec![0f32; vocabulary * cols];
                for (row, &id) in rows.chunks(cols).zip(&ids) {
                    let sums = &mut sums[id as usize * cols..][..cols];
                    sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                }
                let want: Vec<bf16> = before
                    .iter()
                    .zip(&sums)
                    .map(|(before, sum)| bf16::from_f32(before.to_f32() + sum))
                    .collect();
                let mut table = before;
                add_rows(&mut table, cols, &ids, &rows, &mut vec![usize::MAX; tokens]);
                assert_eq!(table, want, "{level:?}: {tokens} of {vocabulary} x {cols}");
            }
        });
    }

    #[test]
    #[should_panic(expected = "table.len() / cols")]
    fn an_id_past_the_table_is_refused() {
        add_rows(&mut [0f32; 6], 3, &[2], &[1f32; 3], &mut [0]);
    }
}
