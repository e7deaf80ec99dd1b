//! `expctl plan SPEC...` and `expctl plan --model MODEL`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use base::text::format::{self, or_absent};
use base::text::{Table, counted};
use clap::ValueEnum;
use indexmap::{IndexMap, IndexSet};
use plan::advice::{CellPlan, changes, cost};
use plan::fit::Found;
use plan::variants::variants;
use plan::{Options, Planner};
use records::prediction::Judgement;
use results::columns::predictions;
use serde_json::{Value, json};
use spec::Study;

use super::cells::{axis_cells, axis_names, cell_row, cell_table, configuration_for_people};
use super::plan_answer::Answer;
use super::plan_batches::worst_batches;
use super::plan_gate::{Planned, junit, sarif};
use super::plan_report::{PlanReport, plan_cells};
use super::prediction_view::{range, range_cell, range_reason, trainable, verdict};
use super::screen::{judged, screen_width, wrapped};
use super::study_report::template_of;
use super::subject::Subject;
use super::{Format, exit_code, fits_or_not, print};
use super::{plan_oom, plan_oom_alone};

/// Predict the memory of each cell of a spec, or of a model by name, without running it
///
/// Every figure is predicted. A model by name is planned for PyTorch's stack with a recipe; --set changes it. The
/// answer says whether it fits, what the memory is for, what is uncertain, and what others do differently. With several
/// cells it is a table. For a cell that does not fit, or may not, the plan lists the cheapest changes that make it fit, each with its
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
    /// An array of objects; of several specs, `name` is that of the cell's spec
    Json,
    /// Comma-separated values with a header; of several specs, as in json
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
        PlanFormat::Json | PlanFormat::Csv => {
            let format = match args.format {
                PlanFormat::Json => Format::Json,
                _ => Format::Csv,
            };
            let tables = all().map(|((study, planner), plans)| for_programs(study, planner, plans, format));
            format.render(&together(studies, tables.collect()))
        }
        PlanFormat::Table => {
            let texts = all().map(|((study, planner), plans)| match studies.len() {
                1 => for_people(study, planner, plans),
                _ => format!("{}\n{}", study.invocation.source(), for_people(study, planner, plans)),
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

fn for_programs(study: &Study, planner: &Planner, plans: &[CellPlan], format: Format) -> Table {
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
    table
}

/// One table of those of several studies, whose rows begin with the name of their study. What a study has no column for is
/// null.
fn together(studies: &[Study], mut tables: Vec<Table>) -> Table {
    if tables.len() == 1 {
        return tables.remove(0);
    }
    let columns: IndexSet<String> = tables.iter().flat_map(|table| table.columns.clone()).collect();
    let mut all = Table::new(std::iter::once("name".to_owned()).chain(columns.clone()));
    for (study, table) in studies.iter().zip(tables) {
        for row in table.rows {
            let values: IndexMap<&String, Value> = table.columns.iter().zip(row).collect();
            let row = columns
                .iter()
                .map(|column| values.get(column).cloned().unwrap_or_default());
            all.rows
                .push(std::iter::once(study.name.clone().into()).chain(row).collect());
        }
    }
    all
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
        _ => table(study, planner, plans) + &ranges_for_people(study, plans),
    };
    text += &worst_batches(study, plans);
    text += &notes_for_people(study, plans);
    for note in &study.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (index, plan) in plans.iter().enumerate() {
        if plan.prediction.needs_change() {
            text += &advice_for_people(study, index, plan);
        }
    }
    let oversize = plans.iter().filter(|plan| plan.prediction.is_oversize()).count();
    if let Some(configuration) = study.named_configuration() {
        text += &configuration_for_people(&configuration);
    }
    let cells = match study.cells.as_slice() {
        [study_cell] => format!("cell {}", study_cell.id),
        cells => counted(cells.len(), "cell"),
    };
    let has_budget = plans.iter().any(|cell_plan| cell_plan.prediction.verdict.is_some());
    let _ = match (has_budget && plans.len() > 1, oversize) {
        (false, _) => writeln!(text, "\n{cells}; all figures are predicted"),
        (true, 0) => writeln!(text, "\n{cells}, none of which is oversize; all figures are predicted"),
        (true, over) => writeln!(text, "\n{cells}, {over} oversize; all figures are predicted"),
    };
    text
}

/// A row for each cell: the verdict and what is needed, which a narrow terminal shows, then what tells it apart.
fn table(study: &Study, planner: &Planner, plans: &[CellPlan]) -> String {
    let predictions = || plans.iter().map(|cell_plan| &cell_plan.prediction);
    let has_budget = predictions().any(|prediction| prediction.verdict.is_some());
    let has_reserved = predictions().any(|prediction| prediction.reserved_peak_bytes.is_some());
    let has_range = predictions().any(|prediction| range(prediction).is_some());
    let mut columns = Vec::new();
    columns.extend(has_budget.then_some("verdict"));
    columns.push("needs");
    columns.extend(has_range.then_some("range"));
    columns.extend(axis_names(study));
    columns.push("allocated");
    columns.extend(has_reserved.then_some("reserved"));
    columns.extend(["at rest", "peak in", "trainable", "cell"]);
    let mut table = Table::new(columns);
    let mut judgements = Vec::new();
    for (study_cell, prediction) in study.cells.iter().zip(predictions()) {
        let cell = &study_cell.cell;
        let module = prediction.binding_module.as_deref().unwrap_or_default();
        let (verdict, judgement) = verdict(prediction, planner.headroom(cell));
        judgements.push(judgement);
        let mut row = Vec::new();
        row.extend(has_budget.then(|| json!(verdict)));
        row.push(json!(size(Some(prediction.needed_bytes))));
        row.extend(has_range.then(|| json!(range_cell(prediction))));
        row.extend(axis_cells(study, study_cell, Format::Table));
        row.push(json!(size(Some(prediction.allocated_peak_bytes))));
        row.extend(has_reserved.then(|| json!(size(prediction.reserved_peak_bytes))));
        row.push(json!(size(Some(prediction.allocated_mean_bytes))));
        row.push(json!(format!("{} {module}", prediction.binding_phase).trim_end()));
        row.push(json!(trainable(cell.rank, prediction)));
        row.push(json!(study_cell.id));
        table.rows.push(row);
    }
    let aligned = table.within(screen_width());
    let mut lines = aligned.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    // The verdicts are in the first block of a table that is wider than the screen.
    for (index, line) in lines.enumerate() {
        let judgement = judgements.get(index).copied().flatten();
        let coloured = judgement.map(|judgement| {
            let words = judgement.words();
            line.replacen(words, &judged(words, judgement), 1)
        });
        let _ = writeln!(text, "{}", coloured.as_deref().unwrap_or(line));
    }
    text
}

/// What the ranges depend on.
fn ranges_for_people(study: &Study, plans: &[CellPlan]) -> String {
    let reasons = plans.iter().map(|cell_plan| range_reason(&cell_plan.prediction));
    let cells = study.cells.iter().map(|study_cell| study_cell.id.as_str());
    let reasons: Vec<(String, &str)> = reasons
        .zip(cells)
        .filter_map(|(reason, id)| Some((reason?, id)))
        .collect();
    let all = reasons.len();
    let reasons = reasons.iter().map(|(reason, id)| (reason.as_str(), *id));
    once_each(reasons, all, |cells, reason| match cells {
        None => format!("range: by the {reason}"),
        Some(cells) => format!("range of {cells}: by the {reason}"),
    })
}

/// Each note once, with the cells that it is for.
fn notes_for_people(study: &Study, plans: &[CellPlan]) -> String {
    let cells = plans.iter().zip(&study.cells);
    let notes = cells.flat_map(|(cell_plan, cell)| {
        let notes = cell_plan.prediction.notes.iter();
        notes.map(|note| (note.as_str(), cell.id.as_str()))
    });
    once_each(notes, plans.len(), |cells, note| match cells {
        None => format!("note: {note}"),
        Some(cells) => format!("note on {cells}: {note}"),
    })
}

/// A line for each text that is said of cells, with their ids unless these are `all`.
fn once_each<'a>(
    said: impl Iterator<Item = (&'a str, &'a str)>,
    all: usize,
    line: impl Fn(Option<&str>, &str) -> String,
) -> String {
    const NAMED: usize = 6;
    let mut cells_of: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for (text, id) in said {
        cells_of.entry(text).or_default().push(id);
    }
    let lines = cells_of.iter().map(|(text, ids)| {
        let more = ids.len().saturating_sub(NAMED);
        let mut named = ids[..ids.len() - more].join(", ");
        if more > 0 {
            let _ = write!(named, " and {more} more");
        }
        let named = (ids.len() < all).then_some(named.as_str());
        wrapped(&line(named, text), 2) + "\n"
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\n{lines}"),
    }
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
