//! `expctl plan SPEC...` and `expctl plan --model MODEL`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use base::text::counted;
use base::text::format::{self, or_absent};
use clap::ValueEnum;
use indexmap::IndexMap;
use plan::advice::{CellPlan, changes, cost};
use plan::fit::Found;
use plan::variants::variants;
use plan::{Options, Planner};
use records::prediction::Judgement;
use results::columns::predictions;
use serde_json::{Value, json};
use spec::Study;

use super::cells::{cell_row, cell_table, configuration_for_people};
use super::plan_answer::Answer;
use super::plan_batches::worst_batches;
use super::plan_gate::{Planned, junit, sarif};
use super::plan_report::{PlanReport, plan_cells};
use super::prediction_view::{range, range_cell, range_reasons, trainable, verdict};
use super::screen::wrapped;
use super::study_report::template_of;
use super::subject::Subject;
use super::{Format, exit_code, fits_or_not, print};
use super::{plan_oom, plan_oom_alone};

/// Predict the memory of each cell of a spec, or of a model by name, without running it
///
/// Every figure is predicted. A model by name is planned for PyTorch's stack with a recipe; --set changes it. The
/// answer says whether it fits, what the memory is for, what is uncertain, and what others do differently. With several
/// cells it is a table. For a cell that does not fit the plan lists the cheapest changes that make it fit, each with its
/// own prediction. Exit code 3 if a cell does not fit.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
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
    /// PyTorch's message that memory ran out, a file such as a log that has it, or - for the standard input. The answer
    /// says which tensor of the plan it was, what does not agree, and what would have fit. Without a spec and --model, it
    /// says what has so many bytes
    #[arg(long, value_name = "TEXT|FILE|-", conflicts_with_all = ["report", "format"])]
    oom: Option<String>,
    /// How the plan is printed; json and csv have every predicted_ column, json the advice too
    #[arg(long, value_enum, default_value_t = PlanFormat::Table)]
    format: PlanFormat,
}

/// The format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// An answer, or aligned columns, for people
    Table,
    /// An array of objects
    Json,
    /// Comma-separated values with a header
    Csv,
    /// SARIF 2.1.0 for code scanning: a result for each cell that does not fit
    Sarif,
    /// JUnit's XML: a test for each cell
    Junit,
}

const EXAMPLES: &str = "Examples:
  expctl plan --model llama-3.1-8b --gpu 4090 --set max_seq_length=4096
  expctl plan experiments/rank_sweep.yaml --budget 512MiB";

