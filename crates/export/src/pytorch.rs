//! PyTorch's memory snapshot, as `torch.cuda.memory._dump_snapshot` writes it. pytorch.org/memory_viz and
//! `torch/cuda/_memory_viz.py` read it, and explain its fields.
//!
//! Addresses are those of the heap. Ranges that hold tensors represent the segments of PyTorch's allocator.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use results::timeline::Recording;

use super::lifetimes::{Endpoint, Lifetime, lifetimes};
use super::pickle::Pickle;

/// The largest gap between two tensors of a segment, in bytes.
const GAP: u64 = 2 << 20;
/// The addresses of allocations from before the recording, whose own are unknown.
const EARLIER: u64 = 1 << 46;

/// Writes the recording's allocations and releases, and the allocations that are live at its end.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let (mut lifetimes, endpoints) = lifetimes(recording);
    for lifetime in lifetimes.iter_mut().filter(|lifetime| lifetime.address < 16) {
        lifetime.address = EARLIER | lifetime.address << 40;
    }
    let snapshot = Snapshot {
        recording,
        segments: segments(&lifetimes),
        lifetimes,
        endpoints,
    };
    let mut pickle = Pickle::new(out)?;
    snapshot.write(&mut pickle)?;
    pickle.finish()
}

struct Snapshot<'a> {
    recording: &'a Recording,
    lifetimes: Vec<Lifetime>,
    endpoints: Vec<Endpoint>,
    /// First and last address, in the order of addresses.
    segments: Vec<(u64, u64)>,
}

/// The ranges of addresses that ever held tensors.
fn segments(lifetimes: &[Lifetime]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = lifetimes
        .iter()
        .map(|lifetime| (lifetime.address, lifetime.address + lifetime.bytes))
        .collect();
    ranges.sort_unstable();
    let mut segments: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in ranges {
        match segments.last_mut() {
            Some(last) if begin <= last.1 + GAP => last.1 = last.1.max(end),
            _ => segments.push((begin, end)),
        }
    }
    segments
}

/// The pickle's numbers of the stacks that were written.
type StackNumbers = HashMap<[String; 3], u32>;

