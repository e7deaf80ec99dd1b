//! Sizes: of a block for what is asked, and of the segment that is asked of CUDA for a block.

use std::ops::RangeInclusive;

const MIB: u64 = 1 << 20;

/// Every block is a multiple of this (`kMinBlockSize`).
pub const SMALLEST_BLOCK: u64 = 512;
/// The largest block of the small pool (`kSmallSize`).
pub const LARGEST_SMALL: u64 = MIB;
/// A segment of the small pool (`kSmallBuffer`).
pub const SMALL_SEGMENT: u64 = 2 * MIB;
/// From here on a block has a segment for itself (`kMinLargeAlloc`).
pub const SMALLEST_OWN_SEGMENT: u64 = 10 * MIB;
/// Segments of their own are a multiple of this (`kRoundLarge`).
const SEGMENT_STEP: u64 = 2 * MIB;
/// A segment of the large pool for blocks that have none for themselves (`kLargeBuffer`).
pub const DEFAULT_LARGE_SEGMENT: u64 = 20 * MIB;
/// The largest request; larger ones fail at once.
pub(super) const LARGEST_REQUEST: u64 = (1 << 60) - 1;

/// Into how many steps each power of two is divided (`roundup_power2_divisions`), by powers from 1 MiB to 32 GiB;
/// smaller sizes go by the first, larger ones by the last. 0 and 1 stand for no such rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Divisions(pub [u64; Divisions::INTERVALS]);

impl Divisions {
    /// Powers of two with divisions of their own.
    pub const INTERVALS: usize = 16;

    /// The interval that begins at `mib` MiB, a power of two.
    pub(super) fn interval(mib: u64) -> usize {
        (mib.ilog2() as usize).min(Self::INTERVALS - 1)
    }

    fn of(&self, bytes: u64) -> u64 {
        self.0[Self::interval((bytes / MIB).max(1))]
    }
}

/// The size of the block that holds `bytes`, up to [`LARGEST_REQUEST`].
pub fn block_size(bytes: u64, divisions: &Divisions) -> u64 {
    if bytes < SMALLEST_BLOCK {
        return SMALLEST_BLOCK;
    }
    match divisions.of(bytes) {
        divisions if divisions > 1 && bytes > SMALLEST_BLOCK * divisions => round_within_power(bytes, divisions),
        _ => bytes.next_multiple_of(SMALLEST_BLOCK),
    }
}

/// `bytes` rounded up to the next of the `divisions` equal steps between its power of two and the next.
fn round_within_power(bytes: u64, divisions: u64) -> u64 {
    let power = 1 << bytes.ilog2();
    match power >> divisions.ilog2() {
        0 if bytes == power => bytes,
        0 => power * 2,
        step => bytes.next_multiple_of(step),
    }
}

/// Bytes that are asked of CUDA for a block of `size` bytes by default.
pub fn segment_size(size: u64) -> u64 {
    segment_size_of(size, DEFAULT_LARGE_SEGMENT)
}

/// Bytes that are asked of CUDA for a block of `size` bytes if segments do not grow; `large_segment_size` is the
/// setting.
pub(super) fn segment_size_of(size: u64, large_segment_size: u64) -> u64 {
    if size <= LARGEST_SMALL {
        SMALL_SEGMENT
    } else if size < SMALLEST_OWN_SEGMENT {
        large_segment_size
    } else {
        size.next_multiple_of(SEGMENT_STEP)
    }
}

