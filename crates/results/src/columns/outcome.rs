//! The columns that records fill. A new measured figure gets a line here.

use records::{Measured, Oom, Profile, Record, Retried};
use trace::{Category, Phase};

use super::kind::Kind;
use super::names::{category_column, phase_column, profile_column};
use crate::datum::Datum;

/// A column that records fill.
pub struct Outcome {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub kind: Kind,
    /// The value of a record.
    pub value: Box<dyn Fn(&Record) -> Datum>,
    /// True for a time or speed of training, which says nothing where cells shared the machine.
    pub is_speed: bool,
}

fn outcome<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Record) -> T + 'static) -> Outcome {
    Outcome {
        name: name.to_string(),
        kind,
        value: Box::new(move |record| value(record).into()),
        is_speed: false,
    }
}

fn measured<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Measured) -> T + 'static) -> Outcome {
    outcome(name, kind, move |record| record.measured.as_ref().map(&value))
}

/// A time or speed, unless other cells trained beside this one.
fn speed<T: Into<Datum>>(name: &str, value: impl Fn(&Measured) -> T + 'static) -> Outcome {
    let alone = move |record: &Record| {
        record
            .measured
            .as_ref()
            .filter(|_| record.concurrent_cells == 1)
            .map(&value)
    };
    Outcome {
        is_speed: true,
        ..outcome(name, Kind::Float, alone)
    }
}

fn profile<T: Into<Datum>>(component: &str, value: impl Fn(&Profile) -> T + 'static) -> Outcome {
    measured(&profile_column(component), Kind::Int, move |measured| {
        measured.profile.as_ref().map(&value)
    })
}

fn oom<T: Into<Datum>>(name: &str, kind: Kind, value: impl Fn(&Oom) -> T + 'static) -> Outcome {
    outcome(name, kind, move |record| record.oom.as_ref().map(&value))
}

