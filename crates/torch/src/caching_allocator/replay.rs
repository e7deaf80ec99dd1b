//! The memory that the allocator holds of a device over a trace.

use std::ops::Range;

use trace::{ByCategory, ByPhase, Module, Phase};
use trace::{Event, LiveTensors, Mean, Occurrence, Trace};

use super::{Allocation, CachingAllocator, DeviceMemory, OutOfMemory, Settings, Stats};

/// Memory held of the device over a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The highest point since the load.
    pub peak: ReservedPeak,
    /// The highest point of allocated blocks since the load.
    pub allocated_peak: AllocatedPeak,
    /// The highest point in each phase.
    pub in_phase: ByPhase,
    /// The highest point of allocated blocks in each phase; blocks are larger than the requests.
    pub allocated_in_phase: ByPhase,
    /// Allocated blocks at the end of an optimizer step, before its gradients are released: the mean over the steps.
    pub allocated_after_steps: Mean,
    /// Held of the device at the end of each optimizer step.
    pub after_steps: Vec<u64>,
    /// Held at the end of the trace, or when memory ran out.
    pub at_end: u64,
    /// The allocator's counts; peaks are those since the load.
    pub stats: Stats,
    /// The allocation that did not fit and ended the replay.
    pub out_of_memory: Option<AllocationFailed>,
}

/// The instant at which most is held; the first of equal ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReservedPeak {
    /// Bytes held of the device.
    pub bytes: u64,
    /// Bytes of blocks in use.
    pub allocated: u64,
    /// Bytes of the largest free block.
    pub largest_free_block: u64,
    /// The instant.
    pub moment: Moment,
}

/// The instant at which the blocks in use are largest; the first of equal ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllocatedPeak {
    /// Bytes of blocks in use.
    pub bytes: u64,
    /// Requested bytes by category; blocks are larger than the requests.
    pub by_category: ByCategory,
    /// Requested bytes of activations and temporaries of the head and of the loss.
    pub of_loss: u64,
    /// The instant.
    pub moment: Moment,
}

/// An instant of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Number of the optimizer step, from 1.
    pub step: u32,
    /// The phase; `None` before the first one.
    pub phase: Option<Phase>,
    /// The module at work; `None` before the first one.
    pub module: Option<Module>,
}

/// An allocation that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationFailed {
    /// The sizes.
    pub error: OutOfMemory,
    /// The instant.
    pub moment: Moment,
}

/// Replays `trace` on a device that holds nothing yet. What is not a tensor is not on the device.
pub fn replay(trace: &Trace, settings: &Settings, device: &DeviceMemory) -> Reserved {
    let mut replay = Replay::new(trace.blocks(), settings, device);
    let mut last_repeat: Option<Repeat> = None;
    for section in trace.sections() {
        if section.occurrence == Occurrence::SameRepeat
            && let Some(last) = &last_repeat
            && replay.allocator.is_steady_since(last.device_calls)
        {
            // It would find nothing new.
            replay.reserved.after_steps.extend_from_within(last.after_steps.clone());
            replay.reserved.allocated_after_steps += last.allocated_after_steps;
            continue;
        }
        let (device_calls, steps) = (replay.allocator.device_calls, replay.reserved.after_steps.len());
        let allocated_before = replay.reserved.allocated_after_steps;
        if !section.passes.into_iter().all(|events| replay.follow(events)) {
            break;
        }
        if section.occurrence != Occurrence::Once {
            last_repeat = Some(Repeat {
                device_calls,
                after_steps: steps..replay.reserved.after_steps.len(),
                allocated_after_steps: replay.reserved.allocated_after_steps - allocated_before,
            });
        }
    }
    let stats = *replay.allocator.stats();
    Reserved {
        at_end: stats.all.reserved.current,
        stats,
        ..replay.reserved
    }
}

/// A replay on the way.
struct Replay {
    allocator: CachingAllocator,
    /// The blocks in use.
    blocks: Vec<Option<Allocation>>,
    live: LiveTensors,
    reserved: Reserved,
    phase: Phase,
    moment: Moment,
}