/// Requests for which a segment with one of these sizes is asked of CUDA by default, the smallest first.
pub fn requests(segments: &RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
    let largest_shared = SMALLEST_OWN_SEGMENT - SMALLEST_BLOCK;
    let first = segments
        .start()
        .next_multiple_of(SEGMENT_STEP)
        .max(SMALLEST_OWN_SEGMENT);
    let last = segments.end() / SEGMENT_STEP * SEGMENT_STEP;
    let of_own = (first - SEGMENT_STEP).max(largest_shared) + 1..=last;
    let all = [
        (segments.contains(&SMALL_SEGMENT), 1..=LARGEST_SMALL),
        (
            segments.contains(&DEFAULT_LARGE_SEGMENT),
            LARGEST_SMALL + 1..=largest_shared,
        ),
        (first <= last, of_own),
    ];
    all.into_iter()
        .filter(|(is_asked, _)| *is_asked)
        .map(|(_, requests)| requests)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_multiples_of_512() {
        let plain = Divisions::default();
        let sizes = [
            (0, 512),
            (1, 512),
            (511, 512),
            (512, 512),
            (513, 1024),
            (MIB + 1, MIB + 512),
        ];
        for (bytes, block) in sizes {
            assert_eq!(block_size(bytes, &plain), block, "{bytes}");
        }
    }

    #[test]
    fn a_power_of_two_is_divided() {
        assert_eq!(round_within_power(1200, 4), 1280);
        assert_eq!(round_within_power(1024, 4), 1024);
        assert_eq!(round_within_power(1793, 4), 2048);
        assert_eq!(round_within_power(3, 4), 4);
        assert_eq!(round_within_power(2, 4), 2);
    }

    #[test]
    fn divisions_count_above_512_bytes_each() {
        let four = Divisions([4; 16]);
        assert_eq!(
            block_size(1200, &four),
            1536,
            "up to 4 x 512 bytes it is multiples of 512"
        );
        assert_eq!(block_size(2048, &four), 2048);
        assert_eq!(block_size(2049, &four), 2560);
        assert_eq!(block_size(5 * MIB + 1, &four), 6 * MIB);
        assert_eq!(block_size(1200, &Divisions([1; 16])), 1536);
    }

    #[test]
    fn each_power_has_its_divisions() {
        let mut divisions = Divisions([8; 16]);
        divisions.0[1] = 2;
        divisions.0[15] = 0;
        assert_eq!(block_size(3 * MIB + 1, &divisions), 4 * MIB, "2 MiB to 4 MiB");
        assert_eq!(block_size(5 * MIB + 1, &divisions), 5 * MIB + MIB / 2);
        assert_eq!(
            block_size(MIB / 2 + 1, &divisions),
            MIB / 2 + MIB / 16,
            "below 1 MiB as from 1 MiB on"
        );
        assert_eq!(
            block_size((80 << 30) + 1, &divisions),
            (80 << 30) + 512,
            "above 64 GiB as from 32 GiB on"
        );
    }

    #[test]
    fn segments_depend_on_the_block() {
        let default = super::super::Settings::default().large_segment_size;
        let sizes = [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
        ];
        for (size, segment) in sizes {
            assert_eq!(segment_size_of(size, default), segment, "{size}");
        }
        assert_eq!(segment_size_of(2 * MIB, 40 * MIB), 40 * MIB);
        assert_eq!(segment_size_of(MIB, 40 * MIB), 2 * MIB);
    }

    #[test]
    fn requests_are_those_of_a_segment() {
        let two_gib = requests(&(2043 * MIB..=2053 * MIB));
        assert_eq!(two_gib, [2042 * MIB + 1..=2052 * MIB]);
        assert_eq!(requests(&(2 * MIB..=2 * MIB)), [1..=MIB]);
        let shared = [MIB + 1..=10 * MIB - 512, 18 * MIB + 1..=20 * MIB];
        assert_eq!(requests(&(20 * MIB..=20 * MIB)), shared);
        assert_eq!(requests(&(10 * MIB..=10 * MIB)), [10 * MIB - 511..=10 * MIB]);
        assert_eq!(requests(&(3 * MIB..=9 * MIB)), []);
        for segment in [2, 10, 12, 20, 2048].map(|mib| mib * MIB) {
            for range in requests(&(segment..=segment)) {
                for bytes in [*range.start(), *range.end()] {
                    let block = block_size(bytes, &Divisions::default());
                    assert_eq!(segment_size(block), segment, "{bytes}");
                }
            }
        }
    }
}
