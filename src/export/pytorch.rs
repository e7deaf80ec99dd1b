//! PyTorch's memory snapshot, as `torch.cuda.memory._dump_snapshot` writes it: for pytorch.org/memory_viz and
//! `torch/cuda/_memory_viz.py`, which also say what its fields are.
//!
//! The heap's addresses are kept; stretches of them that hold tensors stand for the segments of PyTorch's allocator.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::lives::{Life, Turn, lives};
use super::pickle::Pickle;
use crate::results::timeline::Recording;

/// Tensors that are further apart than this are in two segments.
const GAP: u64 = 2 << 20;
/// Where to put what lived before the recording began, which has no address.
const EARLIER: u64 = 1 << 46;

/// Writes the recording's allocations and releases, and what is live at its end.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let (mut lives, turns) = lives(recording);
    for life in lives.iter_mut().filter(|life| life.address < 16) {
        life.address = EARLIER | life.address << 40;
    }
    let snapshot = Snapshot {
        recording,
        segments: segments(&lives),
        lives,
        turns,
    };
    let mut pickle = Pickle::new(out)?;
    snapshot.write(&mut pickle)?;
    pickle.finish()
}

struct Snapshot<'a> {
    recording: &'a Recording,
    lives: Vec<Life>,
    turns: Vec<Turn>,
    /// Beginnings and ends, in the order of addresses.
    segments: Vec<(u64, u64)>,
}

/// The stretches of addresses that ever held something.
fn segments(lives: &[Life]) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = lives
        .iter()
        .map(|life| (life.address, life.address + life.bytes))
        .collect();
    stretches.sort_unstable();
    let mut segments: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in stretches {
        match segments.last_mut() {
            Some(last) if begin <= last.1 + GAP => last.1 = last.1.max(end),
            _ => segments.push((begin, end)),
        }
    }
    segments
}

/// Numbers in the pickle of stacks that were written, by what they are made of.
type Frames = HashMap<[String; 3], u32>;

impl Snapshot<'_> {
    fn write<W: Write>(&self, pickle: &mut Pickle<W>) -> io::Result<()> {
        let mut frames = Frames::new();
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

    /// By address.
    fn live_at_the_end(&self) -> BTreeMap<u64, &Life> {
        let mut live = BTreeMap::new();
        for turn in &self.turns {
            let life = &self.lives[turn.life];
            if turn.begins {
                live.insert(life.address, life);
            } else {
                live.remove(&life.address);
            }
        }
        live
    }

    fn segment<W: Write>(
        &self,
        pickle: &mut Pickle<W>,
        (begin, end): (u64, u64),
        live: &BTreeMap<u64, &Life>,
        frames: &mut Frames,
    ) -> io::Result<()> {
        let held: u64 = live.range(begin..end).map(|(_, life)| life.bytes).sum();
        // What is live, and what is free before, between and after.
        let mut blocks: Vec<(u64, u64, Option<&Life>)> = Vec::new();
        let mut at = begin;
        for (&address, &life) in live.range(begin..end).filter(|(_, life)| life.bytes > 0) {
            if address > at {
                blocks.push((at, address - at, None));
            }
            blocks.push((address, life.bytes, Some(life)));
            at = address + life.bytes;
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
            pickle.list(blocks, |pickle, (address, size, life)| {
                pickle.dict(|pickle| {
                    for (key, number) in [("address", address), ("size", size), ("requested_size", size)] {
                        pickle.text(key)?;
                        pickle.number(number)?;
                    }
                    pickle.text("state")?;
                    pickle.text(if life.is_some() { "active_allocated" } else { "inactive" })?;
                    pickle.text("frames")?;
                    match life {
                        Some(life) => self.frames(pickle, life, frames),
                        None => pickle.list([(); 0], |_, ()| Ok(())),
                    }
                })
            })
        })
    }

    /// The segments first, then every allocation and release.
    fn trace<W: Write>(&self, pickle: &mut Pickle<W>, frames: &mut Frames) -> io::Result<()> {
        enum Entry<'e> {
            Segment(u64, u64),
            Alloc(&'e Turn),
            Free(&'e Turn, &'static str),
        }
        let segments = self
            .segments
            .iter()
            .map(|&(begin, end)| Entry::Segment(begin, end - begin));
        let turns = self.turns.iter().flat_map(|turn| match turn.begins {
            true => vec![Entry::Alloc(turn)],
            false => vec![Entry::Free(turn, "free_requested"), Entry::Free(turn, "free_completed")],
        });
        pickle.list(segments.chain(turns), |pickle, entry| {
            let (action, address, size, nanos) = match entry {
                Entry::Segment(begin, size) => ("segment_alloc", begin, size, 0),
                Entry::Alloc(turn) => (
                    "alloc",
                    self.lives[turn.life].address,
                    self.lives[turn.life].bytes,
                    turn.nanos,
                ),
                Entry::Free(turn, action) => (
                    action,
                    self.lives[turn.life].address,
                    self.lives[turn.life].bytes,
                    turn.nanos,
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
                // memory_viz colours by it, and needs one that is called unknown.
                match entry {
                    Entry::Segment(..) => {
                        pickle.text("category")?;
                        pickle.text("unknown")?;
                        pickle.text("frames")?;
                        pickle.list([(); 0], |_, ()| Ok(()))
                    }
                    Entry::Alloc(turn) => {
                        pickle.text("category")?;
                        pickle.text(self.lives[turn.life].category.name())?;
                        pickle.text("frames")?;
                        self.frames(pickle, &self.lives[turn.life], frames)
                    }
                    Entry::Free(turn, _) => {
                        pickle.text("frames")?;
                        self.frames(pickle, &self.lives[turn.life], frames)
                    }
                }
            })
        })
    }

    /// In the place of a Python stack: what it is, for which module, in which phase.
    fn frames<W: Write>(&self, pickle: &mut Pickle<W>, life: &Life, frames: &mut Frames) -> io::Result<()> {
        let what = match &life.shape {
            Some(shape) => format!("{} {} {shape}", life.category.name(), shape.dtype),
            None => life.category.name().to_owned(),
        };
        let module = match self.recording.names[usize::from(life.module)].as_str() {
            "" => "(no module)".to_owned(),
            module => module.to_owned(),
        };
        let stack = [what, module, life.phase.name().to_owned()];
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
        let number = pickle.remember()?;
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
        let (lives, _) = lives(&sample::recording());
        assert_eq!(segments(&lives), [(0x1000, 0x50a0)]);
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
