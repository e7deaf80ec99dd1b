//! The memory that the allocator holds if the model is loaded in other ways.
//!
//! Training releases nothing that the load made, so all that it meets of a load are the free blocks of both pools.
//! While the device gives what it is asked for and nothing is given back, the pools do not heed each other, and what is
//! held only grows. Then the growth of a pool follows from the sizes of its free blocks, and is replayed once for all
//! loads that leave the same.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use trace::Phase;
use trace::{Event, Occurrence, Section, Trace};

use super::pool_kind::PoolKind;
use super::rounding::block_size;
use super::{Allocation, CachingAllocator, DeviceMemory, Settings};

/// The most memory that is held of the device since the load, if the model is loaded as in each of `loads` and trained
/// as in `trace`, which releases nothing that it loaded itself. Loads with which memory runs out are left out.
pub fn reserved_peaks(loads: &[Trace], trace: &Trace, settings: &Settings, device: &DeviceMemory) -> Vec<u64> {
    let loaded = loads.par_iter().filter_map(|load| {
        let mut allocator = CachingAllocator::without_counts_of_blocks(settings, device);
        play(&mut allocator, load.events(), load.blocks())?;
        allocator.reset_peaks();
        Some(allocator)
    });
    let loaded: Vec<CachingAllocator> = loaded.collect();
    if loaded.is_empty() {
        return Vec::new();
    }
    let only_grows = *device == DeviceMemory::UNLIMITED
        && settings.per_process_memory_fraction >= 1.0
        && !settings.expandable_segments;
    if only_grows && let Some([small, large]) = calls_of_pools(trace, settings) {
        let growth = |kind, calls| growths(&loaded, kind, calls, settings);
        let (small, large) = rayon::join(|| growth(PoolKind::Small, &small), || growth(PoolKind::Large, &large));
        let reserved = loaded.iter().map(|allocator| allocator.stats().all.reserved.current);
        let grown = reserved.zip(small).zip(large);
        return grown
            .filter_map(|((bytes, small), large)| Some(bytes + small? + large?))
            .collect();
    }
    let peak = |mut allocator: CachingAllocator| {
        let training = trace.events().skip_while(|event| !ends_load(event));
        play(&mut allocator, training, trace.blocks())?;
        Some(allocator.stats().all.reserved.peak)
    };
    loaded.into_par_iter().filter_map(peak).collect()
}

fn ends_load(event: &Event) -> bool {
    matches!(event, Event::Phase(phase) if *phase != Phase::Load)
}

fn play<'e>(allocator: &mut CachingAllocator, events: impl Iterator<Item = &'e Event>, blocks: usize) -> Option<()> {
    let mut allocations: Vec<Option<Allocation>> = Vec::new();
    allocations.resize_with(blocks, || None);
    for event in events {
        match *event {
            Event::Alloc { block, bytes, category } if category.is_tensor() => {
                allocations[block.index()] = Some(allocator.malloc(bytes).ok()?);
            }
            Event::Free { block } => {
                if let Some(allocation) = allocations[block.index()].take() {
                    allocator.free(allocation);
                }
            }
            Event::RecordStream { block } => {
                if let Some(allocation) = &allocations[block.index()] {
                    allocator.record_stream(allocation, block.number());
                }
            }
            Event::Await { block } => allocator.done_up_to(block.number()),
            Event::Synchronize => allocator.synchronize(),
            Event::Stream(stream) => allocator.use_stream(stream),
            Event::EmptyCache => allocator.empty_cache(),
            _ => {}
        }
    }
    Some(())
}

/// A call of the allocator. Blocks in use have a place each, which the next block takes after them.
#[derive(Debug, Clone, Copy)]
enum Call {
    Malloc {
        place: u32,
        bytes: u64,
    },
    Free {
        place: u32,
    },
    /// A malloc whose block is freed at once.
    Pass {
        bytes: u64,
    },
}

