//! The predicted tokens of samples in compact storage.

use std::ops::Range;

/// Ranges of predicted tokens: eight bytes each, and four bytes a sample. Samples whose tokens are all predicted need nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SampleTargets {
    ranges: Vec<Range<u32>>,
    /// The end of each sample's ranges, up to the last sample that has some.
    ends: Vec<u32>,
}

impl SampleTargets {
    /// Adds the ranges of the sample with this index, which is beyond those before; `None` if all its tokens are predicted.
    pub(super) fn push(&mut self, sample: usize, ranges: Option<&[Range<u32>]>) {
        let Some(ranges) = ranges else { return };
        // No range stands for all tokens: a sample without predicted tokens is left out.
        self.ends.resize(sample, self.ranges.len() as u32);
        self.ranges.extend_from_slice(ranges);
        self.ends.push(self.ranges.len() as u32);
    }

    /// The ranges of a sample's predicted tokens, ascending; `None` if all its tokens are predicted.
    pub fn of(&self, sample: u32) -> Option<&[Range<u32>]> {
        let end = *self.ends.get(sample as usize)? as usize;
        let start = sample
            .checked_sub(1)
            .map_or(0, |before| self.ends[before as usize] as usize);
        (start < end).then(|| &self.ranges[start..end])
    }

    /// True if all tokens of all samples are predicted.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Frees the spare capacity.
    pub(super) fn shrink(&mut self) {
        self.ranges.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back_and_samples_without_are_whole() {
        let mut targets = SampleTargets::default();
        assert!(targets.is_empty() && targets.of(7).is_none());
        targets.push(0, None);
        targets.push(1, Some(&[2..5]));
        targets.push(2, Some(&[1..2, 4..9]));
        targets.push(3, None);
        targets.push(4, Some(&[3..4]));
        let of: Vec<_> = (0..6).map(|sample| targets.of(sample)).collect();
        let expected: [Option<&[Range<u32>]>; 6] =
            [None, Some(&[2..5]), Some(&[1..2, 4..9]), None, Some(&[3..4]), None];
        assert_eq!(of, expected);
    }
}
