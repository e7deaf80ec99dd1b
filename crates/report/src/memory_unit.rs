//! The unit for a report's memory.

use base::text::format::ByteUnit;

use super::group::Group;

/// The unit for a whole report, so that its numbers can be compared at a glance. It is the largest unit in which every
/// peak is at least 1, or KiB for small peaks.
pub(crate) fn memory_unit(groups: &[Group]) -> ByteUnit {
    let predicted = |group: &Group| {
        let stat = group.predicted.get("allocated_peak_bytes").copied().flatten();
        stat.map(|stat| stat.mean)
    };
    let peaks = groups
        .iter()
        .filter_map(|group| group.mean("allocated_peak_bytes").or_else(|| predicted(group)));
    let (smallest, largest) = peaks.fold((f64::INFINITY, 0.0_f64), |(low, high), peak| {
        (low.min(peak), high.max(peak))
    });
    if largest < 16.0 * ByteUnit::MiB.bytes() && largest > 0.0 {
        ByteUnit::KiB
    } else if smallest.is_finite() && smallest >= ByteUnit::GiB.bytes() {
        ByteUnit::GiB
    } else {
        ByteUnit::MiB
    }
}