/// The calls of one pool.
#[derive(Debug, Default)]
struct Calls {
    sections: Vec<SectionCalls>,
    /// The number of places.
    places: u32,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct SectionCalls {
    calls: Vec<Call>,
    /// How often they are made in a row.
    times: usize,
}

impl Calls {
    fn malloc(&mut self, bytes: u64) -> u32 {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        self.push(Call::Malloc { place, bytes });
        place
    }

    fn free(&mut self, place: u32) {
        self.vacant.push(place);
        let Some(SectionCalls { calls, .. }) = self.sections.last_mut() else {
            return;
        };
        match calls.last() {
            Some(&Call::Malloc { place: last, bytes }) if last == place => {
                calls.pop();
                // The second of two equal ones finds the block of the first.
                if !matches!(calls.last(), Some(&Call::Pass { bytes: before }) if before == bytes) {
                    calls.push(Call::Pass { bytes });
                }
            }
            _ => calls.push(Call::Free { place }),
        }
    }

    fn push(&mut self, call: Call) {
        if let Some(section) = self.sections.last_mut() {
            section.calls.push(call);
        }
    }
}

/// The calls of training for each pool; `None` if the cache is returned on the way, or several streams use
/// what is allocated.
fn calls_of_pools(trace: &Trace, settings: &Settings) -> Option<[Calls; 2]> {
    let mut pools = [Calls::default(), Calls::default()];
    let mut places: Vec<Option<(PoolKind, u32)>> = vec![None; trace.blocks()];
    let mut is_load = true;
    let mut last_repeat: Option<usize> = None;
    for (number, Section { passes, occurrence }) in trace.sections().enumerate() {
        for calls in &mut pools {
            calls.sections.push(SectionCalls {
                calls: Vec::new(),
                times: 1,
            });
        }
        match (occurrence, last_repeat) {
            (Occurrence::SameRepeat, Some(repeat)) => {
                // In between nothing is called.
                pools.iter_mut().for_each(|calls| calls.sections[repeat].times += 1);
                continue;
            }
            (Occurrence::Once, _) => {}
            _ => last_repeat = Some(number),
        }
        for event in passes.into_iter().flatten() {
            is_load &= !ends_load(event);
            match *event {
                _ if is_load => {}
                Event::Alloc { block, bytes, category } if category.is_tensor() && bytes > 0 => {
                    let pool = PoolKind::of(block_size(bytes, &settings.roundup_power2_divisions));
                    places[block.index()] = Some((pool, pools[pool as usize].malloc(bytes)));
                }
                Event::Free { block } => {
                    if let Some((pool, place)) = places[block.index()].take() {
                        pools[pool as usize].free(place);
                    }
                }
                Event::EmptyCache | Event::Stream(_) | Event::RecordStream { .. } => return None,
                _ => {}
            }
        }
    }
    Some(pools)
}

/// Bytes by which a pool grows in training after each load; `None` if memory runs out.
fn growths(loaded: &[CachingAllocator], kind: PoolKind, calls: &Calls, settings: &Settings) -> Vec<Option<u64>> {
    let free: Vec<Vec<u64>> = loaded.iter().map(|allocator| allocator.free_sizes(kind)).collect();
    let distinct: BTreeSet<&[u64]> = free.iter().map(Vec::as_slice).collect();
    let growth = |sizes| (sizes, growth(sizes, kind, calls, settings));
    let growths: BTreeMap<&[u64], Option<u64>> = distinct.into_par_iter().map(growth).collect();
    free.iter().map(|sizes| growths[sizes.as_slice()]).collect()
}

/// Bytes by which a pool with free blocks of these sizes grows in training; `None` if memory runs out.
fn growth(sizes: &[u64], kind: PoolKind, calls: &Calls, settings: &Settings) -> Option<u64> {
    let mut allocator = CachingAllocator::without_counts_of_blocks(settings, &DeviceMemory::UNLIMITED);
    allocator.add_free(sizes, kind)?;
    let mut in_use: Vec<Option<Allocation>> = Vec::new();
    in_use.resize_with(calls.places as usize, || None);
    for section in &calls.sections {
        for _ in 0..section.times {
            let device_calls = allocator.device_calls;
            for call in &section.calls {
                match *call {
                    Call::Malloc { place, bytes } => in_use[place as usize] = Some(allocator.malloc(bytes).ok()?),
                    Call::Free { place } => in_use[place as usize]
                        .take()
                        .map_or((), |allocation| allocator.free(allocation)),
                    Call::Pass { bytes } => {
                        if allocator.malloc_and_free(bytes).is_none() {
                            let allocation = allocator.malloc(bytes).ok()?;
                            allocator.free(allocation);
                        }
                    }
                }
            }
            // The next time would find nothing new.
            if allocator.is_steady_since(device_calls) {
                break;
            }
        }
    }
    Some(allocator.stats().all.reserved.current)
}

#[cfg(test)]
mod tests {
    use trace::Category;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn load(of_training: &Trace, temporaries: &[u64]) -> u64 {
        let mut load = Trace::new();
        load.phase(Phase::Load);
        load.alloc(18 * MIB, Category::Parameter);
        for &bytes in temporaries {
            let temporary = load.alloc(bytes, Category::Temporary);
            load.free(temporary);
        }
        let peaks = reserved_peaks(&[load], of_training, &Settings::default(), &DeviceMemory::UNLIMITED);
        peaks[0]
    }