/// Events that were repeated.
struct Repeat {
    /// The device's calls before them.
    device_calls: u64,
    /// What they added to [`Reserved::after_steps`].
    after_steps: Range<usize>,
    /// What they added to [`Reserved::allocated_after_steps`].
    allocated_after_steps: Mean,
}

impl Replay {
    fn new(blocks: usize, settings: &Settings, device: &DeviceMemory) -> Self {
        let mut reserved = Reserved::default();
        reserved.peak.moment.phase = Some(Phase::Idle);
        Self {
            allocator: CachingAllocator::new(settings, device),
            blocks: std::iter::repeat_with(|| None).take(blocks).collect(),
            live: LiveTensors::new(blocks),
            moment: reserved.peak.moment,
            phase: Phase::Idle,
            reserved,
        }
    }

    /// Follows events in their order. Returns false if memory runs out.
    fn follow(&mut self, events: &[Event]) -> bool {
        let mut events = events.iter();
        while let Some(event) = events.next() {
            match (event, events.as_slice().first()) {
                // Such as a product's workspace.
                (&Event::Alloc { block, bytes, category }, Some(&Event::Free { block: freed }))
                    if block == freed && category.is_tensor() && self.passes(bytes) =>
                {
                    events.next();
                }
                _ if self.apply(event) => {}
                _ => return false,
            }
        }
        true
    }

    /// Follows a block that is freed at once. Returns false, and nothing has changed but peaks that it reaches, if it
    /// needs a closer look.
    fn passes(&mut self, bytes: u64) -> bool {
        let Some(taken) = self.allocator.malloc_and_free(bytes) else {
            return false;
        };
        let (noted, phase) = (&mut self.reserved, self.phase);
        let stats = &self.allocator.stats().all;
        let allocated = stats.allocated.current + taken;
        if phase != Phase::Load && allocated > noted.allocated_peak.bytes {
            return false;
        }
        noted.in_phase[phase] = noted.in_phase[phase].max(stats.reserved.current);
        noted.allocated_in_phase[phase] = noted.allocated_in_phase[phase].max(allocated);
        true
    }

    /// Follows an event. Returns false if memory runs out.
    fn apply(&mut self, event: &Event) -> bool {
        let Self { allocator, live, .. } = self;
        live.apply(event);
        match *event {
            Event::Alloc { block, bytes, category } => {
                if !category.is_tensor() {
                    return true;
                }
                match allocator.malloc(bytes) {
                    Ok(allocation) => self.blocks[block.index()] = Some(allocation),
                    Err(error) => {
                        let moment = self.moment;
                        self.reserved.out_of_memory = Some(AllocationFailed { error, moment });
                        return false;
                    }
                }
                self.update();
            }
            Event::Free { block } => {
                if let Some(allocation) = self.blocks[block.index()].take() {
                    allocator.free(allocation);
                }
            }
            Event::RecordStream { block } => {
                if let Some(allocation) = &self.blocks[block.index()] {
                    allocator.record_stream(allocation, block.number());
                }
            }
            Event::Await { block } => allocator.done_up_to(block.number()),
            Event::Synchronize => allocator.synchronize(),
            Event::Stream(stream) => allocator.use_stream(stream),
            Event::Phase(next) => {
                if self.phase == Phase::Load {
                    allocator.reset_peaks();
                    self.reserved.peak = ReservedPeak::default();
                    self.reserved.allocated_peak = AllocatedPeak::default();
                }
                self.phase = next;
                self.moment.phase = Some(next);
                self.update();
            }
            Event::Module(module) => self.moment.module = Some(module),
            Event::Step(step) => self.moment.step = step,
            Event::EmptyCache => allocator.empty_cache(),
            Event::StepEnd => {
                let stats = &allocator.stats().all;
                self.reserved.allocated_after_steps.add(stats.allocated.current);
                self.reserved.after_steps.push(stats.reserved.current);
            }
            // The block that made the peak gets its label right after.
            Event::Label { .. } if allocator.stats().all.allocated.current == self.reserved.allocated_peak.bytes => {
                self.reserved.allocated_peak.by_category = live.by_category();
                self.reserved.allocated_peak.of_loss = live.of_loss();
            }
            Event::Label { .. } => {}
        }
        true
    }

