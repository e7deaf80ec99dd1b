//! The moments of a plan at which a message's bytes are asked for.

use cell::{Cell, Stack};
use torch::caching_allocator::rounding::{Divisions, block_size, segment_size};
use trace::{ByCategory, Category, Event, LiveTensors, Module, Occurrence, Phase, Trace};

use super::message::Message;
use crate::{PlanError, Planner};

/// An allocation of as many bytes as a message tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Its optimizer step, from 1; 0 while the model is loaded.
    pub step: u32,
    /// The phase.
    pub phase: Phase,
    /// The module at work.
    pub module: Option<Module>,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The purpose of the tensor.
    pub category: Category,
    /// Blocks in use before it.
    pub allocated: u64,
    /// Requested bytes of these by category.
    pub by_category: ByCategory,
    /// Requested bytes of activations and temporaries of the head and of the loss.
    pub of_loss: u64,
}

/// A plan and a message agree if their blocks in use differ by less than this share.
const AGREES: f64 = 0.03;

impl Moment {
    /// True if about as much is in use as the message says.
    pub fn agrees(&self, message: &Message) -> bool {
        self.difference(message).abs() < AGREES
    }

    /// The difference between its blocks in use and the message's, as a share of the message's; 0 if that tells none.
    pub fn difference(&self, message: &Message) -> f64 {
        message.allocated.map_or(0.0, |allocated| {
            (self.allocated as f64 - allocated.bytes as f64) / allocated.bytes as f64
        })
    }
}

/// The moment of a cell's plan that is nearest to a message: it asks for the same segment, and differs least in what is
/// allocated; if the message does not tell that, the one with the most. `None` if no segment of this size is asked for.
///
/// # Errors
/// The cell cannot be planned, or is not of PyTorch's stack.
pub fn nearest(planner: &Planner, cell: &Cell, message: &Message) -> Result<Option<Moment>, PlanError> {
    nearest_until(planner, cell, message, u64::MAX)
}

/// The nearest moment before the plan has more than the device of the message allocated, where it would have ended.
///
/// # Errors
/// As [`nearest`].
pub(super) fn nearest_on_device(
    planner: &Planner,
    cell: &Cell,
    message: &Message,
) -> Result<Option<Moment>, PlanError> {
    let of_device = message.total.map(|total| total.bytes).or(planner.budget(cell));
    let most = match message.allocated {
        None => of_device.unwrap_or(u64::MAX),
        // Without a device, a little more than was asked for.
        Some(allocated) => {
            let asked = (allocated.bytes + message.tried.bytes) / 10 * 11;
            of_device.unwrap_or(asked).max(allocated.bytes)
        }
    };
    nearest_until(planner, cell, message, most)
}

fn nearest_until(planner: &Planner, cell: &Cell, message: &Message, most: u64) -> Result<Option<Moment>, PlanError> {
    if cell.stack == Stack::Candle {
        return Err(PlanError::NotPytorch);
    }
    let trace = planner.live_trace(cell)?;
    let moments = moments(&trace, message, most).into_iter();
    if message.allocated.is_none() {
        return Ok(moments.max_by_key(|moment| moment.allocated));
    }
    let difference = |moment: &Moment| moment.difference(message).abs();
    Ok(moments.min_by(|one, other| difference(one).total_cmp(&difference(other))))
}

/// All moments until more than `most` bytes are allocated; those of steps that repeat the one before are left out.
fn moments(trace: &Trace, message: &Message, most: u64) -> Vec<Moment> {
    let rounded = |bytes| block_size(bytes, &Divisions::default());
    let mut live = LiveTensors::new(trace.blocks());
    let mut sizes = vec![0; trace.blocks()];
    let (mut allocated, mut step, mut phase, mut module) = (0, 0, Phase::Idle, None);
    let mut found: Vec<Moment> = Vec::new();
    let mut last = None;
    for section in trace.sections() {
        if section.occurrence == Occurrence::SameRepeat {
            continue;
        }
        for event in section.passes.into_iter().flatten() {
            match *event {
                Event::Alloc { block, bytes, category } if category.is_tensor() => {
                    let size = rounded(bytes);
                    // Without growing segments, which ask for less.
                    if message.tried.is(segment_size(size)) {
                        last = Some(block);
                        found.push(Moment {
                            step,
                            phase,
                            module,
                            bytes,
                            category,
                            allocated,
                            by_category: live.by_category(),
                            of_loss: live.of_loss(),
                        });
                    } else if last == Some(block) {
                        // The number of a block that was freed since.
                        last = None;
                    }
                    sizes[block.index()] = size;
                    allocated += size;
                    if allocated > most {
                        return found;
                    }
                }
                Event::Free { block } => {
                    allocated -= std::mem::take(&mut sizes[block.index()]);
                }
                Event::Label { block, category } if last == Some(block) => {
                    if let Some(moment) = found.last_mut() {
                        moment.category = category;
                    }
                }
                Event::Phase(next) => phase = next,
                Event::Module(next) => module = Some(next),
                Event::Step(next) => step = next,
                _ => {}
            }
            live.apply(event);
        }
    }
    found
}