    /// What another load leaves in the cache serves the same training.
    #[test]
    fn training_is_replayed_after_another_load() {
        let mut trace = Trace::new();
        trace.phase(Phase::Load);
        trace.alloc(99 * MIB, Category::Parameter);
        trace.phase(Phase::Forward);
        trace.alloc(1 << 50, Category::Host);
        trace.alloc(25 * MIB, Category::Activation);
        trace.alloc(0, Category::Activation);
        assert_eq!(load(&trace, &[]), (18 + 26) * MIB);
        assert_eq!(load(&trace, &[26 * MIB]), (18 + 26) * MIB);
        assert_eq!(load(&trace, &[40 * MIB]), (18 + 40) * MIB, "25 MiB are cut off");
        assert_eq!(load(&trace, &[12 * MIB, 1000]), (18 + 12 + 2 + 26) * MIB);
    }

    /// Random calls, in steps that repeat, after loads that leave different free blocks.
    #[test]
    fn pools_grow_as_in_a_whole_replay() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut size = || [next(3 * MIB), next(40 * MIB), next(5000)][next(3) as usize] + 1;
        for settings in ["", "max_split_size_mb:32", "roundup_power2_divisions:8"] {
            let settings: Settings = settings.parse().unwrap();
            let mut trace = Trace::new();
            trace.phase(Phase::Forward);
            let mut step = |trace: &mut Trace| {
                let mut live = Vec::new();
                for turn in 0..300 {
                    live.push(trace.alloc(size(), Category::Activation));
                    if turn % 3 == 2 {
                        trace.free(live.swap_remove(turn % live.len()));
                    }
                }
                live
            };
            let from = trace.written();
            let left = step(&mut trace).split_off(150);
            for block in left {
                trace.free(block);
            }
            let range = from..trace.written();
            for number in 2..6 {
                trace.step(number);
                trace.repeat(range.clone());
            }
            let loads: Vec<Trace> = (0..6)
                .map(|_| {
                    let mut load = Trace::new();
                    load.phase(Phase::Load);
                    step(&mut load)
                        .into_iter()
                        .step_by(2)
                        .for_each(|block| load.free(block));
                    load
                })
                .collect();
            let whole = |load: &Trace| {
                let mut allocator = CachingAllocator::new(&settings, &DeviceMemory::UNLIMITED);
                play(&mut allocator, load.events(), load.blocks()).unwrap();
                play(&mut allocator, trace.events(), trace.blocks()).unwrap();
                allocator.stats().all.reserved.peak
            };
            let whole: Vec<u64> = loads.iter().map(whole).collect();
            let peaks = reserved_peaks(&loads, &trace, &settings, &DeviceMemory::UNLIMITED);
            assert_eq!(peaks, whole, "{settings:?}");
        }
    }
}
