//! Replays events: the live allocations after each.

use std::collections::HashMap;

use trace::recording::dtype_name;
use trace::recording::{Event, Kind, RANK_SHIFT};
use trace::{ByCategory, Category, Phase};

/// A live allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// From 0, in the order of their beginnings.
    pub number: u64,
    /// The label.
    pub category: Category,
    /// The size.
    pub bytes: u64,
    /// The number of the module that made it, or of a part of that module that labelled it.
    pub module: u16,
    /// Dtype and dimensions, if they are known.
    pub shape: Option<Shape>,
}

/// Dtype and dimensions of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Such as `float32`.
    pub dtype: &'static str,
    /// From the outermost to the innermost.
    pub dimensions: Vec<u64>,
}

impl std::fmt::Display for Shape {
    /// The dimensions: `[2048, 576]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.dimensions).finish()
    }
}

/// The live allocations and the trainer's phase.
#[derive(Debug)]
pub struct State<'a> {
    names: &'a [String],
    /// The live allocations by address.
    pub live: HashMap<u64, Allocation>,
    /// Live bytes of each category; 0 for host.
    pub sums: ByCategory,
    /// The trainer's phase.
    pub phase: Phase,
    made: u64,
    resized: Option<u64>,
    /// Address of the tensor whose dimensions come next.
    described: Option<u64>,
}

impl<'a> State<'a> {
    /// The state before the first event; `names` are the recording's.
    pub fn new(names: &'a [String]) -> Self {
        Self {
            names,
            live: HashMap::new(),
            sums: ByCategory::default(),
            phase: Phase::Idle,
            made: 0,
            resized: None,
            described: None,
        }
    }

    /// Live tensor bytes.
    pub fn allocated(&self) -> u64 {
        self.sums.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The allocation that the event before resized, if it did.
    pub fn last_resized(&self) -> Option<Allocation> {
        self.resized.and_then(|at| self.live.get(&at)).cloned()
    }

    /// Applies an event.
    ///
    /// # Errors
    /// The contradiction between the event and the state, in words.
    pub fn apply(&mut self, event: &Event) -> Result<(), String> {
        let at = event.address;
        match event.kind {
            Kind::Alloc => self.enter(event)?,
            Kind::Free => self.free(event)?,
            Kind::Resize => {
                let allocation = self.live.get_mut(&at).ok_or_else(|| unknown(at))?;
                self.sums[allocation.category] += event.bytes;
                self.sums[allocation.category] -= allocation.bytes;
                allocation.bytes = event.bytes;
                self.resized = Some(at);
            }
            Kind::Move => {
                let from = self.resized.take().ok_or("a move of nothing")?;
                let allocation = self.live.remove(&from).ok_or_else(|| unknown(from))?;
                self.live.insert(at, allocation);
            }
            Kind::Relabel => self.relabel(event)?,
            Kind::Tensor => self.describe(event)?,
            Kind::Dimensions => {
                let at = self.described.ok_or("dimensions of nothing")?;
                let shape = self.live.get_mut(&at).and_then(|allocation| allocation.shape.as_mut());
                let dimensions = &mut shape.ok_or_else(|| unknown(at))?.dimensions;
                let left = dimensions.capacity() - dimensions.len();
                dimensions.extend(
                    [at_most(event.address, left, 1), at_most(event.bytes, left, 2)]
                        .into_iter()
                        .flatten(),
                );
            }
            Kind::Phase => {
                let phase = usize::try_from(event.bytes).ok().and_then(|at| Phase::ALL.get(at));
                self.phase = *phase.ok_or("an unknown phase")?;
            }
            Kind::Module | Kind::StepBegin | Kind::StepEnd => {}
        }
        Ok(())
    }

    fn enter(&mut self, event: &Event) -> Result<(), String> {
        let allocation = Allocation {
            number: self.made,
            category: event.category,
            bytes: event.bytes,
            module: event.module,
            shape: None,
        };
        self.made += 1;
        self.sums[event.category] += event.bytes;
        match self.live.insert(event.address, allocation) {
            None => Ok(()),
            Some(_) => Err(format!("{:#x} was allocated twice", event.address)),
        }
    }

    fn leave(&mut self, at: u64) -> Result<Allocation, String> {
        let allocation = self.live.remove(&at).ok_or_else(|| unknown(at))?;
        self.sums[allocation.category] -= allocation.bytes;
        Ok(allocation)
    }

    /// Earlier memory, from before the recording, is one allocation per category.
    fn free(&mut self, event: &Event) -> Result<(), String> {
        if self.live.contains_key(&event.address) {
            return self.leave(event.address).map(drop);
        }
        let earlier = self.live.get_mut(&(event.category as u64));
        let earlier = earlier.filter(|earlier| earlier.bytes >= event.bytes);
        earlier.ok_or_else(|| unknown(event.address))?.bytes -= event.bytes;
        self.sums[event.category] -= event.bytes;
        Ok(())
    }

    /// Host memory is not recorded: a label from host begins an allocation, and a label to host ends it.
    fn relabel(&mut self, event: &Event) -> Result<(), String> {
        if event.category == Category::Host {
            return self.leave(event.address).map(drop);
        }
        let Some(allocation) = self.live.get_mut(&event.address) else {
            return self.enter(event);
        };
        self.sums[allocation.category] -= allocation.bytes;
        self.sums[event.category] += allocation.bytes;
        allocation.category = event.category;
        let (made, labelled) = (usize::from(allocation.module), usize::from(event.module));
        let inner = self.names[labelled].strip_prefix(&self.names[made]);
        if made == 0 || inner.is_some_and(|inner| inner.starts_with('.')) {
            allocation.module = event.module;
        }
        Ok(())
    }

    fn describe(&mut self, event: &Event) -> Result<(), String> {
        let allocation = self.live.get_mut(&event.address);
        let allocation = allocation.ok_or_else(|| unknown(event.address))?;
        let dtype = u8::try_from(event.bytes & ((1 << RANK_SHIFT) - 1)).ok();
        let dtype = dtype.and_then(dtype_name).ok_or("an unknown dtype")?;
        let dimensions = Vec::with_capacity((event.bytes >> RANK_SHIFT) as usize);
        allocation.shape = Some(Shape { dtype, dimensions });
        self.described = Some(event.address);
        Ok(())
    }
}

/// A dimension, if at least `place` dimensions are left.
fn at_most(dimension: u64, left: usize, place: usize) -> Option<u64> {
    (left >= place).then_some(dimension)
}

fn unknown(address: u64) -> String {
    format!("nothing is allocated at {address:#x}")
}
