//! Samples of like lengths in a step.

use std::cmp::Reverse;

use options::LengthGroups;

/// Effective batches in a group of [`LengthGroups::MegaBatches`], if there are enough for four groups.
const MEGA_BATCH: usize = 50;

/// Sorts each group of a shuffled order from long to short. Samples of one length stay in their order.
///
/// Mega-batches are those of `trainer_pt_utils.get_length_grouped_indices` in transformers.
pub fn group_by_length(order: &mut [u32], tokens: impl Fn(u32) -> usize, effective: usize, groups: LengthGroups) {
    let batches = match groups {
        LengthGroups::MegaBatches => (order.len() / (4 * effective)).clamp(1, MEGA_BATCH),
        LengthGroups::Buckets(batches) => batches,
    };
    let group = batches.saturating_mul(effective);
    for group in order.chunks_mut(group) {
        group.sort_by_key(|&sample| Reverse(tokens(sample)));
    }
    if groups == LengthGroups::MegaBatches && !order.is_empty() {
        // The first of equal ones.
        let starts = (0..order.len()).step_by(group);
        let longest = starts.max_by_key(|&start| (tokens(order[start]), Reverse(start)));
        order.swap(0, longest.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(tokens: &[usize], effective: usize, groups: LengthGroups) -> Vec<u32> {
        let mut order: Vec<u32> = (0..tokens.len() as u32).collect();
        group_by_length(&mut order, |sample| tokens[sample as usize], effective, groups);
        order
    }

    /// `get_length_grouped_indices([5, 9, 1, 7, 3, 8, 9, 2, 6], 2)` with the identity in place of `torch.randperm`: by
    /// hand.
    #[test]
    fn mega_batches_are_those_of_transformers() {
        // 9 // (4 × 2) = 1 batch a group.
        let tokens = [5, 9, 1, 7, 3, 8, 10, 2, 6];
        assert_eq!(
            grouped(&tokens, 2, LengthGroups::MegaBatches),
            [6, 0, 3, 2, 5, 4, 1, 7, 8]
        );
        // Too few for four groups.
        assert_eq!(grouped(&[1, 2, 3], 4, LengthGroups::MegaBatches), [2, 1, 0]);
        assert_eq!(grouped(&[], 4, LengthGroups::MegaBatches), [0u32; 0]);
    }

    #[test]
    fn buckets_are_sorted_from_long_to_short() {
        let tokens = [5, 9, 1, 7, 7, 8];
        assert_eq!(grouped(&tokens, 2, LengthGroups::Buckets(2)), [1, 3, 0, 2, 5, 4]);
        assert_eq!(
            grouped(&tokens, 2, LengthGroups::Buckets(usize::MAX)),
            [1, 5, 3, 4, 0, 2]
        );
    }
}
