//! `expctl fit SPEC` and `expctl fit --model MODEL`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use plan::advice::changes;
use plan::fit::{Found, Largest, Moves, Search, Space, check_values, fewest_gpus, largest, smallest_gpu};
use plan::{CellError, PlanError, Planner};
use rayon::prelude::*;
use spec::{Study, StudyCell};
use techniques::Harm;

use super::fit_chart::chart;
use super::fit_limits::{Limit, LimitRow, Limits};
use super::fit_view::{CellFit, for_people, for_programs};
use super::subject::Subject;
use super::{Format, fits_or_not, print};

/// Find what to change so that a cell fits, the least change first
///
/// Searches every technique that saves memory, alone and together: micro-batches, checkpointing, formats, optimizer
/// states, attention, the allocator, rank and length. Prints the least change that fits, other ways, and of one cell the
/// front of memory against price. Mild changes come before harsh ones: first what keeps the results, then what costs precision,
/// then what is trained, then tokens. A model by name starts as it does in a plan, with the frugal recipe; --recipe lora
/// starts from one in which nothing is saved yet. Nothing is proposed that leaves less than the headroom free. Every
/// figure is predicted. Exit code 3 if nothing fits.
#[derive(Debug, clap::Args)]
#[command(mut_arg("specs", |spec| spec.num_args(0..=1)), after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// A key that may change, alone or with the values to try; other keys then stay. Repeatable
    #[arg(long, value_name = "KEY[=VALUE,...]")]
    vary: Vec<String>,
    /// Keys that stay as they are
    #[arg(long, value_name = "KEY,...")]
    keep: Vec<String>,
    /// The cell of a sweep, by the beginning of its id
    #[arg(long, value_name = "ID")]
    cell: Option<String>,
    /// Print the largest value of these keys that fits instead, as the cell is and with changes that keep its results
    #[arg(long, value_name = "KEY", value_delimiter = ',', value_parser = key_of_largest())]
    largest: Vec<Largest>,
    /// Print the smallest GPU that is enough instead
    #[arg(long, conflicts_with_all = ["budget", "gpu", "largest"])]
    smallest_gpu: bool,
    /// Print how many GPUs of the budget's kind are enough at least, if FSDP shares the model among them (or
    /// DeepSpeed, with `distributed: deepspeed`), instead
    #[arg(long, conflicts_with_all = ["largest", "smallest_gpu"])]
    fewest_gpus: bool,
    /// Write the least change that fits as a spec
    #[arg(long, value_name = "FILE", conflicts_with_all = ["largest", "smallest_gpu", "fewest_gpus"])]
    write: Option<PathBuf>,
    /// Draw the front of memory against price
    #[arg(long, value_name = "FILE.svg", value_parser = svg, conflicts_with_all = ["largest", "smallest_gpu", "fewest_gpus"])]
    chart: Option<PathBuf>,
    /// How the result is printed; json has everything, csv the front
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  expctl fit --model llama-3.1-8b --gpu 3060 --set max_seq_length=4096
  expctl fit --model qwen2.5-7b --gpu a100-40gb --largest batch_size,max_seq_length";

