//! The cheapest and the dearest configuration.

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::Sentence;
use crate::report::group::Group;
use crate::report::markdown::escape;
use crate::text::format::{bytes, ratio};

/// The columns of memory in the order of preference, and the words for them. Allocated memory is exact, so another
/// column counts only if allocated memory is the same everywhere, as in a study of allocators.
const MEMORY: [(&str, &str); 3] = [
    ("allocated_peak_bytes", "allocated"),
    ("reserved_peak_bytes", "reserved by the allocator"),
    ("process_peak_bytes", "held by the process"),
];

/// The cheapest and the dearest configuration in the first column of memory that differs.
pub(super) fn sentences(evidence: &Evidence<'_>, figures: Figures) -> Vec<Sentence> {
    let sentence = |(column, words): (&str, &str)| {
        let at = |group: &Group| figures.mean(group, column);
        let known = || evidence.groups.iter().filter(|group| at(group).is_some());
        let order = |a: &&Group, b: &&Group| at(a).unwrap_or_default().total_cmp(&at(b).unwrap_or_default());
        let (low, high) = (known().min_by(order)?, known().max_by(order)?);
        let (least, most) = (figures.stat(low, column)?, figures.stat(high, column)?);
        (least.mean < most.mean && least.mean > 0.0).then(|| {
            let text = format!(
                "{} needs the least memory at its peak, {} {words}; {} needs the most, {} ({}).",
                escape(&low.label),
                bytes(least.into()),
                escape(&high.label),
                bytes(most.into()),
                ratio((most.mean / least.mean).into()),
            );
            Sentence::about(text, [low, high])
        })
    };
    MEMORY.into_iter().find_map(sentence).into_iter().collect()
}
