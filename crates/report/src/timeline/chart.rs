//! The chart of a timeline.

use base::text::format::{self, ByteUnit};
use chart::StackedArea;
use trace::{Category, Phase};

use super::view::{Timeline, tensor_categories};

impl Timeline {
    /// The explanation of a label of several values.
    fn labelled(&self) -> String {
        let names: Vec<&str> = self
            .axes
            .keys()
            .map(|axis| axis.rsplit('.').next().unwrap_or(axis))
            .collect();
        match names.len() {
            0 | 1 => String::new(),
            _ => format!(" Label: {}.", names.join(" · ")),
        }
    }

    /// Live bytes by category over the step.
    pub(crate) fn area(&self, unit: ByteUnit) -> StackedArea {
        let used: Vec<usize> = (0..tensor_categories().count())
            .filter(|&at| self.curve.iter().any(|moment| moment.live[at] > 0.0))
            .collect();
        let categories: Vec<Category> = tensor_categories().collect();
        let moments = self.curve.iter().map(|moment| {
            let parts = used.iter().map(|&at| moment.live[at] / unit.bytes()).collect();
            (moment.seconds * 1e3, parts)
        });
        let mut phases: Vec<(f64, String)> = Vec::new();
        for moment in &self.curve {
            if phases.last().is_none_or(|(_, phase)| *phase != moment.phase) {
                phases.push((moment.seconds * 1e3, moment.phase.clone()));
            }
        }
        StackedArea {
            title: format!("Live tensor bytes over step {}: {}", self.step, self.label),
            subtitle: format!("Numbers are those of the table of peaks.{}", self.labelled()),
            x_title: "Time since the step began (ms)".into(),
            y_title: format!("Allocated ({})", unit.name()),
            legend: used
                .iter()
                .map(|&at| (categories[at].name().replace('_', " "), categories[at]))
                .collect(),
            moments: moments.collect(),
            phases: phases
                .into_iter()
                .filter(|(_, phase)| phase != Phase::Idle.name())
                .collect(),
            budget: self.budget.map(|budget| {
                (
                    budget / unit.bytes(),
                    format!("budget {}", format::bytes(budget.into())),
                )
            }),
            unit: unit.name(),
            marks: self
                .peaks
                .iter()
                .map(|peak| (peak.seconds * 1e3, peak.bytes / unit.bytes(), peak.number.to_string()))
                .collect(),
        }
    }
}
