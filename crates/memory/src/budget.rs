//! The budgets of live tensor bytes, one for each tier, and the exit of a process that exceeds it.

use std::fmt::Write as _;
use std::os::fd::RawFd;

use trace::{Category, Phase};

/// Exit code of a process that ran out of memory and reported it on its descriptor.
pub const OOM_EXIT_CODE: i32 = 42;

/// The most bytes of tensors in each tier of memory; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers {
    /// Of the device that computes.
    pub device: Option<u64>,
    /// Of the host, where offloaded tensors wait.
    pub host: Option<u64>,
}

/// The limits, and the descriptor that a refusal is reported on. Without a descriptor a refusal has no effect.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    limits: Tiers,
    descriptor: Option<RawFd>,
}

impl Budget {
    pub(super) const UNARMED: Self = Self {
        limits: Tiers {
            device: None,
            host: None,
        },
        descriptor: None,
    };

    pub(super) fn armed(limits: Tiers, descriptor: RawFd) -> Self {
        Self {
            limits,
            descriptor: Some(descriptor),
        }
    }

    /// The limit of the category's tier; host memory that is no tensor's has none.
    pub(super) fn limit(&self, category: Category) -> Option<u64> {
        match category {
            Category::Host => None,
            Category::Offloaded => self.limits.host,
            _ => self.limits.device,
        }
    }

    /// Writes one JSON line and ends the process with [`OOM_EXIT_CODE`], if a descriptor is set. The caller holds the
    /// ledger's lock, so one thread writes one line. Neither allocates nor unwinds.
    pub(super) fn exit(&self, refusal: &Refusal) {
        let Some(descriptor) = self.descriptor else { return };
        let mut line = Line::new();
        let _ = refusal.write_json(&mut line);
        line.exit(descriptor, OOM_EXIT_CODE);
    }
}

/// A request that was not granted, with the fields of the `oom` part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) phase: Phase,
    pub(super) category: Category,
    pub(super) requested: u64,
    /// Live tensor bytes of its tier before the request.
    pub(super) allocated: u64,
    /// The budget that the request exceeded; `None` if the system refused.
    pub(super) budget: Option<u64>,
}

impl Refusal {
    fn write_json(&self, line: &mut Line) -> std::fmt::Result {
        let Self {
            requested, allocated, ..
        } = self;
        let (phase, category) = (self.phase.name(), self.category.name());
        write!(
            line,
            r#"{{"phase":"{phase}","category":"{category}","requested_bytes":{requested},"#
        )?;
        write!(line, r#""allocated_bytes":{allocated},"budget_bytes":"#)?;
        match self.budget {
            Some(budget) => writeln!(line, "{budget}}}"),
            None => writeln!(line, "null}}"),
        }
    }
}

/// A line of text without memory of the heap, long enough for every refusal. What does not fit is cut.
#[derive(Clone, Copy)]
pub(super) struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// Leaves room for so many more bytes.
    pub(super) fn cut(&mut self, room: usize) {
        self.len = self.len.min(self.bytes.len() - room);
    }

    /// Writes the line and ends the process. Neither allocates nor unwinds.
    pub(super) fn exit(&self, descriptor: RawFd, code: i32) -> ! {
        // SAFETY: the buffer outlives the call; a descriptor that is closed makes the write fail.
        unsafe {
            libc::write(descriptor, self.bytes.as_ptr().cast(), self.len);
            libc::_exit(code)
        }
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let fitting = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + fitting].copy_from_slice(&text.as_bytes()[..fitting]);
        self.len += fitting;
        match fitting == text.len() {
            true => Ok(()),
            false => Err(std::fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use records::Oom;

    use super::*;

    #[test]
    fn the_longest_refusal_fits_and_parses() {
        let refusal = Refusal {
            phase: Phase::Optimizer,
            category: Category::OptimizerState,
            requested: u64::MAX,
            allocated: u64::MAX,
            budget: Some(u64::MAX),
        };
        let mut line = Line::new();
        refusal.write_json(&mut line).unwrap();
        let oom: Oom = serde_json::from_slice(&line.bytes[..line.len]).unwrap();
        assert_eq!(
            (oom.phase.as_str(), oom.category.as_str()),
            ("optimizer", "optimizer_state")
        );
        assert_eq!(oom.budget_bytes, Some(u64::MAX));
    }
}
