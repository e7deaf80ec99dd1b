//! The predicted tokens of samples in compact storage.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The number of predicted tokens of a sample of so many: those in `ranges`, or all. Nothing predicts the first.
pub(super) fn predicted(tokens: usize, ranges: Option<impl Iterator<Item = Range<u32>>>) -> usize {
    let counted = |range: Range<u32>| range.end.saturating_sub(range.start.max(1)) as usize;
    match ranges {
        None => tokens.saturating_sub(1),
        Some(ranges) => ranges.map(counted).sum(),
    }
}

/// All tokens of a sample are predicted.
const WHOLE: u32 = 0;

/// A sample has ranges of its own.
const RANGES: u32 = u32::MAX;

/// The predicted tokens of each sample. Four bytes a sample say from which token on all are predicted. Samples with
/// several ranges, or with one that ends early, take eight bytes more for each range, and eight for their number.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleTargets {
    /// The first predicted token of each sample, [`WHOLE`] or [`RANGES`], up to the last sample that is not whole.
    starts: Vec<u32>,
    /// The samples with ranges, ascending, and the end of each one's ranges.
    ends: Vec<(u32, u32)>,
    ranges: Vec<Range<u32>>,
}

impl SampleTargets {
    /// Adds the ranges of the sample with this index and so many tokens. The index is beyond those before. `None`
    /// stands for all tokens.
    pub(super) fn push(&mut self, sample: usize, tokens: usize, ranges: Option<&[Range<u32>]>) {
        let Some(ranges) = ranges else { return };
        self.starts.resize(sample, WHOLE);
        self.starts.push(match ranges {
            [range] if range.end as usize == tokens && range.start > 0 => range.start,
            _ => {
                self.ranges.extend_from_slice(ranges);
                self.ends.push((sample as u32, self.ranges.len() as u32));
                RANGES
            }
        });
    }

    /// The ranges of predicted tokens of a sample of so many tokens, ascending; `None` if all its tokens are predicted.
    pub fn of(&self, sample: u32, tokens: usize) -> Option<impl Iterator<Item = Range<u32>> + '_> {
        let (one, several) = match *self.starts.get(sample as usize)? {
            WHOLE => return None,
            RANGES => (None, self.ranges_of(sample)),
            start => (Some(start..tokens as u32), &[][..]),
        };
        Some(one.into_iter().chain(several.iter().cloned()))
    }

    fn ranges_of(&self, sample: u32) -> &[Range<u32>] {
        let place = self.ends.partition_point(|&(other, _)| other < sample);
        let end = |place: usize| self.ends[place].1 as usize;
        let start = place.checked_sub(1).map_or(0, end);
        &self.ranges[start..end(place)]
    }

    /// True if all tokens of all samples are predicted.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Frees the spare capacity.
    pub(super) fn shrink(&mut self) {
        self.starts.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.ranges.shrink_to_fit();
    }

    /// Bytes that the ranges take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.ends[..]) + size_of_val(&self.ranges[..])
    }
}

#[expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back_and_samples_without_are_whole() {
        let mut targets = SampleTargets::default();
        assert!(targets.is_empty() && targets.of(7, 9).is_none());
        targets.push(1, 5, Some(&[2..5]));
        targets.push(2, 9, Some(&[1..2, 4..9]));
        targets.push(4, 9, Some(&[3..4]));
        targets.push(5, 9, Some(&[0..9]));
        let of = |(sample, tokens)| targets.of(sample, tokens).map(Iterator::collect::<Vec<_>>);
        let found: Vec<_> = (0..).zip([7, 5, 9, 7, 9, 9, 7]).map(of).collect();
        let expected = [
            None,
            Some(vec![2..5]),
            Some(vec![1..2, 4..9]),
            None,
            Some(vec![3..4]),
            Some(vec![0..9]),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_completion_takes_four_bytes() {
        let mut targets = SampleTargets::default();
        (0..1000).for_each(|sample| targets.push(sample, 9, Some(&[4..9])));
        assert_eq!(targets.bytes(), 4000);
    }
}