/// Reads the keys of `--largest`.
fn key_of_largest() -> impl TypedValueParser<Value = Largest> {
    let keys = PossibleValuesParser::new(Largest::ALL.map(Largest::key));
    keys.try_map(|key| Largest::of_key(&key).ok_or("no such key"))
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let study = args.subject.study_to_fit(&args.vary, &args.keep)?;
    // With --smallest-gpu each GPU is its own budget.
    let mut options = args.subject.options();
    options.budget = options
        .budget
        .or(study.fit.budget.map(|budget| budget.0))
        .filter(|_| !args.smallest_gpu);
    let mut study = args.subject.on_device(study, options)?;
    if args.smallest_gpu {
        study.cells.iter_mut().for_each(|study_cell| study_cell.cell.gpu = None);
    }
    let planner = Planner::new(study.roots(), options);
    check_values(&planner, &study.cells, &study.fit)?;
    if let Some(wanted) = &args.cell {
        pick(&mut study, wanted)?;
    }
    if study.cells.len() > 1 && (args.write.is_some() || args.chart.is_some()) {
        bail!(
            "--write and --chart are for one cell, and the spec has {}: pick one with --cell ID",
            study.cells.len()
        );
    }
    if args.smallest_gpu || args.fewest_gpus || !args.largest.is_empty() {
        return limits(args, &study, &planner);
    }
    let has_budget = |study_cell: &StudyCell| planner.budget(&study_cell.cell).is_some();
    if args.write.is_some() && !study.cells.iter().all(has_budget) {
        return Err(PlanError::NoBudget.into());
    }
    let progress = progress(study.cells.len(), &planner);
    let fits = study.cells.par_iter().map(|study_cell| {
        let fit = fit(&planner, &study, study_cell);
        progress.inc(1);
        fit.map_err(|error| CellError::new(&study, study_cell, error))
    });
    let fits = fits.collect::<Result<Vec<_>, _>>();
    progress.finish_and_clear();
    let fits = fits?;
    if let (Some(path), [fit]) = (&args.chart, fits.as_slice()) {
        write(path, &chart(&study.name, fit)?)?;
    }
    if let (Some(path), [fit]) = (&args.write, fits.as_slice()) {
        match &fit.least {
            Some(least) => write(path, &spec_of(&study, least, path)?)?,
            None => eprintln!("nothing fits, so {} is not written", path.display()),
        }
    }
    print(&match args.format {
        Format::Table => for_people(&study, &fits),
        format => for_programs(&study, &fits, format),
    })?;
    let all_fit = fits.iter().all(CellFit::is_answered);
    Ok(fits_or_not(all_fit))
}

/// The path of a chart, which is drawn as SVG.
fn svg(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_svg = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    is_svg
        .then_some(path)
        .ok_or_else(|| "the chart is drawn as SVG: end the name in `.svg`".into())
}

/// Leaves the cell whose id begins with `wanted`.
fn pick(study: &mut Study, wanted: &str) -> anyhow::Result<()> {
    let found: Vec<StudyCell> = study
        .cells
        .iter()
        .filter(|cell| cell.id.starts_with(wanted))
        .cloned()
        .collect();
    match found.len() {
        1 => study.cells = found,
        0 => bail!("the spec has no cell `{wanted}`; `expctl plan` lists its cells"),
        count => bail!("`{wanted}` is the beginning of {count} cells' ids: give more of it"),
    }
    Ok(())
}

