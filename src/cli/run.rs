//! `expctl run SPEC` and `expctl run --model MODEL`.

use std::fs;
use std::io::{ErrorKind, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use cell::{Engine, Stack};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::Planner;
use records::store::StudyDir;
use report::check_study;
use runner::{
    self, Bars, Json, Options, Plain, Progress, Purpose, Python, Silent, Summary, Worker, add_fallbacks, due,
    preflight, schedule, trainable,
};
use spec::{Names, Overrides, Recipe, RecordSpec, SpecFile, StudyCell};

use super::fetch::{fetch, fetch_description};
use super::report_frames::Frames;
use super::requirements::check_requirements;
use super::resolved::resolved;
use super::study_report::{Place, StudyReport};
use super::subject::Named;
use super::{FAILED, Format, claims, ended_by, print, run_output};

const EXAMPLES: &str = "Examples:
  expctl run experiments/quickstart.yaml
  expctl run --model tiny --data sample --set rank=8 --set max_steps=50";

/// Train the cells of a spec that have no result yet, and write the results and the report
///
/// A cell that ended as ok or oom is done. A cell that failed, timed out, was killed or got lost is tried again by the
/// next run. Exit code 0 if every cell has a result, else 1. Ctrl-C (or SIGTERM) stops the running cell and keeps all
/// others, with exit code 130 (143); the same command goes on from there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The spec, a YAML file
    spec: Option<PathBuf>,
    #[command(flatten)]
    named: Named,
    /// What --model is trained with: a recipe that our trainer has. Default: qlora, the frugal one
    #[arg(long, value_name = "RECIPE", requires = "model")]
    recipe: Option<&'static Recipe>,
    /// Where the spec of --model is written [default: NAME.yaml]. It holds the recipe and what was given; other keys have
    /// a spec's defaults
    #[arg(long, value_name = "FILE", requires = "model")]
    output: Option<PathBuf>,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The study's folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Run all cells, including those with a result
    #[arg(long)]
    fresh: bool,
    /// Stop at the first cell that fails
    #[arg(long)]
    fail_fast: bool,
    /// Leave out cells that are predicted not to fit into their device_memory or into this machine. Their
    /// rows say so
    #[arg(long)]
    skip_oversize: bool,
    /// Exit code 1 if a claim's verdict is unexpected. A spec expects `supported`, unless it says otherwise
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Cells that train side by side: a number, or `auto` for as many as threads and memory are there for, as the key `jobs`.
    /// More than one needs `speeds: false`
    #[arg(long, value_name = "N")]
    jobs: Option<String>,
    /// Train nothing; list the cells and what would be done
    #[arg(long)]
    dry_run: bool,
    /// What runs all cells: candle (our trainer) or python (PyTorch in a Python of yours), as the key `engine`
    #[arg(long, value_name = "ENGINE", value_parser = engine_parser())]
    engine: Option<Engine>,
    /// The Python of cells with `engine: python`: an interpreter, or `uv`. Default: EXPCTL_PYTHON, the spec's `python`,
    /// VIRTUAL_ENV, .venv beside the spec, python3
    #[arg(long, value_name = "PROGRAM")]
    python: Option<String>,
    /// Train the cells of our trainer by another program, which follows the protocol in docs/worker.md
    #[arg(long, value_name = "PROGRAM")]
    worker: Option<PathBuf>,
    /// How --dry-run lists the cells
    #[arg(long, value_enum, default_value_t = Format::Table, requires = "dry_run")]
    format: Format,
    /// How the run shows its progress
    #[arg(long, value_enum, default_value_t = ProgressKind::Auto)]
    progress: ProgressKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgressKind {
    /// Bars on a terminal, lines elsewhere
    Auto,
    Bar,
    Plain,
    /// JSON lines on stdout, for programs
    Json,
    None,
}

impl ProgressKind {
    fn open(self, record: &RecordSpec) -> Box<dyn Progress> {
        match self {
            Self::Auto if stderr().is_terminal() => Box::new(Bars::default()),
            Self::Bar => Box::new(Bars::default()),
            Self::Auto | Self::Plain => Box::new(Plain::every(record.log_interval)),
            Self::Json => Box::new(Json),
            Self::None => Box::new(Silent),
        }
    }
}

/// The names of the engines.
fn engine_parser() -> impl TypedValueParser<Value = Engine> {
    let names = PossibleValuesParser::new(Engine::ALL.map(Engine::name));
    names.try_map(|name| Engine::named(&name).ok_or("no such engine"))
}

pub(super) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    // Load the spec, or write one.
    args.set.extend(args.jobs.iter().map(|jobs| format!("jobs={jobs}")));
    if let Some(engine) = args.engine {
        args.set.push(format!("engine={}", engine.name()));
        args.set.push(format!("stack={}", engine.stack().name()));
    }
    let (mut study, new_spec) = match args.named.in_place_of(args.spec.is_some())? {
        Some(model) => {
            let named = Names {
                model: model.into(),
                data: args.named.data.clone(),
                gpu: None,
                stack: args.engine.map_or(Stack::Candle, Engine::stack),
                recipe: args.recipe.unwrap_or(Recipe::frugal()),
                roots: fetch_description(model)?,
            };
            let file = SpecFile::of_names(&named, args.set, args.output.as_deref())?;
            let study = spec::parse(&file.path, &file.text, &Overrides::from_environment(Vec::new())?)?;
            (study, is_new(&file)?.then_some(file))
        }
        None => {
            let spec = args
                .spec
                .context("give a spec, or a model by name: --model tiny --data sample")?;
            (spec::load(&spec, &Overrides::from_environment(args.set)?)?, None)
        }
    };
    study.invocation.results = args.results.as_ref().map(|folder| folder.display().to_string());
    let mut options = Options {
        results: args.results.unwrap_or_else(|| Path::new("results").join(&study.name)),
        fresh: args.fresh,
        fail_fast: args.fail_fast,
        skip_oversize: args.skip_oversize,
        worker: match args.worker {
            Some(program) => Worker::new(program),
            None => Worker::this_program().context("cannot find this program")?,
        },
        python: None,
        machine: None,
    };

    // Check everything that can be checked before the training.
    check_study(&study)?;
    trainable(&study)?;
    let due = due(&study, &options)?;
    let is_due = |study_cell: &StudyCell| due.contains(&study_cell.id);
    if !due.is_empty() {
        check_requirements(&study)?;
    }
    fetch(
        &mut study,
        if args.dry_run { Purpose::Plan } else { Purpose::Train },
        is_due,
    )?;
    let is_ours = |study_cell: &StudyCell| is_due(study_cell) && study_cell.cell.engine() == Some(Engine::Candle);
    if study.cells.iter().any(is_ours) {
        let asked = options.worker.machine();
        let machine = asked.with_context(|| format!("cannot ask the worker `{}` for its machine", options.worker))?;
        options.machine = Some(machine);
    }
    options.python = Python::find(&study, &options.results, args.python.as_deref(), is_due, |text| {
        eprintln!("note: {text}");
    })?;
    study.notes.extend(preflight(&study, options.machine.as_ref(), is_due)?);
    study.notes.extend(options.python.iter().flat_map(Python::describe));
    if args.dry_run {
        let dir = StudyDir::new(&options.results);
        let mut study = resolved(study, options.planning(), &dir)?;
        let planner = Planner::new(study.roots(), options.planning());
        add_fallbacks(&mut study, &planner, &options);
        let schedule = schedule(&study, &options)?;
        print(&run_output::dry_run(&study, &schedule, args.format))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(SpecFile { path, text }) = new_spec {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    let dir = StudyDir::new(&options.results);
    StudyReport::new(&study, &dir, None, Place::Own)?.prepare()?;

    // Run the cells.
    let mut progress = args.progress.open(&study.record);
    for note in &study.notes {
        progress.note(note);
    }
    let summary = runner::run(&mut study, &options, progress.as_mut())?;

    // Write the report before anything is printed, because printing may fail, too.
    let report = StudyReport::new(&study, &dir, None, Place::Own)?;
    let reported = Frames::read(&dir, &study, false).and_then(|frames| {
        report.write_frames(&frames)?;
        report.write(&frames)
    });
    let for_people = args.progress != ProgressKind::Json;
    if for_people {
        print(&run_output::summary(&study, &summary, &dir))?;
    }
    let (rendered, _) = reported?;
    if for_people {
        print(&run_output::answer(&rendered.answer_text()))?;
        let counts = claims::summary(&rendered.claims).map_or_else(String::new, |counts| format!("{counts}\n"));
        print(&format!("{counts}report: {}\n", report.output.display()))?;
    }
    if args.check && rendered.claims.is_empty() {
        eprintln!("note: the spec has no claims, so there is nothing to check");
    }
    let expected = !args.check || claims::are_as_expected(&rendered.claims);
    Ok(exit_code(&summary, expected))
}

/// True if there is no such file yet.
///
/// # Errors
/// There is one with another spec.
fn is_new(file: &SpecFile) -> anyhow::Result<bool> {
    let path = file.path.display();
    match fs::read(&file.path) {
        Ok(text) if file.is_same(&String::from_utf8_lossy(&text)) => Ok(false),
        Ok(_) => bail!(
            "{path} is there and differs from the spec of this command, so it is not overwritten; run it with \
             `expctl run {path}`, or name another file with --output"
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
    }
}

fn exit_code(summary: &Summary, expected: bool) -> ExitCode {
    match summary.interrupted {
        Some(signal) if summary.left > 0 => ended_by(signal),
        _ if summary.left > 0 || summary.has_failures() || !expected => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}
