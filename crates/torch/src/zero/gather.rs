//! How parameters become whole, and are let go (`runtime/zero/partition_parameters.py`).

use trace::Category;

use super::coordinator::Number;
use super::state::{Handle, Partitioned};
use super::stream;
use crate::tape::Tape;
use crate::view::StorageId;

impl Partitioned {
    fn stream(&self) -> u8 {
        match self.zero.overlap_comm {
            true => stream::GATHER,
            false => stream::COMPUTE,
        }
    }

    /// Bytes of the parts of all ranks.
    fn parts_bytes(&self, number: Number) -> u64 {
        let parameter = &self.parameters[number];
        parameter.part * self.zero.ranks * parameter.dtype.size()
    }

    /// The rank's part on the GPU, if it has to be copied there.
    fn fetched(&self, tape: &Tape, number: Number) -> Option<StorageId> {
        let parameter = &self.parameters[number];
        let bytes = parameter.part * parameter.dtype.size();
        self.zero.offload_param.map(|_| tape.alloc(bytes, Category::Temporary))
    }

    /// Begins to gather parameters together (`all_gather_coalesced`).
    pub(super) fn begin_gather(&mut self, tape: &Tape, mut numbers: Vec<Number>) {
        numbers.sort_unstable();
        numbers.retain(|&number| !self.parameters[number].is_whole_or_coming());
        self.whole_elements += numbers
            .iter()
            .map(|&number| self.parameters[number].elements as i64)
            .sum::<i64>();
        let stream = self.stream();
        let handle = self.handles.len();
        tape.on(stream, || match numbers[..] {
            [] => {}
            _ if self.zero.ranks == 1 => {
                for &number in &numbers {
                    self.parameters[number].whole = Some(self.alone(tape, number));
                }
            }
            [number] => {
                let fetched = self.fetched(tape, number);
                let whole = tape.alloc(self.parts_bytes(number), Category::Parameter);
                fetched.into_iter().for_each(|fetched| tape.release(fetched));
                self.parameters[number].whole = Some(whole);
            }
            _ => {
                let bytes = numbers.iter().map(|&number| self.parts_bytes(number)).sum();
                let arrived = tape.alloc(bytes, Category::Temporary);
                let fetched: Vec<_> = numbers
                    .iter()
                    .filter_map(|&number| self.fetched(tape, number))
                    .collect();
                fetched.into_iter().for_each(|fetched| tape.release(fetched));
                self.handles.push(Handle {
                    arrived,
                    numbers: numbers.clone(),
                    awaited: numbers.len(),
                    is_complete: false,
                });
            }
        });
        for &number in &numbers {
            let parameter = &mut self.parameters[number];
            parameter.is_coming = true;
            parameter.handle = (handle < self.handles.len()).then_some(handle);
        }
    }

    /// The whole parameter of a rank that is alone: its part, or a copy of that on the GPU.
    fn alone(&self, tape: &Tape, number: Number) -> StorageId {
        match self.fetched(tape, number) {
            Some(fetched) => {
                tape.label_parameter(fetched);
                fetched
            }
            None => StorageId::NOWHERE,
        }
    }

    /// Waits for a parameter that is coming: all that come with it are copied out of what arrived, which stays until each
    /// was waited for.
    pub(super) fn wait(&mut self, tape: &Tape, number: Number) {
        if !std::mem::take(&mut self.parameters[number].is_coming) {
            return;
        }
        let Some(handle) = self.parameters[number].handle.take() else {
            return;
        };
        let stream = self.stream();
        let handle = &mut self.handles[handle];
        if !std::mem::replace(&mut handle.is_complete, true) {
            tape.on(stream, || {
                for &number in &handle.numbers {
                    let parameter = &mut self.parameters[number];
                    let bytes = parameter.elements * parameter.dtype.size();
                    parameter.whole = Some(tape.alloc(bytes, Category::Parameter));
                }
            });
        }
        handle.awaited -= 1;
        if handle.awaited == 0 {
            tape.release(handle.arrived);
        }
    }

    /// Gathers parameters one after the other, and waits for them (`_allgather_params_coalesced`).
    pub(super) fn gather_now(&mut self, tape: &Tape, numbers: &[Number]) {
        let gone: Vec<Number> = numbers
            .iter()
            .copied()
            .filter(|&number| !self.parameters[number].is_whole_or_coming())
            .collect();
        let fetched: Vec<StorageId> = match self.zero.ranks {
            1 => Vec::new(),
            _ => gone.iter().filter_map(|&number| self.fetched(tape, number)).collect(),
        };
        for number in gone {
            let whole = match self.zero.ranks {
                1 => self.alone(tape, number),
                _ => tape.alloc(self.parts_bytes(number), Category::Parameter),
            };
            self.parameters[number].whole = Some(whole);
        }
        fetched.into_iter().for_each(|fetched| tape.release(fetched));
    }

    /// Lets a whole parameter go, unless a module is at work with it (`__release_param`).
    pub(super) fn let_go(&mut self, tape: &Tape, number: Number) {
        let parameter = &mut self.parameters[number];
        if parameter.is_coming || !parameter.modules.is_empty() {
            return;
        }
        if let Some(whole) = parameter.whole.take() {
            self.whole_elements -= parameter.elements as i64;
            tape.release(whole);
        }
    }
}