/// The columns that records fill, in the frame's order. They follow the keys of the cell.
pub fn outcomes() -> Vec<Outcome> {
    use Kind::{Float, Int, Text};
    let mut columns = vec![
        measured("loss_first", Float, |m| m.loss_first),
        measured("loss_last", Float, |m| m.loss_last),
        measured("loss_eval", Float, |m| m.loss_eval),
        measured("accuracy_eval", Float, |m| m.accuracy_eval),
        measured("forgetting", Float, |m| m.forgetting.map(|losses| losses.rise())),
        measured("forgetting_before", Float, |m| m.forgetting.map(|losses| losses.before)),
        measured("forgetting_after", Float, |m| m.forgetting.map(|losses| losses.after)),
        measured("samples_short", Int, |m| m.samples_left_out.map(|out| out.short)),
        measured("samples_cut", Int, |m| m.samples_left_out.map(|out| out.cut)),
        measured("samples_without_targets", Int, |m| {
            m.samples_left_out.map(|out| out.without_targets)
        }),
        measured("steps", Int, |m| m.steps),
        measured("tokens", Int, |m| m.tokens),
        measured("real_tokens", Int, |m| m.real_tokens),
        measured("steps_timed", Int, |m| m.steps_timed),
        speed("step_seconds_median", |m| m.step_seconds_median),
        speed("step_seconds_spread", |m| m.step_seconds_spread),
        speed("tokens_per_second", |m| m.tokens_per_second),
        speed("real_tokens_per_second", |m| m.real_tokens_per_second),
        speed("train_seconds", |m| m.train_seconds),
        speed("load_seconds", |m| m.load_seconds),
        outcome("wall_seconds", Float, |r| r.wall_seconds),
        outcome("concurrent_cells", Int, |r| r.concurrent_cells),
        measured("allocated_peak_bytes", Int, |m| m.allocated_peak_bytes),
        measured("reserved_peak_bytes", Int, |m| m.reserved_peak_bytes),
        measured("process_peak_bytes", Int, |m| m.process_peak_bytes),
        measured("allocated_peak_phase", Text, |m| m.allocated_peak_phase.clone()),
        measured("allocated_peak_module", Text, |m| m.allocated_peak_module.clone()),
        measured("allocated_peak_by_epoch", Text, |m| {
            let peaks = m.allocated_peak_by_epoch.as_ref();
            peaks.map_or(Datum::Null, |peaks| Datum::flow(&serde_json::json!(peaks)))
        }),
    ];
    for category in Category::ALL.map(Category::name) {
        columns.push(measured(&category_column(category), Int, move |m| {
            m.allocated_peak_by_category.get(category).copied()
        }));
    }
    for phase in Phase::ALL.map(Phase::name) {
        columns.push(measured(&phase_column(phase), Int, move |m| {
            m.allocated_peak_in_phase.get(phase).copied()
        }));
    }
    columns.extend([
        measured("process_peak_total_bytes", Int, |m| m.process_peak_total_bytes),
        measured("allocated_mean_bytes", Int, |m| m.allocated_mean_bytes),
        measured("allocated_min_bytes", Int, |m| m.allocated_min_bytes),
        measured("memory_efficiency", Float, |m| m.memory_efficiency),
        measured("system_used_peak_percent", Float, |m| m.system_used_peak_percent),
        measured("emptied_mean_bytes", Int, |m| m.emptied_mean_bytes),
        measured("host_allocated_peak_bytes", Int, |m| m.host_allocated_peak_bytes),
        measured("copied_mean_bytes", Int, |m| m.copied_mean_bytes),
        speed("copy_wait_seconds_mean", |m| m.copy_wait_seconds_mean),
        profile("parameter", |p| p.parameter_bytes),
        profile("adapter", |p| p.adapter_bytes),
        profile("optimizer_state", |p| p.optimizer_state_bytes),
        profile("activation", |p| p.activation_bytes),
        profile("gradient", |p| p.gradient_bytes),
        profile("total", |p| p.total_bytes),
        profile("allocated", |p| p.allocated_bytes),
        profile("peak", |p| p.peak_bytes),
        profile("module_outputs", |p| p.module_outputs_bytes),
        measured("page_faults", Int, |m| m.page_faults),
        measured("page_faults_per_step_median", Float, |m| m.page_faults_per_step_median),
        measured("parameter_count", Int, |m| m.parameter_count),
        measured("trainable_count", Int, |m| m.trainable_count),
        measured("adapter_file_bytes", Int, |m| m.adapter_file_bytes),
        outcome("machine_cpu", Text, |r| {
            r.provenance.machine.as_ref().map(|m| m.cpu.clone())
        }),
        outcome("machine_cores", Int, |r| r.provenance.machine.as_ref().map(|m| m.cores)),
        outcome("machine_memory_bytes", Int, |r| {
            r.provenance.machine.as_ref().and_then(|m| m.memory_bytes)
        }),
        outcome("machine_os", Text, |r| {
            r.provenance.machine.as_ref().map(|m| m.os.clone())
        }),
        outcome("environment", Text, |r| {
            Datum::flow(&serde_json::json!(r.provenance.environment))
        }),
        outcome("releases", Text, |r| {
            let releases = &r.provenance.releases;
            let told = releases.iter().map(|(name, release)| format!("{name} {release}"));
            (!releases.is_empty()).then(|| told.collect::<Vec<_>>().join(", "))
        }),
        outcome("data_sha256", Text, |r| r.provenance.data_sha256.clone()),
        outcome("started_at", Text, |r| r.started_at.clone()),
        outcome("expctl_version", Text, |r| r.provenance.expctl_version.clone()),
        outcome("sources", Text, |r| r.provenance.sources.clone()),
        outcome("git_commit", Text, |r| r.provenance.git_commit.clone()),
        outcome("reason", Text, |r| r.reason.clone()),
        outcome("retried", Text, |r| {
            let told = |earlier: &Retried| format!("attempt {}: {}", earlier.attempt, earlier.reason);
            let all: Vec<String> = r.retried.iter().map(told).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }),
        outcome("timeout_seconds", Float, |r| r.timeout_seconds),
        oom("oom_phase", Text, |o| o.phase.clone()),
        oom("oom_category", Text, |o| o.category.clone()),
        oom("oom_requested_bytes", Int, |o| o.requested_bytes),
        oom("oom_allocated_bytes", Int, |o| o.allocated_bytes),
        oom("oom_budget_bytes", Int, |o| o.budget_bytes),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use base::text::Dimension;

    use super::*;
    use crate::columns::dimension;

    #[test]
    fn every_measured_column_has_its_dimension() {
        let of = |wanted| {
            let numbers = outcomes()
                .into_iter()
                .filter(|outcome| matches!(outcome.kind, Kind::Int | Kind::Float));
            numbers
                .map(|outcome| outcome.name)
                .filter(move |column| dimension(column) == wanted)
        };
        assert!(of(Dimension::Memory).count() > 10);
        assert_eq!(
            of(Dimension::Speed).collect::<Vec<_>>(),
            ["tokens_per_second", "real_tokens_per_second"]
        );
        assert!(of(Dimension::Time).all(|column| column.contains("seconds")));
        assert!(of(Dimension::Number).any(|column| column == "loss_last"));
    }
}