impl Args {
    fn options(&self) -> Options {
        Options {
            replay: !self.no_replay,
            ..self.subject.options()
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(given) = &args.oom {
        return print_oom(given, args);
    }
    let studies = args.subject.studies()?;
    let mut all_hold = true;
    let several = studies.len() > 1;
    match &args.report {
        Some(Some(_)) if several => bail!("--report=FILE is for one spec, and several are given"),
        Some(output) => {
            for study in studies {
                all_hold &= report_plan(&args.subject.on_device(study, args.options())?, args, output.as_deref())?;
            }
            Ok(exit_code(all_hold))
        }
        None => {
            let studies = studies
                .into_iter()
                .map(|study| args.subject.on_device(study, args.options()));
            print_plans(&studies.collect::<Result<Vec<_>, _>>()?, args)
        }
    }
}

/// Prints the plans; exit code 3 if a cell does not fit.
fn print_plans(studies: &[Study], args: &Args) -> anyhow::Result<ExitCode> {
    match args.format {
        PlanFormat::Json if studies.len() > 1 => bail!("give one spec for --format json"),
        PlanFormat::Csv if studies.len() > 1 => bail!("give one spec for --format csv"),
        _ => {}
    }
    let planners: Vec<Planner> = studies
        .iter()
        .map(|study| Planner::new(study.roots(), args.options()))
        .collect();
    let mut plans = Vec::new();
    for (study, planner) in studies.iter().zip(&planners) {
        plans.push(plan_cells(study, planner)?);
    }
    let all = || studies.iter().zip(&planners).zip(&plans);
    let gate = || -> Vec<Planned<'_>> {
        let planned = all().map(|((study, planner), plans)| Planned {
            study,
            plans,
            headrooms: study
                .cells
                .iter()
                .map(|study_cell| planner.headroom(&study_cell.cell))
                .collect(),
        });
        planned.collect()
    };
    let text = match args.format {
        PlanFormat::Sarif => sarif(&gate()),
        PlanFormat::Junit => junit(&gate()),
        format => {
            let texts = all().map(|((study, planner), plans)| match format {
                PlanFormat::Json => for_programs(study, planner, plans, Format::Json),
                PlanFormat::Csv => for_programs(study, planner, plans, Format::Csv),
                _ if studies.len() > 1 => {
                    format!("{}\n{}", study.invocation.source(), for_people(study, planner, plans))
                }
                _ => for_people(study, planner, plans),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    };
    print(&text)?;
    let is_oversize = |cell_plan: &CellPlan| cell_plan.prediction.is_oversize();
    Ok(fits_or_not(!plans.iter().flatten().any(is_oversize)))
}

/// Prints what a message of PyTorch tells.
fn print_oom(given: &str, args: &Args) -> anyhow::Result<ExitCode> {
    let messages = plan_oom::read(given)?;
    let text = if args.subject.is_nothing() {
        args.subject.check_alone()?;
        plan_oom_alone::compatible_with(&messages)
    } else {
        let studies = args.subject.studies()?.into_iter();
        let studies = studies.map(|study| args.subject.on_device(study, args.options()));
        plan_oom::explain(&studies.collect::<Result<Vec<_>, _>>()?, &messages, args.options())?
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes or checks the report of a plan. Returns false if a check fails.
fn report_plan(study: &Study, args: &Args, output: Option<&Path>) -> anyhow::Result<bool> {
    let mut given = args.subject.device_arguments();
    given.extend(args.no_replay.then(|| "--no-replay".to_owned()));
    given.push(match output {
        Some(file) => format!("--report={}", file.display()),
        None => "--report".into(),
    });
    let command = study.invocation.command_of("plan", &given);
    let report = PlanReport::new(study, template_of(study), (output, "--report=FILE"), command)?;
    report.write_or_check(args.options(), args.check)
}

fn for_programs(study: &Study, planner: &Planner, plans: &[CellPlan], format: Format) -> String {
    let columns = predictions();
    let names = columns.iter().map(|column| column.name.as_str());
    let configuration = study.named_configuration().unwrap_or_default();
    let keys = configuration.keys().map(String::as_str);
    let beside = ["judgement", "step_flops", "step_seconds_low", "step_seconds_high"];
    let names: Vec<&str> = keys.chain(beside).chain(names).collect();
    let mut table = cell_table(study, &names);
    for (index, CellPlan { prediction, .. }) in plans.iter().enumerate() {
        let values = columns.iter().map(|column| json!((column.value)(prediction)));
        let judgement = prediction.judgement(planner.headroom(&study.cells[index].cell));
        let speed = planner.speed(&study.cells[index].cell);
        let beside = [
            json!(judgement.map(Judgement::words)),
            json!(speed.map(|speed| speed.flops)),
            json!(speed.map(|speed| speed.seconds[0])),
            json!(speed.map(|speed| speed.seconds[1])),
        ];
        let values = beside.into_iter().chain(values);
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

fn for_people(study: &Study, planner: &Planner, plans: &[CellPlan]) -> String {
    let mut text = match (study.cells.as_slice(), plans) {
        ([study_cell], [plan]) => {
            let answer = Answer {
                study_cell,
                plan,
                variants: &variants(planner, &study_cell.cell),
                headroom: planner.headroom(&study_cell.cell),
                speed: planner.speed(&study_cell.cell),
            };
            answer.text()
        }
        _ => {
            let predictions = plans.iter().map(|cell_plan| &cell_plan.prediction);
            table(study, planner, plans) + &range_reasons(predictions)
        }
    };
    text += &worst_batches(study, plans);
    text += &notes_for_people(study, plans);
    for note in &study.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let oversize: Vec<usize> = (0..plans.len())
        .filter(|&index| plans[index].prediction.is_oversize())
        .collect();
    for &index in &oversize {
        text += &advice_for_people(study, index, &plans[index]);
    }
    if let Some(configuration) = study.named_configuration() {
        text += &configuration_for_people(&configuration);
    }
    let cells = match study.cells.as_slice() {
        [study_cell] => format!("cell {}", study_cell.id),
        cells => counted(cells.len(), "cell"),
    };
    let has_budget = plans.iter().any(|cell_plan| cell_plan.prediction.verdict.is_some());
    let _ = match (has_budget && plans.len() > 1, oversize.len()) {
        (false, _) => writeln!(text, "\n{cells}; all figures are predicted"),
        (true, 0) => writeln!(text, "\n{cells}, none of which is oversize; all figures are predicted"),
        (true, over) => writeln!(text, "\n{cells}, {over} oversize; all figures are predicted"),
    };
    text
}

/// A row for each cell: what tells it apart, the verdict, then the figures.
fn table(study: &Study, planner: &Planner, plans: &[CellPlan]) -> String {
    let predictions = || plans.iter().map(|cell_plan| &cell_plan.prediction);
    let has_budget = predictions().any(|prediction| prediction.verdict.is_some());
    let has_reserved = predictions().any(|prediction| prediction.reserved_peak_bytes.is_some());
    let has_range = predictions().any(|prediction| range(prediction).is_some());
    let mut columns = Vec::new();
    columns.extend(has_budget.then_some("verdict"));
    columns.push("needs");
    columns.extend(has_range.then_some("range"));
    columns.push("allocated");
    columns.extend(has_reserved.then_some("reserved"));
    columns.extend(["at rest", "peak in", "trainable"]);
    let mut table = cell_table(study, &columns);
    for (index, prediction) in predictions().enumerate() {
        let cell = &study.cells[index].cell;
        let module = prediction.binding_module.as_deref().unwrap_or_default();
        let mut values = Vec::new();
        values.extend(has_budget.then(|| json!(verdict(prediction, planner.headroom(cell)).0)));
        values.push(json!(size(Some(prediction.needed_bytes))));
        values.extend(has_range.then(|| json!(range_cell(prediction))));
        values.push(json!(size(Some(prediction.allocated_peak_bytes))));
        values.extend(has_reserved.then(|| json!(size(prediction.reserved_peak_bytes))));
        values.push(json!(size(Some(prediction.allocated_mean_bytes))));
        values.push(json!(format!("{} {module}", prediction.binding_phase).trim_end()));
        values.push(json!(trainable(cell.rank, prediction)));
        table.rows.push(cell_row(study, index, Format::Table, values));
    }
    table.aligned()
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
            true => writeln!(text, "{}", wrapped(&format!("note: {note}"), 2)),
            false => writeln!(text, "{}", wrapped(&format!("note on {}: {note}", cells.join(", ")), 2)),
        };
    }
    text
}

fn advice_for_people(study: &Study, index: usize, cell_plan: &CellPlan) -> String {
    let cell = match study.cells.len() {
        1 => "it".to_owned(),
        _ => study.cells[index].id.clone(),
    };
    if cell_plan.advice.is_empty() {
        return format!("\n{cell}: no change that may be made makes it fit\n");
    }
    let mut text = format!("\n{cell} would fit with\n");
    for advice in &cell_plan.advice {
        let changes = changes(advice).join(", ");
        let peak = size(Some(advice.prediction.needed_bytes));
        let line = wrapped(&format!("{changes}: {peak} ({})", cost(advice)), 4);
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn size(bytes: Option<u64>) -> String {
    or_absent(bytes, format::bytes)
}
