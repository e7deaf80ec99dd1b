//! Random programs, against the naive allocator: same addresses, same counts after every call.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::naive::{Counts, Naive};
use crate::caching_allocator::{CachingAllocator, DeviceMemory, PoolStats};

const MIB: u64 = 1 << 20;

fn counts(stats: &PoolStats) -> Counts {
    Counts {
        allocations: stats.allocations.current,
        allocated: stats.allocated.current,
        requested: stats.requested.current,
        segments: stats.segments.current,
        reserved: stats.reserved.current,
        inactive_splits: stats.inactive_splits.current,
        inactive_split: stats.inactive_split.current,
    }
}

/// From a few bytes to 100 MiB, often one that was already asked for, often at a border.
fn size(random: &mut ChaCha8Rng, known: &mut Vec<u64>) -> u64 {
    if !known.is_empty() && random.random_bool(0.5) {
        return known[random.random_range(0..known.len())];
    }
    let size = match random.random_range(0..6) {
        0 => random.random_range(1..5000),
        1 => random.random_range(1..2 * MIB),
        2 => random.random_range(MIB..20 * MIB),
        3 => random.random_range(1..100 * MIB),
        4 => {
            [MIB, 2 * MIB, 10 * MIB, 20 * MIB, 64 * MIB][random.random_range(0..5)] + random.random_range(0..1025) - 512
        }
        _ => random.random_range(1..40) * MIB / 2,
    };
    known.push(size);
    size
}

/// How often memory was short, and how often that was the end.
fn compare(settings: &str, device: DeviceMemory, seed: u64, calls: usize) -> (u64, u64) {
    let settings = settings.parse().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut known = Vec::new();
    let mut allocator = CachingAllocator::new(&settings, &device);
    let mut naive = Naive::new(&settings, &device);
    let mut live = Vec::new();
    let mut peak = 0;
    for call in 0..calls {
        let fill = random.random_range(0.3..0.9);
        if live.is_empty() || live.len() < 60 && random.random_bool(fill) {
            let bytes = size(&mut random, &mut known);
            let address = naive.malloc(bytes);
            match allocator.malloc(bytes) {
                Ok(allocation) => {
                    let id = allocation.0.expect("it has bytes");
                    assert_eq!(
                        Some(allocator.blocks[id].address),
                        address,
                        "call {call}, {bytes} bytes"
                    );
                    live.push((allocation, allocator.blocks[id].address));
                }
                Err(error) => assert_eq!((error.requested, None), (bytes, address), "call {call}"),
            }
        } else if random.random_bool(0.01) {
            allocator.empty_cache();
            naive.empty_cache();
        } else {
            let (allocation, address) = live.swap_remove(random.random_range(0..live.len()));
            allocator.free(allocation);
            naive.free(address);
        }
        let stats = allocator.stats();
        assert_eq!(counts(&stats.all), naive.counts(None), "call {call}");
        assert_eq!(counts(&stats.small), naive.counts(Some(true)), "call {call}");
        assert_eq!(counts(&stats.large), naive.counts(Some(false)), "call {call}");
        assert_eq!(stats.retries, naive.retries, "call {call}");
        assert_eq!(allocator.largest_free_block(), naive.largest_free(), "call {call}");
        peak = peak.max(stats.all.reserved.current);
        assert!(stats.all.reserved.peak >= peak);
    }
    (allocator.stats().retries, allocator.stats().out_of_memory)
}

#[test]
fn it_does_what_the_plain_rules_say() {
    let settings = [
        "",
        "max_split_size_mb:64",
        "max_split_size_mb:20,max_non_split_rounding_mb:40",
        "roundup_power2_divisions:4",
        "roundup_power2_divisions:[1:8,16:2,>:1],large_segment_size_mb:33",
        "expandable_segments:True",
        "expandable_segments:True,max_split_size_mb:32,large_segment_size_mb:12",
        "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
        "garbage_collection_threshold:0.3,per_process_memory_fraction:0.6,max_split_size_mb:40",
        "garbage_collection_threshold:0.3,per_process_memory_fraction:0.6,expandable_segments:True",
    ];
    for settings in settings {
        let (mut retries, mut out_of_memory) = (0, 0);
        for seed in 0..4 {
            for total in [300, 900, 1 << 20] {
                let device = DeviceMemory {
                    total: total * MIB,
                    taken: 10 * MIB,
                };
                let (tried, failed) = compare(settings, device, seed, 700);
                retries += tried;
                out_of_memory += failed;
            }
        }
        assert!(
            out_of_memory > 20 && retries > out_of_memory,
            "{settings}: {retries} retries, {out_of_memory} in vain"
        );
    }
}