impl Snapshot<'_> {
    fn write<W: Write>(&self, pickle: &mut Pickle<W>) -> io::Result<()> {
        let mut frames = StackNumbers::new();
        pickle.dict(|pickle| {
            pickle.text("segments")?;
            let live = self.live_at_the_end();
            pickle.list(&self.segments, |pickle, segment| {
                self.segment(pickle, *segment, &live, &mut frames)
            })?;
            pickle.text("device_traces")?;
            pickle.list([()], |pickle, ()| self.trace(pickle, &mut frames))
        })
    }

    /// The live allocations by address.
    fn live_at_the_end(&self) -> BTreeMap<u64, &Lifetime> {
        let mut live = BTreeMap::new();
        for endpoint in &self.endpoints {
            let lifetime = &self.lifetimes[endpoint.lifetime];
            if endpoint.begins {
                live.insert(lifetime.address, lifetime);
            } else {
                live.remove(&lifetime.address);
            }
        }
        live
    }

    fn segment<W: Write>(
        &self,
        pickle: &mut Pickle<W>,
        (begin, end): (u64, u64),
        live: &BTreeMap<u64, &Lifetime>,
        frames: &mut StackNumbers,
    ) -> io::Result<()> {
        let held: u64 = live.range(begin..end).map(|(_, lifetime)| lifetime.bytes).sum();
        // Live blocks, and the free ones before, between and after them.
        let mut blocks: Vec<(u64, u64, Option<&Lifetime>)> = Vec::new();
        let mut at = begin;
        for (&address, &lifetime) in live.range(begin..end).filter(|(_, lifetime)| lifetime.bytes > 0) {
            if address > at {
                blocks.push((at, address - at, None));
            }
            blocks.push((address, lifetime.bytes, Some(lifetime)));
            at = address + lifetime.bytes;
        }
        if at < end {
            blocks.push((at, end - at, None));
        }
        pickle.dict(|pickle| {
            for (key, number) in [
                ("device", 0),
                ("address", begin),
                ("total_size", end - begin),
                ("allocated_size", held),
                ("active_size", held),
                ("requested_size", held),
                ("stream", 0),
            ] {
                pickle.text(key)?;
                pickle.number(number)?;
            }
            pickle.text("segment_type")?;
            pickle.text("large")?;
            pickle.text("is_expandable")?;
            pickle.no()?;
            pickle.text("blocks")?;
            pickle.list(blocks, |pickle, (address, size, lifetime)| {
                pickle.dict(|pickle| {
                    for (key, number) in [("address", address), ("size", size), ("requested_size", size)] {
                        pickle.text(key)?;
                        pickle.number(number)?;
                    }
                    pickle.text("state")?;
                    pickle.text(if lifetime.is_some() {
                        "active_allocated"
                    } else {
                        "inactive"
                    })?;
                    pickle.text("frames")?;
                    match lifetime {
                        Some(lifetime) => self.frames(pickle, lifetime, frames),
                        None => pickle.list([(); 0], |_, ()| Ok(())),
                    }
                })
            })
        })
    }

    /// Writes the segments, and then every allocation and release.
    fn trace<W: Write>(&self, pickle: &mut Pickle<W>, frames: &mut StackNumbers) -> io::Result<()> {
        enum Entry<'e> {
            Segment(u64, u64),
            Alloc(&'e Endpoint),
            Free(&'e Endpoint, &'static str),
        }
        let segments = self
            .segments
            .iter()
            .map(|&(begin, end)| Entry::Segment(begin, end - begin));
        let endpoints = self.endpoints.iter().flat_map(|endpoint| match endpoint.begins {
            true => vec![Entry::Alloc(endpoint)],
            false => vec![
                Entry::Free(endpoint, "free_requested"),
                Entry::Free(endpoint, "free_completed"),
            ],
        });
        pickle.list(segments.chain(endpoints), |pickle, entry| {
            let (action, address, size, nanos) = match entry {
                Entry::Segment(begin, size) => ("segment_alloc", begin, size, 0),
                Entry::Alloc(endpoint) => (
                    "alloc",
                    self.lifetimes[endpoint.lifetime].address,
                    self.lifetimes[endpoint.lifetime].bytes,
                    endpoint.nanos,
                ),
                Entry::Free(endpoint, action) => (
                    action,
                    self.lifetimes[endpoint.lifetime].address,
                    self.lifetimes[endpoint.lifetime].bytes,
                    endpoint.nanos,
                ),
            };
            pickle.dict(|pickle| {
                pickle.text("action")?;
                pickle.text(action)?;
                for (key, number) in [
                    ("addr", address),
                    ("size", size),
                    ("stream", 0),
                    ("time_us", nanos / 1000),
                ] {
                    pickle.text(key)?;
                    pickle.number(number)?;
                }
                // memory_viz takes its colours from the category, and needs one with the name `unknown`.
                match entry {
                    Entry::Segment(..) => {
                        pickle.text("category")?;
                        pickle.text("unknown")?;
                        pickle.text("frames")?;
                        pickle.list([(); 0], |_, ()| Ok(()))
                    }
                    Entry::Alloc(endpoint) => {
                        pickle.text("category")?;
                        pickle.text(self.lifetimes[endpoint.lifetime].category.name())?;
                        pickle.text("frames")?;
                        self.frames(pickle, &self.lifetimes[endpoint.lifetime], frames)
                    }
                    Entry::Free(endpoint, _) => {
                        pickle.text("frames")?;
                        self.frames(pickle, &self.lifetimes[endpoint.lifetime], frames)
                    }
                }
            })
        })
    }

    /// Writes category and shape, module and phase in place of a Python stack.
    fn frames<W: Write>(
        &self,
        pickle: &mut Pickle<W>,
        lifetime: &Lifetime,
        frames: &mut StackNumbers,
    ) -> io::Result<()> {
        let what = match &lifetime.shape {
            Some(shape) => format!("{} {} {shape}", lifetime.category.name(), shape.dtype),
            None => lifetime.category.name().to_owned(),
        };
        let module = match self.recording.names[usize::from(lifetime.module)].as_str() {
            "" => "(no module)".to_owned(),
            module => module.to_owned(),
        };
        let stack = [what, module, lifetime.phase.name().to_owned()];
        if let Some(&number) = frames.get(&stack) {
            return pickle.again(number);
        }
        pickle.list(&stack, |pickle, name| {
            pickle.dict(|pickle| {
                pickle.text("filename")?;
                pickle.text("expctl")?;
                pickle.text("line")?;
                pickle.number(0)?;
                pickle.text("name")?;
                pickle.text(name)
            })
        })?;
        let number = pickle.memoize()?;
        frames.insert(stack, number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn segments_hold_all_and_are_apart() {
        let (lifetimes, _) = lifetimes(&sample::recording());
        assert_eq!(segments(&lifetimes), [(0x1000, 0x50a0)]);
    }

    #[test]
    fn the_snapshot_names_every_action_and_category() {
        let mut bytes = Vec::new();
        write(&sample::recording(), &mut bytes).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        for text in [
            "segment_alloc",
            "free_completed",
            "activation float32 [4, 3]",
            "model.layers.0.mlp",
            "unknown",
        ] {
            assert!(has(text), "{text}");
        }
    }
}