    /// Notes what the allocator holds.
    fn update(&mut self) {
        let (noted, phase, moment) = (&mut self.reserved, self.phase, self.moment);
        let stats = &self.allocator.stats().all;
        let (reserved, allocated) = (stats.reserved.current, stats.allocated.current);
        noted.in_phase[phase] = noted.in_phase[phase].max(reserved);
        noted.allocated_in_phase[phase] = noted.allocated_in_phase[phase].max(allocated);
        if phase == Phase::Load {
            return;
        }
        if allocated > noted.allocated_peak.bytes {
            noted.allocated_peak = AllocatedPeak {
                bytes: allocated,
                by_category: self.live.by_category(),
                of_loss: self.live.of_loss(),
                moment,
            };
        }
        if reserved > noted.peak.bytes {
            noted.peak = ReservedPeak {
                bytes: reserved,
                allocated,
                largest_free_block: self.allocator.largest_free_block(),
                moment,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;
    use trace::Category;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A load of 30 MiB of which 12 are temporary, then a step with 25 MiB that are released, an empty cache and
    /// another.
    fn trace() -> Trace {
        let mut trace = Trace::new();
        trace.phase(Phase::Load);
        trace.alloc(18 * MIB, Category::Parameter);
        trace.alloc(1 << 50, Category::Host);
        let temporary = trace.alloc(12 * MIB, Category::Temporary);
        trace.free(temporary);
        trace.phase(Phase::Forward);
        trace.step(1);
        trace.module("mlp", Some(3));
        let activation = trace.alloc(25 * MIB, Category::Activation);
        trace.label(activation, Category::Temporary);
        trace.alloc(0, Category::Activation);
        trace.phase(Phase::Backward);
        trace.free(activation);
        trace.empty_cache();
        trace.phase(Phase::Optimizer);
        trace.alloc(14 * MIB, Category::OptimizerState);
        trace
    }

    #[test]
    fn peaks_are_those_since_the_load() {
        let reserved = replay(&trace(), &Settings::default(), &DeviceMemory::new(100 * MIB));
        assert_eq!(reserved.peak.bytes, (18 + 12 + 26) * MIB, "what the load cached counts");
        assert_eq!(
            reserved.peak.allocated,
            (18 + 26) * MIB,
            "26: 1 MiB is too little to split off"
        );
        assert_eq!(reserved.peak.bytes - reserved.peak.allocated, 12 * MIB);
        assert_eq!(reserved.peak.largest_free_block, 12 * MIB);
        let mlp = Some(Module {
            name: "mlp",
            layer: Some(3),
        });
        let moment = Moment {
            step: 1,
            phase: Some(Phase::Forward),
            module: mlp,
        };
        assert_eq!(reserved.peak.moment, moment);
        let in_phase = [30, 56, 56, 32, 0].map(|mib| mib * MIB);
        assert_eq!(Phase::ALL.map(|phase| reserved.in_phase[phase]), in_phase);
        let allocated = [30, 44, 44, 32, 0].map(|mib| mib * MIB);
        assert_eq!(Phase::ALL.map(|phase| reserved.allocated_in_phase[phase]), allocated);
        let allocated = reserved.allocated_peak;
        assert_eq!((allocated.bytes, allocated.moment), ((18 + 26) * MIB, moment));
        let of = |category| allocated.by_category[category];
        assert_eq!(
            [Category::Parameter, Category::Temporary, Category::Activation].map(of),
            [18 * MIB, 25 * MIB, 0],
            "as requested, by the label that the block of the peak got right after"
        );
        assert_eq!(reserved.at_end, 32 * MIB);
        assert_eq!(reserved.stats.all.segments.peak, 3);
        assert_eq!(reserved.stats.all.segments.current, 2);
        assert_eq!((reserved.stats.retries, reserved.out_of_memory), (0, None));
    }

    #[test]
    fn what_another_stream_uses_stays_reserved_until_it_is_done() {
        let of = |records: bool| {
            let mut trace = Trace::new();
            trace.phase(Phase::Idle);
            for _ in 0..4 {
                let copy = trace.alloc(30 * MIB, Category::Temporary);
                if records {
                    trace.record_stream(copy);
                }
                trace.free(copy);
            }
            trace.synchronize();
            let next = trace.alloc(30 * MIB, Category::Activation);
            trace.free(next);
            replay(&trace, &Settings::default(), &DeviceMemory::UNLIMITED)
        };
        let (kept, given_back) = (of(true), of(false));
        assert_eq!((kept.peak.bytes, given_back.peak.bytes), (120 * MIB, 30 * MIB));
        assert_eq!(
            kept.allocated_peak.bytes,
            30 * MIB,
            "a block that is freed is not allocated"
        );
        assert_eq!(
            kept.stats.all.segments.peak, 4,
            "the last one takes a segment that is there"
        );
    }

    #[test]
    fn what_other_streams_use_is_free_once_they_are_awaited() {
        let mut trace = Trace::new();
        trace.phase(Phase::Idle);
        let copies: Vec<_> = (0..3)
            .map(|_| {
                let copy = trace.alloc(30 * MIB, Category::Temporary);
                trace.record_stream(copy);
                trace.free(copy);
                copy
            })
            .collect();
        trace.wait_for(copies[1]);
        for _ in 0..3 {
            trace.alloc(30 * MIB, Category::Temporary);
        }
        let replayed = replay(&trace, &Settings::default(), &DeviceMemory::UNLIMITED);
        assert_eq!(
            replayed.peak.bytes,
            120 * MIB,
            "two of three are free again, and one is new"
        );
        assert_eq!(replayed.allocated_peak.bytes, 90 * MIB);
    }

    #[test]
    fn streams_take_no_memory_of_each_other() {
        let of = |stream: u8| {
            let mut trace = Trace::new();
            trace.phase(Phase::Idle);
            let copy = trace.alloc(30 * MIB, Category::Temporary);
            trace.free(copy);
            trace.stream(stream);
            let next = trace.alloc(30 * MIB, Category::Temporary);
            trace.free(next);
            trace.stream(0);
            trace.alloc(30 * MIB, Category::Temporary);
            replay(&trace, &Settings::default(), &DeviceMemory::UNLIMITED)
                .peak
                .bytes
        };
        assert_eq!((of(0), of(1)), (30 * MIB, 60 * MIB));
    }

    #[test]
    fn a_full_device_waits_for_other_streams() {
        let mut trace = Trace::new();
        trace.phase(Phase::Idle);
        let copy = trace.alloc(30 * MIB, Category::Temporary);
        trace.record_stream(copy);
        trace.free(copy);
        trace.alloc(40 * MIB, Category::Temporary);
        let replayed = replay(&trace, &Settings::default(), &DeviceMemory::new(60 * MIB));
        assert_eq!((replayed.stats.out_of_memory, replayed.out_of_memory), (0, None));
        assert_eq!(replayed.at_end, 40 * MIB);
    }

    #[test]
    fn a_full_device_takes_back_what_other_streams_cached() {
        let mut trace = Trace::new();
        trace.phase(Phase::Idle);
        trace.stream(1);
        let copy = trace.alloc(30 * MIB, Category::Temporary);
        trace.free(copy);
        trace.stream(0);
        trace.alloc(40 * MIB, Category::Temporary);
        let replayed = replay(&trace, &Settings::default(), &DeviceMemory::new(60 * MIB));
        assert_eq!((replayed.stats.retries, replayed.out_of_memory), (1, None));
    }

    /// A trace of random blocks, half of which are freed at once. Another stream uses some of the others.
    fn passing_trace(seed: u64) -> Trace {
        let mut random = base::random::stream(seed, "blocks");
        let mut trace = Trace::new();
        let mut live = Vec::new();
        for phase in [Phase::Load, Phase::Forward, Phase::Backward, Phase::Optimizer] {
            trace.phase(phase);
            for _ in 0..400 {
                let power = random.random_range(10..24);
                let bytes = 1 + random.random_range(0..3u64 << power);
                let block = trace.alloc(bytes, Category::Temporary);
                match random.random_range(0..4) {
                    0 => {
                        if block.index().is_multiple_of(3) {
                            trace.record_stream(block);
                        }
                        live.push(block);
                    }
                    1 if !live.is_empty() => {
                        let place = random.random_range(0..live.len());
                        trace.free(live.swap_remove(place));
                        trace.free(block);
                    }
                    _ => trace.free(block),
                }
                if random.random_range(0..20) == 0 {
                    trace.synchronize();
                }
            }
        }
        trace
    }

    #[test]
    fn blocks_that_are_freed_at_once_leave_what_all_calls_leave() {
        for (seed, settings) in [
            (0, ""),
            (1, ""),
            (2, "roundup_power2_divisions:4"),
            (3, "max_split_size_mb:32"),
        ] {
            let settings: Settings = settings.parse().unwrap();
            let trace = passing_trace(seed);
            let device = DeviceMemory::UNLIMITED;
            let mut allocator = CachingAllocator::new(&settings, &device);
            let mut blocks: Vec<Option<Allocation>> = std::iter::repeat_with(|| None).take(trace.blocks()).collect();
            let mut highest = ByPhase::default();
            let mut phase = Phase::Idle;
            for event in trace.events() {
                match *event {
                    Event::Phase(next) => {
                        if phase == Phase::Load {
                            allocator.reset_peaks();
                        }
                        phase = next;
                    }
                    Event::Alloc { block, bytes, .. } => blocks[block.index()] = allocator.malloc(bytes).ok(),
                    Event::Free { block } => allocator.free(blocks[block.index()].take().unwrap()),
                    Event::RecordStream { block } => {
                        allocator.record_stream(blocks[block.index()].as_ref().unwrap(), block.number());
                    }
                    Event::Synchronize => allocator.synchronize(),
                    _ => {}
                }
                highest[phase] = highest[phase].max(allocator.stats().all.allocated.current);
            }
            let replayed = replay(&trace, &settings, &device);
            assert_eq!(replayed.stats, *allocator.stats(), "{settings:?}");
            assert_eq!(replayed.allocated_in_phase, highest);
            assert_eq!(replayed.allocated_peak.bytes, replayed.stats.all.allocated.peak);
        }
    }

    #[test]
    fn cached_memory_is_given_back_where_the_device_is_full() {
        let reserved = replay(&trace(), &Settings::default(), &DeviceMemory::new(50 * MIB));
        assert_eq!(reserved.stats.retries, 1);
        assert_eq!(reserved.peak.bytes, 44 * MIB);
        assert_eq!(reserved.out_of_memory, None);
    }

    #[test]
    fn what_does_not_fit_ends_the_replay() {
        let device = DeviceMemory {
            taken: 10 * MIB,
            ..DeviceMemory::new(50 * MIB)
        };
        let reserved = replay(&trace(), &Settings::default(), &device);
        let failed = reserved.out_of_memory.expect("25 MiB do not fit");
        assert_eq!(failed.moment.phase, Some(Phase::Forward));
        assert_eq!(failed.error.requested, 25 * MIB);
        assert_eq!((failed.error.allocated, failed.error.reserved), (18 * MIB, 18 * MIB));
        assert_eq!(reserved.at_end, 18 * MIB);
        assert_eq!((reserved.stats.retries, reserved.stats.out_of_memory), (1, 1));
    }
}
