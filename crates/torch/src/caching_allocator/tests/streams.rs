//! Programs of several streams, against what PyTorch's own allocator counted (`python/allocator/compare.py --write`).

use std::collections::HashMap;

use serde::Deserialize;

use super::super::*;

const PROGRAMS: &str = include_str!("../../../../../tests/fixtures/allocator_streams.json");

#[derive(Deserialize)]
struct Program {
    device: Gpu,
    calls: Vec<Call>,
    /// Bytes allocated, reserved and active, and retries, after each call.
    counts: Vec<[u64; 4]>,
}

#[derive(Deserialize)]
struct Gpu {
    total: u64,
    taken: u64,
    settings: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    Malloc { id: u32, bytes: u64, stream: u8 },
    Free { id: u32 },
    RecordStream { id: u32 },
    DoneUpTo { id: u32 },
    Synchronize,
    EmptyCache,
    ResetPeaks,
}

#[test]
fn blocks_of_several_streams_are_those_of_pytorch() {
    for line in PROGRAMS.lines() {
        let Program { device, calls, counts } = serde_json::from_str(line).unwrap();
        let settings = device.settings.parse().unwrap();
        let memory = DeviceMemory {
            total: device.total,
            taken: device.taken,
        };
        let mut allocator = CachingAllocator::new(&settings, &memory);
        let mut live = HashMap::new();
        let mut awaited = 0;
        for (number, (call, expected)) in calls.into_iter().zip(counts).enumerate() {
            match call {
                Call::Malloc { id, bytes, stream } => {
                    allocator.use_stream(stream);
                    live.extend(allocator.malloc(bytes).ok().map(|allocation| (id, allocation)));
                }
                Call::Free { id } => allocator.free(live.remove(&id).unwrap()),
                Call::RecordStream { id } => allocator.record_stream(&live[&id], id),
                Call::DoneUpTo { id } => allocator.done_up_to(id),
                Call::Synchronize => allocator.synchronize(),
                Call::EmptyCache => allocator.empty_cache(),
                Call::ResetPeaks => allocator.reset_peaks(),
            }
            let stats = allocator.stats();
            let (allocated, reserved) = (stats.all.allocated.current, stats.all.reserved.current);
            let active = allocated + allocator.awaited_bytes();
            awaited = awaited.max(allocator.awaited_bytes());
            assert_eq!(
                [allocated, reserved, active, stats.retries],
                expected,
                "call {number} with {:?}, {call:?}",
                device.settings
            );
        }
        assert!(awaited > 0 && allocator.stats().retries > 0);
    }
}
