//! The lengths of samples in compact storage.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Tokens of each sample, four bytes a sample.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleLengths {
    /// The low 32 bits of each sample's end, if samples lie one after the other.
    ends: Vec<u32>,
    /// The samples whose end is the first to exceed another multiple of 2^32.
    carries: Vec<u32>,
}

impl SampleLengths {
    pub(super) fn push(&mut self, tokens: u32) {
        let (end, carries) = self.ends.last().unwrap_or(&0).overflowing_add(tokens);
        if carries {
            // Data sets with more samples than 2^32 are refused.
            self.carries.push(self.ends.len() as u32);
        }
        self.ends.push(end);
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without samples.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tokens of the sample with this index.
    pub fn tokens(&self, sample: u32) -> usize {
        let start = sample.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        self.ends[sample as usize].wrapping_sub(start) as usize
    }

    /// The tokens of the sample with this index, if samples lie one after the other.
    pub(super) fn range(&self, sample: u32) -> Range<u64> {
        let carries = self.carries.partition_point(|&carry| carry <= sample) as u64;
        let end = carries << 32 | u64::from(self.ends[sample as usize]);
        end - self.tokens(sample) as u64..end
    }

    /// Frees the spare capacity.
    pub(super) fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.carries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_one_after_the_other_beyond_four_billion_tokens() {
        let tokens = [3, u32::MAX, 0, 5, u32::MAX, u32::MAX, 1];
        let mut lengths = SampleLengths::default();
        tokens.iter().for_each(|&tokens| lengths.push(tokens));
        let mut start = 0;
        for (sample, tokens) in (0..).zip(tokens) {
            assert_eq!(lengths.tokens(sample), tokens as usize);
            assert_eq!(lengths.range(sample), start..start + u64::from(tokens));
            start += u64::from(tokens);
        }
        assert_eq!(lengths.len(), tokens.len());
    }
}