/// A line on a terminal that says how many cells are done, and how many plans were begun.
fn progress(cells: usize, planner: &Planner) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let template = match cells {
        1 => "{plans} plans, {elapsed}",
        _ => "searched {pos} of {len} cells, {plans} plans, {elapsed}",
    };
    let begun = planner.begun();
    if let Ok(style) = ProgressStyle::with_template(template) {
        let plans = move |_: &ProgressState, line: &mut dyn std::fmt::Write| {
            // A line that cannot be written is not shown.
            let _ = write!(line, "{}", begun.load(Ordering::Relaxed));
        };
        bar.set_style(style.with_key("plans", plans));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Searches for what fits.
fn fit(planner: &Planner, study: &Study, study_cell: &StudyCell) -> Result<CellFit, PlanError> {
    let cell = &study_cell.cell;
    let moves = Moves {
        fit: &study.fit,
        worst: Harm::Data,
    };
    // A cell that cannot be planned has an error of its own.
    let own = |error| planner.needed_at_least(cell).err().unwrap_or(error);
    let space = Space::new(cell, &*planner.model(cell)?, moves).map_err(own)?;
    let search = Search::new(planner, space);
    let limit = planner.limit(cell);
    let fits = |found: &&Found| limit.is_some_and(|limit| found.fits(limit));
    let front = match limit {
        // The front takes many times as long.
        Some(limit) if study.cells.len() > 1 => search.to_fit(limit)?,
        _ => search.front(limit)?,
    };
    let least = front.iter().find(fits).cloned();
    let others = match (&least, limit) {
        (Some(least), Some(limit)) => search.others(least, limit),
        _ => Vec::new(),
    };
    Ok(CellFit {
        budget: planner.budget(cell),
        headroom: planner.headroom(cell),
        front,
        least,
        others,
        planned: search.planned(),
        combinations: search.space().combinations(),
    })
}

/// Prints the largest values, or the smallest or fewest GPUs.
fn limits(args: &Args, study: &Study, planner: &Planner) -> anyhow::Result<ExitCode> {
    let progress = progress(study.cells.len(), planner);
    let limits = study.cells.par_iter().map(|study_cell| {
        let rows = limits_of(args, study, planner, study_cell);
        progress.inc(1);
        rows.map_err(|error| CellError::new(study, study_cell, error))
    });
    let limits = limits.collect::<Result<Vec<_>, _>>();
    progress.finish_and_clear();
    let limits = limits?;
    let fits = |rows: &Vec<LimitRow>| {
        let fits = |key| rows.iter().any(|row| row.key == key && row.limit.is_some());
        rows.iter().all(|row| fits(row.key))
    };
    let all_fit = limits.iter().all(fits);
    print(&Limits(limits).render(study, args.format))?;
    Ok(fits_or_not(all_fit))
}

/// The largest values, or the smallest or fewest GPUs, of one cell.
fn limits_of(
    args: &Args,
    study: &Study,
    planner: &Planner,
    study_cell: &StudyCell,
) -> Result<Vec<LimitRow>, PlanError> {
    let cell = &study_cell.cell;
    let mut rows = Vec::new();
    let mut add = |key, worst, limit: Option<Limit>| {
        let headroom = limit.as_ref().map_or(0, |limit| planner.headroom(limit.cell()));
        rows.push(LimitRow {
            key,
            worst,
            limit,
            headroom,
        });
    };
    let worst = Harm::Transfers;
    let largest = args.largest.par_iter().map(|&key| {
        let limit = planner.limit(cell).ok_or(PlanError::NoBudget)?;
        Ok((key, largest(planner, cell, key, limit, worst, &study.fit)?))
    });
    for (key, most) in largest.collect::<Result<Vec<_>, PlanError>>()? {
        for (worst, most) in [None, Some(worst)].into_iter().zip(most) {
            add(key.key(), worst, most.map(Into::into));
        }
    }
    let harms = [None, Some(Harm::Transfers), Some(Harm::Algorithm)];
    if args.smallest_gpu {
        for worst in harms {
            let gpu = smallest_gpu(planner, cell, worst, &study.fit)?;
            add("gpu", worst, gpu.map(Into::into));
        }
    }
    if args.fewest_gpus {
        let rows = harms.map(|worst| (worst, fewest_gpus(planner, cell, worst, &study.fit)));
        let is_any = rows.iter().any(|(_, found)| matches!(found, Ok(Some(_))));
        for (worst, found) in rows {
            let found = match found {
                // Changes mend that.
                Err(PlanError::NotShared { .. }) if is_any => None,
                found => found?,
            };
            add("world_size", worst, found.map(Into::into));
        }
    }
    Ok(rows)
}

/// A spec of the one cell that was found.
fn spec_of(study: &Study, least: &Found, path: &Path) -> anyhow::Result<String> {
    let folder = std::path::absolute(path)?
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default();
    let changes = changes(least);
    let why = match changes.is_empty() {
        true => "As it was, it fits.".to_owned(),
        false => format!("Changed so that it fits: {}.", changes.join(", ")),
    };
    Ok(study.spec_of(&least.cell, &why, &folder))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
