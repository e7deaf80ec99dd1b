//! The rows that TRL packs samples into, from their lengths.

use std::collections::{BTreeMap, VecDeque};

/// Samples that are packed together, and no others: `datasets.Dataset.map` hands so many at a time to TRL's functions.
const MAP_BATCH: usize = 1000;

/// A packed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedRow {
    /// Indices of the samples that it has tokens of, in their order.
    pub samples: Vec<u32>,
    /// Its tokens.
    pub tokens: usize,
}

/// Rows of at most `row` tokens by best fit decreasing: the longest sample first, each into the fullest row that has
/// room for it. Longer samples are cut (`_pack_bfd` in `trl/data_utils.py` of TRL 1.16; `packing_strategy="bfd"`).
pub fn best_fit_decreasing(lengths: &[usize], row: usize) -> Vec<PackedRow> {
    in_map_batches(lengths, |lengths| best_fit(lengths, row))
}

/// All tokens one after the other, cut every `row` tokens; the last row has what is left (`_pack_wrapped` in the same
/// file; `packing_strategy="wrapped"`).
pub fn wrapped(lengths: &[usize], row: usize) -> Vec<PackedRow> {
    in_map_batches(lengths, |lengths| cut(lengths, row))
}

fn in_map_batches(lengths: &[usize], pack: impl Fn(&[usize]) -> Vec<PackedRow>) -> Vec<PackedRow> {
    let batches = lengths.chunks(MAP_BATCH).zip((0..).step_by(MAP_BATCH));
    let rows = batches.flat_map(|(lengths, first)| {
        let mut rows = pack(lengths);
        rows.iter_mut()
            .for_each(|row| row.samples.iter_mut().for_each(|sample| *sample += first as u32));
        rows
    });
    rows.collect()
}

fn best_fit(lengths: &[usize], row: usize) -> Vec<PackedRow> {
    let mut samples: Vec<(usize, usize)> = lengths.iter().map(|&length| length.min(row)).enumerate().collect();
    samples.retain(|&(_, length)| length > 0);
    samples.sort_by_key(|&(_, length)| std::cmp::Reverse(length));
    let mut rows: Vec<PackedRow> = Vec::new();
    // The rows with some room, by what they have of it; of equal ones the first that came to it is filled first.
    let mut with_room: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
    for (sample, length) in samples {
        let (room, index) = match with_room.range_mut(length..).next() {
            Some((&room, indices)) => (room, indices.pop_front()),
            None => (row, None),
        };
        if with_room.get(&room).is_some_and(VecDeque::is_empty) {
            with_room.remove(&room);
        }
        let index = index.unwrap_or_else(|| {
            rows.push(PackedRow {
                samples: Vec::new(),
                tokens: 0,
            });
            rows.len() - 1
        });
        rows[index].samples.push(sample as u32);
        rows[index].tokens += length;
        if room > length {
            with_room.entry(room - length).or_default().push_back(index);
        }
    }
    rows
}

fn cut(lengths: &[usize], row: usize) -> Vec<PackedRow> {
    let mut rows: Vec<PackedRow> = Vec::new();
    for (sample, &length) in lengths.iter().enumerate() {
        let mut left = length;
        while left > 0 {
            if rows.last().is_none_or(|last| last.tokens == row) {
                rows.push(PackedRow {
                    samples: Vec::new(),
                    tokens: 0,
                });
            }
            let Some(last) = rows.last_mut() else { break };
            let part = left.min(row - last.tokens);
            last.samples.push(sample as u32);
            last.tokens += part;
            left -= part;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[PackedRow]) -> Vec<(&[u32], usize)> {
        rows.iter().map(|row| (&row.samples[..], row.tokens)).collect()
    }

    /// The example of `pack_dataset`'s documentation.
    #[test]
    fn long_samples_are_cut_and_short_ones_fill_rows_up() {
        let packed = best_fit_decreasing(&[5, 2, 3, 1], 4);
        assert_eq!(rows(&packed), [(&[0][..], 4), (&[2, 3], 4), (&[1], 2)]);
        assert!(best_fit_decreasing(&[], 4).is_empty());
    }

    #[test]
    fn wrapped_rows_are_full_but_for_the_last() {
        assert_eq!(
            rows(&wrapped(&[5, 2, 3, 1], 4)),
            [(&[0][..], 4), (&[0, 1, 2], 4), (&[2, 3], 3)]
        );
    }

    #[test]
    fn a_thousand_samples_are_packed_at_a_time() {
        let packed = wrapped(&[3; 1001], 4);
        let short: Vec<_> = packed.iter().filter(|row| row.tokens < 4).collect();
        assert_eq!(packed.len(), 751);
        assert_eq!((&short[0].samples[..], short[0].tokens), (&[1000][..], 3));
        assert_eq!(best_fit_decreasing(&[1; 1001], 2000).len(), 2);
    }
}
