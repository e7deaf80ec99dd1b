//! When stage 3 gathers parameters, and when it lets them go (`runtime/zero/partitioned_param_coordinator.py`).
//!
//! The first micro-batch records the order in which modules use their parameters. From the second on, those that come
//! next are gathered ahead, and those that are used again soon stay.

use std::collections::{HashMap, VecDeque};

/// A parameter, by its number.
pub(super) type Number = usize;

/// A module, as hooks tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ModuleId {
    /// One that has this parameter, and maybe others.
    Of(Number),
    /// One around that with this parameter, which looks at it.
    Around(Number),
    /// One without parameters, by the number of its call.
    Container(u16),
    /// One without parameters that is not called for a backward pass.
    Passing,
}

/// The order of uses, and the place in it.
pub(super) struct Coordinator {
    mode: Mode,
    /// The parameters of each module that was called, forward and backward, in order.
    order: Vec<Vec<Number>>,
    /// The place in that order.
    place: usize,
    /// Parameters that have yet to be gathered, each with the place of its use.
    queue: VecDeque<(Number, usize)>,
    /// The place for which each parameter was last gathered or looked at.
    last_place: Vec<Option<usize>>,
    /// What a module lets go at a place, which is found once.
    released: HashMap<(ModuleId, usize), Vec<Number>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unknown,
    Recording,
    Complete,
}

impl Coordinator {
    pub(super) fn new(parameters: usize) -> Self {
        Self {
            mode: Mode::Unknown,
            order: Vec::new(),
            place: 0,
            queue: VecDeque::new(),
            last_place: vec![None; parameters],
            released: HashMap::new(),
        }
    }

    /// A micro-batch begins (`reset_step`).
    pub(super) fn begin(&mut self) {
        self.mode = match self.mode {
            Mode::Unknown => Mode::Recording,
            Mode::Recording | Mode::Complete => Mode::Complete,
        };
        self.place = 0;
        self.last_place.fill(None);
        if self.mode == Mode::Complete {
            let places = self.order.iter().enumerate();
            self.queue = places
                .flat_map(|(place, used)| used.iter().map(move |&number| (number, place)))
                .collect();
        }
    }

    /// A module is called, forward or backward.
    pub(super) fn call(&mut self, used: &[Number]) {
        if self.mode == Mode::Recording {
            self.order.push(used.to_vec());
        }
    }

    /// The parameters of a module are whole. Gives those that are to be gathered ahead, of at most so many elements and one
    /// parameter more; `size` is that of a parameter that is not whole.
    pub(super) fn look_ahead(
        &mut self,
        used: &[Number],
        most_elements: i64,
        size: impl Fn(Number) -> Option<u64>,
    ) -> Vec<Number> {
        let place = self.place;
        self.place += 1;
        if self.mode != Mode::Complete {
            return Vec::new();
        }
        let unseen = used
            .iter()
            .filter(|&&number| self.last_place[number].is_none_or(|last| last < place));
        for _ in 0..unseen.count() {
            if let Some((number, of_use)) = self.queue.pop_front() {
                self.last_place[number] = Some(of_use);
            }
        }
        let mut ahead = Vec::new();
        let mut elements: i64 = 0;
        while elements < most_elements
            && let Some((number, of_use)) = self.queue.pop_front()
        {
            self.last_place[number] = self.last_place[number].max(Some(of_use));
            if let Some(own) = size(number).filter(|_| !ahead.contains(&number)) {
                ahead.push(number);
                elements += own as i64;
            }
        }
        ahead
    }

    /// The parameters that a module lets go when it is done. Those that persist are among them in the first micro-batch
    /// alone.
    pub(super) fn released(
        &mut self,
        module: ModuleId,
        used: &[Number],
        reuse_distance: u64,
        persists: impl Fn(Number) -> bool,
        size: impl Fn(Number) -> u64,
    ) -> Vec<Number> {
        if self.mode != Mode::Complete {
            return used.to_vec();
        }
        let (order, last_place, place) = (&self.order, &self.last_place, self.place);
        let find = || {
            let is_due = |&number: &Number| !persists(number) && last_place[number].is_none_or(|last| last <= place);
            let mut released: Vec<_> = used.iter().copied().filter(is_due).collect();
            let mut passed = 0;
            for module in order.get(place..).unwrap_or_default() {
                if passed >= reuse_distance || released.is_empty() {
                    break;
                }
                released.retain(|number| !module.contains(number));
                passed += module.iter().map(|&number| size(number)).sum::<u64>();
            }
            released
        };
        self.released.entry((module, place)).or_insert_with(find).clone()
    }
}
