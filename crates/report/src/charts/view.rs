//! The groups of a study as charts see them: measured or, in a plan, predicted.

use base::text::format::{self, ByteUnit};

use crate::group::Group;
use crate::labels::distinct;

/// A column of memory, and its name in titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) column: &'static str,
    pub(super) name: &'static str,
}

pub(super) const ALLOCATED: Memory = Memory {
    column: "allocated_peak_bytes",
    name: "Peak allocated",
};
pub(super) const RESERVED: Memory = Memory {
    column: "reserved_peak_bytes",
    name: "Peak reserved",
};
pub(super) const PROCESS: Memory = Memory {
    column: "process_peak_bytes",
    name: "Peak process",
};

/// The relative range of reserved and process memory that repeats of one cell have. Allocated memory has none.
const NOISE: f64 = 0.02;

/// The groups of a study.
pub(super) struct View<'a> {
    pub(super) groups: &'a [Group],
    pub(super) axes: &'a [String],
    /// The unit of all memory.
    pub(super) unit: ByteUnit,
    is_predicted: bool,
}

impl<'a> View<'a> {
    /// A view of measured values or, if no cell ran, of predicted ones.
    pub(super) fn new(groups: &'a [Group], axes: &'a [String], unit: ByteUnit) -> Self {
        let cells = || groups.iter().flat_map(|group| &group.cells);
        Self {
            is_predicted: cells().all(|cell| matches!(cell.text("status"), None | Some("planned"))),
            groups,
            axes,
            unit,
        }
    }

    /// A column of a group.
    pub(super) fn value(&self, group: &Group, column: &str) -> Option<f64> {
        let value = if self.is_predicted {
            group.predicted.get(column).copied().flatten().map(|stat| stat.mean)
        } else {
            group.mean(column)
        };
        value.filter(|value| value.is_finite())
    }

    /// The deviation of a measured column over the repeats of a group.
    pub(super) fn deviation(&self, group: &Group, column: &str) -> Option<f64> {
        let stat = group.stats.get(column).copied().flatten();
        stat.and_then(|stat| stat.deviation)
            .filter(|deviation| *deviation > 0.0)
    }

    /// The groups that have all of these columns.
    pub(super) fn having(&self, columns: &[&str]) -> Vec<&'a Group> {
        let has_all = |group: &&Group| columns.iter().all(|column| self.value(group, column).is_some());
        self.groups.iter().filter(has_all).collect()
    }

    /// True if a column of memory differs between groups by more than repeats would.
    pub(super) fn varies(&self, memory: Memory) -> bool {
        let values = || self.groups.iter().filter_map(|group| self.value(group, memory.column));
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let noise = if memory == ALLOCATED { 0.0 } else { NOISE };
        values().count() > 1 && high - low > noise * high
    }

    /// True if an axis is a setting of the allocator.
    pub(super) fn sets_allocator(&self) -> bool {
        self.axes.iter().any(|axis| axis.starts_with("allocator."))
    }

    /// The memory that the study varies: allocated, or else what holds it. A study of the allocator is about reserved
    /// memory.
    pub(super) fn memory(&self) -> Result<Memory, String> {
        self.measured()?;
        let all = match self.sets_allocator() {
            true => [RESERVED, PROCESS, ALLOCATED],
            false => [ALLOCATED, RESERVED, PROCESS],
        };
        let varying = all.into_iter().find(|memory| self.varies(*memory));
        varying.ok_or_else(|| match self.having(&[ALLOCATED.column]).len() {
            1 => format!("only one cell was {}", self.participle()),
            _ => "memory is the same in all cells".into(),
        })
    }

    /// An error if no group has any memory.
    pub(super) fn measured(&self) -> Result<(), String> {
        match self.having(&[ALLOCATED.column])[..] {
            [] => Err("no cell was measured".into()),
            _ => Ok(()),
        }
    }

    fn participle(&self) -> &'static str {
        if self.is_predicted { "predicted" } else { "measured" }
    }

    /// A title, which says it if the values are predicted.
    pub(super) fn title(&self, text: &str) -> String {
        match text.chars().next().filter(|_| self.is_predicted) {
            Some(first) => format!("Predicted {}{}", first.to_lowercase(), &text[first.len_utf8()..]),
            None => text.to_owned(),
        }
    }

    /// A subtitle, which says it if the values are predicted.
    pub(super) fn subtitle(&self, text: &str) -> String {
        if self.is_predicted {
            format!("Computed from shapes, not measured. {text}")
        } else {
            text.to_owned()
        }
    }

    /// Bytes in the unit of the study, as a number.
    pub(super) fn in_unit(&self, bytes: f64) -> f64 {
        bytes / self.unit.bytes()
    }

    /// Bytes in words, in the unit of the study: a chart has one.
    pub(super) fn said(&self, bytes: f64) -> String {
        format!("{} {}", format::bytes_in(bytes.into(), self.unit), self.unit.name())
    }

    /// The title of a scale of memory.
    pub(super) fn scale(&self, name: &str) -> String {
        format!("{name} ({})", self.unit.name())
    }
}

/// The most rows of a chart.
const MAX_ROWS: usize = 40;

/// An error if a chart with a row for each group would be too high.
pub(super) fn few_enough(groups: &[&Group]) -> Result<(), String> {
    match groups.len() {
        n if n > MAX_ROWS => Err(format!("{n} cells are more than the {MAX_ROWS} that a chart shows")),
        _ => Ok(()),
    }
}

/// The axes in which the groups of a chart differ. A failed group, which is not shown, may be the only different one.
pub(super) fn varying<'a>(shown: &[&Group], axes: &'a [String]) -> Vec<&'a String> {
    axes.iter().filter(|axis| distinct(shown, axis) > 1).collect()
}
