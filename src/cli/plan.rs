//! `expctl plan SPEC...` and `expctl plan --model MODEL`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use base::text::counted;
use base::text::format::{self, or_absent};
use indexmap::IndexMap;
use plan::Options;
use plan::advice::{CellPlan, changes, cost};
use plan::fit::Found;
use records::prediction::{Prediction, Verdict};
use results::columns::predictions;
use results::trainable_share;
use serde_json::{Value, json};
use spec::Study;
use torch::gpu::Budget;

use super::cells::{cell_row, cell_table, configuration_for_people};
use super::plan_batches::worst_batches;
use super::plan_report::{PlanReport, plan_cells};
use super::prediction_view::{may_not_fit, range, range_cell, range_reasons};
use super::study_report::template_of;
use super::subject::{Subject, for_budget};
use super::{Format, exit_code, print};

/// Predict the memory of each cell of a spec, or of a model by name, without running it
///
/// Every figure is predicted: the peak of live tensor bytes, its phase, the memory between the steps, and the process.
/// A model by name is planned as a QLoRA that suits a single GPU. With a budget, from --budget or the cells'
/// device_memory, each cell fits or is oversize. For an oversize cell the plan lists the cheapest changes that make it
/// fit, each with its own prediction. Exit code 1 if a cell is oversize.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// The budget of each cell: a size such as 6GiB, or a GPU such as rtx-3090. It replaces device_memory and gpu
    #[arg(long, value_name = "SIZE|GPU")]
    budget: Option<Budget>,
    /// Do not replay the torch stack's allocations through PyTorch's allocator: faster, but without reserved memory
    #[arg(long)]
    no_replay: bool,
    /// Write the spec's report from the predictions alone, to this file or to the one that the spec names; a page if
    /// it ends in `.html`. Without a file, several specs may be given
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    report: Option<Option<PathBuf>>,
    /// Write no report; exit code 1 if it is stale
    #[arg(long, requires = "report")]
    check: bool,
    /// How the plan is printed; json and csv have every predicted_ column, json the advice too
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    fn options(&self) -> Options {
        Options {
            budget: self.budget,
            replay: !self.no_replay,
            ..Options::default()
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let output = match &args.report {
        None if args.subject.is_several() => {
            bail!("several specs are planned only with --report, each into its own report")
        }
        None => return print_plan(&for_budget(args.subject.study()?, args.budget)?, args),
        Some(Some(_)) if args.subject.is_several() => {
            bail!("--report=FILE is for one spec, and several are given")
        }
        Some(output) => output,
    };
    let mut all_fresh = true;
    for study in args.subject.studies()? {
        all_fresh &= report_plan(&for_budget(study, args.budget)?, args, output.as_deref())?;
    }
    Ok(exit_code(all_fresh))
}

/// Prints the plan; exit code 1 if a cell is oversize.
fn print_plan(study: &Study, args: &Args) -> anyhow::Result<ExitCode> {
    let plans = plan_cells(study, args.options())?;
    print(&match args.format {
        Format::Table => for_people(study, &plans),
        format => for_programs(study, &plans, format),
    })?;
    let is_oversize = |cell_plan: &CellPlan| cell_plan.prediction.verdict == Some(Verdict::Oversize);
    Ok(exit_code(!plans.iter().any(is_oversize)))
}

/// Writes or checks the report of a plan. Returns false if a check fails.
fn report_plan(study: &Study, args: &Args, output: Option<&Path>) -> anyhow::Result<bool> {
    let mut given = Vec::new();
    given.extend(args.budget.map(|budget| format!("--budget={budget}")));
    given.extend(args.no_replay.then(|| "--no-replay".to_owned()));
    given.push(match output {
        Some(file) => format!("--report={}", file.display()),
        None => "--report".into(),
    });
    let command = study.invocation.command_of("plan", &given);
    let report = PlanReport::new(study, template_of(study), (output, "--report=FILE"), command)?;
    report.write_or_check(args.options(), args.check)
}

fn for_programs(study: &Study, plans: &[CellPlan], format: Format) -> String {
    let columns = predictions();
    let names = columns.iter().map(|column| column.name.as_str());
    let configuration = study.named_configuration().unwrap_or_default();
    let keys = configuration.keys().map(String::as_str);
    let names: Vec<&str> = keys.chain(names).collect();
    let mut table = cell_table(study, &names);
    for (index, CellPlan { prediction, .. }) in plans.iter().enumerate() {
        let values = columns.iter().map(|column| json!((column.value)(prediction)));
        let values = configuration.values().cloned().chain(values);
        table.rows.push(cell_row(study, index, format, values));
    }
    if format == Format::Json {
        table.columns.push("advice".into());
        for (row, cell_plan) in table.rows.iter_mut().zip(plans) {
            row.push(cell_plan.advice.iter().map(advice_for_programs).collect());
        }
    }
    format.render(&table)
}

fn advice_for_programs(advice: &Found) -> Value {
    let columns = predictions().into_iter();
    let predicted = columns.map(|column| (column.name, json!((column.value)(&advice.prediction))));
    let mut object: serde_json::Map<String, Value> = predicted.collect();
    object.insert("changes".into(), json!(changes(advice)));
    object.insert("cost".into(), json!(cost(advice)));
    object.into()
}

fn for_people(study: &Study, plans: &[CellPlan]) -> String {
    let has_budget = plans.iter().any(|cell_plan| cell_plan.prediction.verdict.is_some());
    let has_reserved = plans
        .iter()
        .any(|cell_plan| cell_plan.prediction.reserved_peak_bytes.is_some());
    let mut columns = vec!["peak allocated", "reached in", "at rest"];
    columns.extend(has_reserved.then_some("reserved"));
    let has_range = plans.iter().any(|cell_plan| range(&cell_plan.prediction).is_some());
    columns.push("process");
    columns.extend(has_range.then_some("range"));
    columns.push("trainable");
    columns.extend(has_budget.then_some("verdict"));
    let mut table = cell_table(study, &columns);
    for (index, cell_plan) in plans.iter().enumerate() {
        let prediction = &cell_plan.prediction;
        let module = prediction.binding_module.as_deref().unwrap_or_default();
        let mut values = vec![
            json!(size(Some(prediction.allocated_peak_bytes))),
            json!(format!("{} {module}", prediction.binding_phase).trim_end()),
            json!(size(Some(prediction.allocated_mean_bytes))),
        ];
        values.extend(has_reserved.then(|| json!(size(prediction.reserved_peak_bytes))));
        values.push(json!(size(prediction.process_peak_bytes)));
        values.extend(has_range.then(|| json!(range_cell(prediction))));
        values.push(json!(trainable(study.cells[index].cell.rank, prediction)));
        values.extend(has_budget.then(|| json!(verdict(prediction))));
        table.rows.push(cell_row(study, index, Format::Table, values));
    }
    let mut text = table.aligned() + &worst_batches(study, plans);
    if let Some(configuration) = study.named_configuration() {
        text += &configuration_for_people(&configuration);
    }
    text += &range_reasons(plans.iter().map(|cell_plan| &cell_plan.prediction));
    text += &notes_for_people(study, plans);
    for note in &study.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let oversize: Vec<usize> = (0..plans.len())
        .filter(|&index| plans[index].prediction.verdict == Some(Verdict::Oversize))
        .collect();
    for &index in &oversize {
        text += &advice_for_people(&study.cells[index].id, &plans[index]);
    }
    let cells = counted(plans.len(), "cell");
    let _ = match (has_budget, oversize.len()) {
        (false, _) => writeln!(text, "\n{cells}; all figures are predicted"),
        (true, 0) => writeln!(text, "\n{cells}, all of which fit; all figures are predicted"),
        (true, over) => writeln!(text, "\n{cells}, {over} oversize; all figures are predicted"),
    };
    text
}

/// Each note once, with the cells that it is for unless that is all of them.
fn notes_for_people(study: &Study, plans: &[CellPlan]) -> String {
    let mut cells_of: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for (cell_plan, cell) in plans.iter().zip(&study.cells) {
        for note in &cell_plan.prediction.notes {
            cells_of.entry(note).or_default().push(&cell.id);
        }
    }
    let mut text = if cells_of.is_empty() {
        String::new()
    } else {
        "\n".into()
    };
    for (note, cells) in cells_of {
        let _ = match cells.len() == plans.len() {
            true => writeln!(text, "note: {note}"),
            false => writeln!(text, "note on {}: {note}", cells.join(", ")),
        };
    }
    text
}

fn advice_for_people(id: &str, cell_plan: &CellPlan) -> String {
    if cell_plan.advice.is_empty() {
        return format!("\n{id}: no change that may be made makes it fit\n");
    }
    let mut text = format!("\n{id} would fit with\n");
    for advice in &cell_plan.advice {
        let changes = changes(advice).join(", ");
        let peak = size(Some(advice.prediction.needed_bytes));
        let _ = writeln!(text, "  {changes}: {peak} ({})", cost(advice));
    }
    text
}

/// The verdict on the likely figure, and whether another one of the range is possible.
fn verdict(prediction: &Prediction) -> String {
    let certain = certain_verdict(prediction);
    match (prediction.verdict, prediction.budget_bytes) {
        (Some(Verdict::Fits), _) if may_not_fit(prediction) => format!("{certain}, or not"),
        (Some(Verdict::Oversize), Some(budget))
            if prediction.past_host_budget().is_none() && prediction.needed_low_bytes <= Some(budget) =>
        {
            format!("{certain}, or fits")
        }
        _ => certain,
    }
}

fn certain_verdict(prediction: &Prediction) -> String {
    match (prediction.verdict, prediction.budget_bytes) {
        (Some(Verdict::Fits), Some(budget)) => {
            let share = prediction.needed_bytes as f64 / budget as f64;
            format!("fits ({:.0} %)", 100.0 * share)
        }
        (Some(Verdict::Oversize), _) if prediction.past_host_budget().is_some() => {
            format!("oversize by {} on the host", size(prediction.past_host_budget()))
        }
        (Some(Verdict::Oversize), Some(budget)) => {
            let over = prediction.needed_bytes.saturating_sub(budget);
            format!("oversize by {}", size(Some(over)))
        }
        _ => format::ABSENT.into(),
    }
}

/// The number of trained weights, and their share of all.
fn trainable(rank: usize, prediction: &Prediction) -> String {
    let (all, trained) = (prediction.parameter_count as f64, prediction.trainable_count as f64);
    let share = or_absent(trainable_share(rank as u64, all, trained), format::percent);
    format!("{} ({share})", format::number(trained.into(), 0))
}

fn size(bytes: Option<u64>) -> String {
    or_absent(bytes, format::bytes)
}
