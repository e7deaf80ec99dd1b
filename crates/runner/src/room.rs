//! The room on this machine: which cells may train beside those that do.

use cell::{Cell, Engine};
use memory::control_group::limit_bytes;
use memory::probes::system_available_bytes;
use records::prediction::Prediction;
use spec::Study;

use super::options::Options;

/// Part of what is free that stays so.
const MARGIN: u64 = 10;
/// A process may have a tenth more than predicted, or so many bytes: what it maps beside its tensors varies.
const SLACK: u64 = 64 << 20;

/// What all cells that train side by side share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    cells: usize,
    cores: usize,
    /// In bytes; `None` if the system does not say, and then it bounds nothing.
    memory: Option<u64>,
}

/// What a cell takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    threads: usize,
    /// Predicted memory of its process, in bytes; `None` of a cell that trains alone: it is not known, or the cell has
    /// another device than the CPU.
    memory: Option<u64>,
}

/// A cell that trains, and the most memory that its process had so far, in bytes.
pub(super) type Taken = (Need, Option<u64>);

impl Room {
    /// The room that a study may take on the worker's machine.
    pub(super) fn new(study: &Study, options: &Options) -> Self {
        let free = [system_available_bytes(), limit_bytes()].into_iter().flatten().min();
        Self {
            cells: study.jobs.most(),
            cores: options.machine.as_ref().map_or(1, |machine| machine.machine.cores),
            memory: study
                .jobs_memory
                .map(|size| size.0)
                .or(free.map(|free| free - free / MARGIN)),
        }
    }

    /// True if no further cell may start beside so many, whatever it takes.
    pub(super) fn is_full(&self, taken: usize) -> bool {
        taken >= self.cells
    }

    /// True if one cell follows the other.
    pub(super) fn is_for_one(&self) -> bool {
        self.cells == 1
    }

    /// What a cell takes of it. Without a number of its own, a cell has a thread for each core.
    pub(super) fn need(&self, cell: &Cell, prediction: Option<&Prediction>) -> Need {
        let is_ours = cell.engine() == Some(Engine::Candle) && cell.device_name() == "cpu";
        let process = |prediction: &Prediction| Some(prediction.process_peak_bytes? + prediction.more_while_loading());
        Need {
            threads: cell.threads.unwrap_or(self.cores),
            memory: prediction.filter(|_| is_ours).and_then(process),
        }
    }

    /// True if a cell may start beside these. Where one of them has more memory than predicted, nobody knows how much it
    /// will take, and the others wait. A cell that is too large for the room trains alone.
    pub(super) fn has(&self, need: Need, taken: &[Taken]) -> bool {
        if taken.is_empty() {
            return true;
        }
        let all = || taken.iter().map(|(taken, _)| taken).chain([&need]);
        let threads: usize = all().map(|need| need.threads).sum();
        let Some(memory) = all().map(|need| need.memory).sum::<Option<u64>>() else {
            return false;
        };
        let is_as_predicted = |(need, peak): &Taken| {
            let predicted = need.memory.unwrap_or(0);
            peak.is_none_or(|peak| peak <= predicted + SLACK.max(predicted / 10))
        };
        !self.is_full(taken.len())
            && threads <= self.cores
            && self.memory.is_none_or(|room| memory <= room)
            && taken.iter().all(is_as_predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn need(threads: usize, gibibytes: u64) -> Need {
        Need {
            threads,
            memory: Some(gibibytes * GIB),
        }
    }

    fn room(cells: usize) -> Room {
        Room {
            cells,
            cores: 4,
            memory: Some(8 * GIB),
        }
    }

    #[test]
    fn cells_share_threads_and_memory() {
        let beside = |need: Need, taken: &[Need]| {
            let taken: Vec<Taken> = taken.iter().map(|taken| (*taken, None)).collect();
            room(3).has(need, &taken)
        };
        assert!(beside(need(9, 99), &[]), "a cell that is too large trains alone");
        assert!(beside(need(2, 3), &[need(1, 3), need(1, 2)]));
        assert!(!beside(need(3, 3), &[need(1, 3), need(1, 2)]), "threads");
        assert!(!beside(need(2, 4), &[need(1, 3), need(1, 2)]), "memory");
        assert!(!beside(need(1, 1), &[need(1, 1), need(1, 1), need(1, 1)]), "cells");
        assert!(!room(1).has(need(1, 1), &[(need(1, 1), None)]));
        let alone = Need {
            threads: 1,
            memory: None,
        };
        assert!(!beside(alone, &[need(1, 1)]) && !beside(need(1, 1), &[alone]));
    }

    #[test]
    fn a_process_that_leaves_its_prediction_makes_the_others_wait() {
        let beside = |peak: u64| room(3).has(need(1, 1), &[(need(1, 2), Some(peak))]);
        assert!(beside(GIB) && beside(2 * GIB + GIB / 5));
        assert!(!beside(2 * GIB + GIB / 4));
        let small = Need {
            threads: 1,
            memory: Some(30 << 20),
        };
        assert!(room(2).has(small, &[(small, Some(90 << 20))]));
    }
}
