//! `expctl validate SPEC`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use base::text::{counted, to_flow_yaml};
use indexmap::{IndexMap, IndexSet};
use runner::{Purpose, Worker, preflight};
use spec::{Overrides, Study};

use super::fetch::fetch;
use super::print;
use super::requirements::check_requirements;

const EXAMPLES: &str = "Examples:
  expctl validate experiments/rank_sweep.yaml
  expctl validate experiments/quickstart.yaml --set max_steps=3";

/// Check a spec without running it: every key, every value, every combination, and that its
/// models and data are there
///
/// Prints the study's name, its cells and its axes. Exit code 2 if something is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The spec, a YAML file
    spec: PathBuf,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut study = spec::load(&args.spec, &Overrides::from_environment(args.set)?)?;
    report::check_study(&study)?;
    check_requirements(&study)?;
    fetch(&mut study, Purpose::Check, |_| true)?;
    let machine = Worker::this_program().and_then(|worker| worker.machine());
    study.notes.extend(preflight(
        &study,
        Some(&machine.context("cannot ask the worker for its machine")?),
        |_| true,
    )?);
    print(&summary(&study))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(study: &Study) -> String {
    const MOST_VALUES: usize = 12;
    let mut out = format!("{}: {}", study.name, counted(study.cells.len(), "cell"));
    if study.repeats > 1 {
        let settings: HashSet<String> = study
            .cells
            .iter()
            .map(|study_cell| study_cell.cell.group_id())
            .collect();
        let settings = counted(settings.len(), "setting");
        let _ = write!(out, " ({settings} with {} seeds each)", study.repeats);
    }
    out.push('\n');
    let width = study.axes.iter().map(String::len).max().unwrap_or(0);
    for (axis, values) in axes(study) {
        let shown: Vec<&str> = values.iter().take(MOST_VALUES).map(String::as_str).collect();
        let more = values.len().saturating_sub(MOST_VALUES);
        let _ = write!(out, "  {axis:<width$}  {}", shown.join(", "));
        let _ = if more > 0 {
            writeln!(out, ", and {more} more")
        } else {
            writeln!(out)
        };
    }
    for note in &study.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// The different values of each axis, in the order in which they first come.
fn axes(study: &Study) -> IndexMap<&str, IndexSet<String>> {
    let mut axes: IndexMap<&str, IndexSet<String>> =
        study.axes.iter().map(|axis| (axis.as_str(), IndexSet::new())).collect();
    for study_cell in &study.cells {
        for (axis, value) in study_cell.heeded_axes() {
            if let Some(values) = axes.get_mut(axis.as_str()) {
                values.insert(to_flow_yaml(value));
            }
        }
    }
    axes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_summary_shows_cells_axes_and_notes() {
        let text = "name: x\nsweep: {grid: {rank: [4, 8], gradient_checkpointing: [none, {every: 2}], seed: [1, 2]}}";
        let overrides = Overrides::new([], vec!["seed=3".into()]);
        let study = spec::parse(Path::new("x.yaml"), text, &overrides).unwrap();
        let expected = "\
x: 4 cells
  rank                    4, 8
  gradient_checkpointing  none, {every: 2}
note: --set seed=3 fixes the axis seed
";
        assert_eq!(summary(&study), expected);
    }
}
