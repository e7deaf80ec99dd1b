//! The prominent peaks of a curve.

/// The least prominence of a reported peak, as a fraction of the highest peak's height.
pub(super) const PROMINENT: f64 = 0.05;

/// A local maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peak {
    /// Its first index in the curve.
    pub at: usize,
    /// Bytes.
    pub height: u64,
    /// Topographic prominence: the least descent on the way to higher ground or to the curve's ends.
    pub prominence: u64,
}

/// The highest point of a curve, and the local maxima whose prominence is at least [`PROMINENT`] of its height, in
/// their order.
pub(super) fn prominent(curve: &[u64]) -> Vec<Peak> {
    let Some(&highest) = curve.iter().max() else {
        return Vec::new();
    };
    // A plateau counts as one point.
    let mut at: Vec<usize> = (0..curve.len()).collect();
    at.dedup_by_key(|at| curve[*at]);
    let heights: Vec<u64> = at.iter().map(|&at| curve[at]).collect();
    // The first of several equal peaks counts as the highest, so that a small dip makes no second prominent peak.
    let left = lowest_since(heights.iter().copied(), |other, height| other >= height);
    let mut right = lowest_since(heights.iter().rev().copied(), |other, height| other > height);
    right.reverse();
    let first_highest = heights.iter().position(|&height| height == highest);
    let peak = |index: usize| Peak {
        at: at[index],
        height: heights[index],
        prominence: heights[index] - left[index].max(right[index]),
    };
    let is_maximum = |index: &usize| {
        let lower = |other: Option<&u64>| other.is_some_and(|&other| other < heights[*index]);
        lower(index.checked_sub(1).and_then(|before| heights.get(before))) && lower(heights.get(index + 1))
    };
    let least = (highest as f64 * PROMINENT).max(1.0);
    (0..heights.len())
        .filter(|index| Some(*index) == first_highest || is_maximum(index) && peak(*index).prominence as f64 >= least)
        .map(peak)
        .collect()
}

/// For each point, the lowest point since the last higher one (by `is_higher`) or the beginning, itself included.
fn lowest_since(heights: impl Iterator<Item = u64>, is_higher: impl Fn(u64, u64) -> bool) -> Vec<u64> {
    // Falling heights, each with the lowest point since the height before it in the stack.
    let mut stack: Vec<(u64, u64)> = Vec::new();
    heights
        .map(|height| {
            let mut lowest = height;
            while let Some((_, low)) = stack.pop_if(|(other, _)| !is_higher(*other, height)) {
                lowest = lowest.min(low);
            }
            stack.push((height, lowest));
            lowest
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(curve: &[u64]) -> Vec<(usize, u64, u64)> {
        prominent(curve)
            .iter()
            .map(|peak| (peak.at, peak.height, peak.prominence))
            .collect()
    }

    #[test]
    fn prominence_is_the_way_down_to_higher_ground() {
        // as scipy.signal.peak_prominences has it
        assert_eq!(
            heights(&[0, 50, 20, 100, 30, 80, 70, 75, 10]),
            [(1, 50, 30), (3, 100, 90), (5, 80, 50), (7, 75, 5),]
        );
    }

    #[test]
    fn what_hardly_stands_out_is_left_out() {
        assert_eq!(heights(&[0, 100, 96, 99, 0]), [(1, 100, 100)]);
        assert_eq!(heights(&[0, 100, 95, 100, 0]), [(1, 100, 100), (3, 100, 5)]);
    }

    #[test]
    fn a_plateau_is_one_peak_and_an_end_is_one_only_where_it_is_highest() {
        assert_eq!(heights(&[10, 60, 60, 60, 10, 40, 10, 30]), [(1, 60, 50), (5, 40, 30)]);
        assert_eq!(heights(&[90, 10, 50, 0]), [(0, 90, 0), (2, 50, 40)]);
        assert_eq!(heights(&[7]), [(0, 7, 0)]);
        assert_eq!(heights(&[]), []);
    }
}
