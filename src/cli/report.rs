//! `expctl report SPEC|RESULTS...`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use base::text::{counted, visible};
use records::store::StudyDir;
use report::{About, Rendered, Template, check_study, paste_table};
use results::frame::{self, Replanned};
use runner::Purpose;
use spec::{Overrides, Study, TEMPLATES};

use super::accuracy::planned;
use super::fetch::fetch;
use super::output::write_page;
use super::plan_report::PlanReport;
use super::report_frames::{Frames, FramesBeside};
use super::resolved::resolved;
use super::studies::NoStudy;
use super::study_report::{
    self, Place, StudyReport, default_output, publish_of, refuse_overwriting, refuse_own_report, template_of,
    up_to_date,
};
use super::{exit_code, print, replan, sources, studies};

const EXAMPLES: &str = "Examples:
  expctl report experiments/rank_sweep.yaml --format html
  expctl report experiments/method_comparison.yaml --only DoRA --baseline LoRA";

/// Make the frames and reports of studies from their records
///
/// Writes `cells.parquet` and `cells.csv` into the study's folder, and the report with its charts and a copy of the
/// frame, `NAME.parquet`. Files that would not change are left alone. The cells are those of the last `expctl run`.
/// With a spec, its present description, report, published figures and claims are used. A spec without a study's folder
/// is reported from the frame beside its report, and one whose cells are all of PyTorch's stack is planned again.
///
/// Of several specs, those without results are named and skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The specs, or the studies' folders
    #[arg(value_name = "SPEC|RESULTS", required = true)]
    studies: Vec<PathBuf>,
    /// The study's folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    // The help is in an attribute: it has the names from the one list.
    #[arg(
        long,
        value_name = "NAME|FILE",
        help = format!("{}, or a file of your own [default: the spec's]", TEMPLATES.join(", "))
    )]
    template: Option<String>,
    /// The report's file; it is a page with the charts inside if it ends in `.html` [default: the spec's, else
    /// report.md in the study's folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The kind of the file, whatever its name ends in: that end is replaced
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
    /// Write the report to the place that the spec's `report.publish` names, to be committed
    #[arg(long, conflicts_with_all = ["output", "format"])]
    publish: bool,
    /// Write nothing; exit code 1 if a file is stale, a cell is planned otherwise than it was measured, or a claim's verdict is
    /// unexpected. A spec expects `supported`, unless it says otherwise. The report is the published one, if the spec names
    /// one. `--check=pages` plans no cell
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    check: Option<Check>,
    /// Plan the cells of the published report again, and write what is planned otherwise today into its frame: the memory of
    /// our trainer, which plans have to the byte, and all predictions. The report says which cells; a run measures them again
    #[arg(long, conflicts_with_all = ["check", "results", "template", "output", "format", "only", "all"])]
    replan: bool,
    /// Leave out the ids of cells: their columns, and the lists of them. For a page to paste; a published one has them
    #[arg(long, conflicts_with_all = ["publish", "check", "replan", "only"])]
    no_ids: bool,
    /// Include records of cells that are no longer in the spec
    #[arg(long)]
    all: bool,
    /// Compare the cells of this value with those of --baseline, such as --only dora --baseline lora: a paragraph and a
    /// table, on stdout or in --output. A value is one of an axis, `axis=value`, or a method such as QLoRA
    #[arg(long, value_name = "VALUE", requires = "baseline", conflicts_with_all = ["check", "template", "format", "publish"])]
    only: Option<String>,
    /// The value that --only is compared with
    #[arg(long, value_name = "VALUE", requires = "only")]
    baseline: Option<String>,
}

/// What `--check` looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    /// Pages, charts and frames, and whether today's plans still say what was measured
    All,
    /// Pages, charts and frames alone, which is quick
    Pages,
}

/// The kind of a report's file.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ReportFormat {
    /// Markdown, and a file for each chart
    Markdown,
    /// One HTML file that loads nothing: its tables sort and filter, and its charts say their values
    Html,
    /// The table to paste alone, as CSV: bytes and seconds. It is printed, or written to --output
    Csv,
    /// The same as JSON
    Json,
    /// The same for LaTeX, with the rules of booktabs
    Latex,
}

impl ReportFormat {
    /// The end of a report's name; `None` for a table alone.
    fn ending(self) -> Option<&'static str> {
        match self {
            Self::Markdown => Some("md"),
            Self::Html => Some("html"),
            Self::Csv | Self::Json | Self::Latex => None,
        }
    }
}

/// A spec says nowhere where a plan's report goes.
#[derive(Debug, thiserror::Error)]
#[error("the `report` of `{}` names no `output`; give a file: --output FILE", .0.display())]
struct NoPlace(PathBuf);

/// The report that a spec publishes is not there.
#[derive(Debug, thiserror::Error)]
#[error("the report of `{}` is not published; after a run, `expctl report --publish {}` does so", .0.display(), .0.display())]
struct NotPublished(PathBuf);

/// True if there is nothing to report of a study.
fn is_nothing(error: &anyhow::Error) -> bool {
    error.is::<NoStudy>() || error.is::<NoPlace>()
}

impl Args {
    /// The report's place. `folder` has the report of a spec that names no place.
    fn place(&self, study: &Study, folder: Option<&StudyDir>) -> Place {
        match self.other_file(study, folder) {
            _ if self.publish || self.replan => Place::Published,
            Some(file) => Place::File(file),
            None => Place::Own,
        }
    }

    /// True if the report to be checked, or planned again, is the published one of a spec.
    fn is_of_published(&self, study: &Study, path: &Path) -> bool {
        let is_specs_own = self.results.is_none() && self.output.is_none() && self.format.is_none();
        let is_published = is_specs_own && study.report.publish.is_some() && studies::is_spec(path);
        (self.check.is_some() || self.replan) && is_published
    }

    /// The report's file, if it is not a place that the spec names.
    fn other_file(&self, study: &Study, folder: Option<&StudyDir>) -> Option<PathBuf> {
        let Some(ending) = self.format.and_then(ReportFormat::ending) else {
            return self.output.clone();
        };
        let named = self.output.as_ref().or(study.report.output.as_ref()).cloned();
        let place = named.or_else(|| folder.map(default_output))?;
        let place = place.with_extension(ending);
        let is_specs = self.output.is_none() && study.report.output.as_ref() == Some(&place);
        (!is_specs).then_some(place)
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.studies.len() > 1 {
        for (option, given) in [("--results", &args.results), ("--output", &args.output)] {
            ensure!(given.is_none(), "{option} is for one study, and several are given");
        }
    }
    if let (Some(only), Some(baseline)) = (&args.only, &args.baseline) {
        ensure!(
            args.studies.len() == 1,
            "--only is for one study, and several are given"
        );
        Reported::open(&args.studies[0], args)?.compare(args, only, baseline)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(format) = args.format.filter(|format| format.ending().is_none()) {
        ensure!(args.check.is_none(), "--check is for reports, and a table is printed");
        ensure!(
            args.studies.len() == 1,
            "a table is of one study, and several are given"
        );
        return table(&args.studies[0], args, format);
    }
    let (mut all_hold, mut reported) = (true, 0);
    for path in &args.studies {
        match report(path, args) {
            Ok(holds) => (all_hold, reported) = (all_hold && holds, reported + 1),
            Err(error) if error.is::<NotPublished>() => {
                eprintln!("{}", visible(&error.to_string()));
                (all_hold, reported) = (false, reported + 1);
            }
            Err(error) if args.studies.len() > 1 && studies::is_spec(path) && is_nothing(&error) => {
                eprintln!("skipped: {}", visible(&error.to_string()))
            }
            Err(error) => return Err(error),
        }
    }
    ensure!(reported > 0, "none of these has anything to report");
    Ok(exit_code(all_hold))
}

/// Prints or writes the table to paste of a study.
fn table(path: &Path, args: &Args, format: ReportFormat) -> anyhow::Result<ExitCode> {
    let table = match planned_study(path, args)? {
        Some(study) => {
            let (study, cells) = planned(study)?;
            let about = About {
                is_plan: true,
                ..About::new(&study)
            };
            paste_table(&about, &cells)?
        }
        None => {
            let Reported { study, dir, kept, .. } = Reported::open(path, args)?;
            check_study(&study)?;
            let frames = kept.map_or_else(|| Frames::read(&dir, &study, args.all), |(_, frames)| Ok(frames))?;
            paste_table(&About::new(&study), &frames.cells)?
        }
    };
    let text = match format {
        ReportFormat::Json => table.data().json(),
        ReportFormat::Latex => table.latex(),
        _ => table.data().csv(),
    };
    write_page(&text, args.output.as_deref())
}

/// Writes or checks a study's report. Returns false if the check fails.
fn report(path: &Path, args: &Args) -> anyhow::Result<bool> {
    match planned_study(path, args)? {
        Some(study) => report_plan(&study, path, args),
        None => Reported::open(path, args)?.run(args),
    }
}

/// The study of a spec without a cell that runs: it has no records and is planned again.
fn planned_study(path: &Path, args: &Args) -> anyhow::Result<Option<Study>> {
    if args.results.is_some() || !studies::is_spec(path) {
        return Ok(None);
    }
    let mut study = load(path, &Overrides::from_environment(Vec::new())?, None)?;
    if !study.is_planned() {
        return Ok(None);
    }
    fetch(&mut study, Purpose::Plan, |_| true)?;
    Ok(Some(study))
}

fn report_plan(study: &Study, spec: &Path, args: &Args) -> anyhow::Result<bool> {
    ensure!(
        !args.all,
        "--all reads records, and `{}` has none: its cells of `stack: torch` are planned",
        spec.display()
    );
    let other = args.other_file(study, None);
    let given = |option: &str, value: &dyn Display| format!("{option}={value}");
    let file = other.as_ref().map(|file| file.display());
    let (template, command) = match &args.template {
        Some(name) => {
            let mut options = vec![given("--template", name)];
            options.extend(file.map(|file| given("--output", &file)));
            (Template::named(name), study.invocation.command_of("report", &options))
        }
        // The report is the one that `plan` writes.
        None => {
            let option = file.map_or_else(|| "--report".into(), |file| given("--report", &file));
            (template_of(study), study.invocation.command_of("plan", &[option]))
        }
    };
    ensure!(
        !args.replan,
        "`{}` has no frame to plan again: its report is a plan; `--publish` makes it again",
        spec.display()
    );
    let output = match args.publish || args.is_of_published(study, spec) {
        true => Some(publish_of(study)?.to_path_buf()),
        false => other,
    };
    if output.is_none() && study.report.output.is_none() {
        return Err(NoPlace(spec.to_path_buf()).into());
    }
    let report = PlanReport::new(study, template, (output.as_deref(), "--output FILE"), command)?;
    report
        .without_ids(args.no_ids)
        .write_or_check(plan::Options::default(), args.check.is_some())
}

/// A study with the frames that its report is made from.
struct Reported {
    study: Study,
    dir: StudyDir,
    /// The frames beside the report, if there is no folder with the study's records.
    kept: Option<(PathBuf, Frames)>,
    /// True if it is the spec's published report that is checked or planned again.
    is_of_published: bool,
    /// False if the spec's cells have changed since.
    is_current: bool,
}

impl Reported {
    fn open(path: &Path, args: &Args) -> anyhow::Result<Self> {
        if let Some(reported) = Self::from_kept(path, args)? {
            return Ok(reported);
        }
        let (dir, mut study) = studies::open(path, args.results.as_deref())?;
        let mut is_current = true;
        if studies::is_spec(path) {
            let now = load(path, &study.invocation.overrides(), Some(&dir))?;
            let after = format!("the last run into `{}`", dir.path().display());
            is_current = is_same(path, &after, &ids(&study), &ids(&now));
            // Everything that does not change the cells.
            (study.description, study.report) = (now.description, now.report);
            (study.directory, study.file) = (now.directory, now.file);
            (study.published, study.claims) = (now.published, now.claims);
        }
        Ok(Self {
            study,
            dir,
            kept: None,
            is_of_published: false,
            is_current,
        })
    }

    /// The frames beside a spec's report, if it has no study's folder or its published report is checked.
    fn from_kept(path: &Path, args: &Args) -> anyhow::Result<Option<Self>> {
        if args.results.is_some() || !studies::is_spec(path) {
            return Ok(None);
        }
        let study = spec::load(path, &Overrides::from_environment(Vec::new())?)?;
        let dir = StudyDir::new(Path::new("results").join(&study.name));
        if args.replan {
            publish_of(&study)?;
        }
        let is_of_published = args.is_of_published(&study, path);
        if dir.study_yaml().exists() && !is_of_published {
            return Ok(None);
        }
        let places = [&study.report.output, &study.report.publish];
        let places = places.into_iter().skip(usize::from(is_of_published || args.publish));
        let mut beside = places.flatten().map(|place| FramesBeside::of(place));
        let Some(beside) = beside.find(|beside| beside.cells.exists()) else {
            return match is_of_published {
                true => Err(NotPublished(path.to_path_buf()).into()),
                false => Ok(None),
            };
        };
        ensure!(
            !args.all,
            "--all reads records, and there are none: `{}` holds no study",
            dir.path().display()
        );
        let (frames, invocation) = beside.read()?;
        let mut study = load(path, &invocation.overrides(), None)?;
        study.invocation = invocation;
        // Cells that follow others on a ladder are not in the spec.
        let follows = frames.cells.column("fallback_of")?.str()?.iter();
        let rows = frames.cells.column("cell_id")?.str()?.iter().zip(follows);
        let rows = rows.filter_map(|(id, follows)| id.filter(|_| follows.is_none()));
        let after = format!("the frame `{}` was written", beside.cells.display());
        // A published report is of the spec as it is written.
        let as_written = match is_of_published && !study.invocation.laid_over().is_empty() {
            true => ids(&load(path, &Overrides::default(), None)?),
            false => ids(&study),
        };
        let is_current = is_same(path, &after, &rows.map(str::to_owned).collect(), &as_written);
        Ok(Some(Self {
            study,
            dir,
            kept: Some((beside.cells, frames)),
            is_of_published,
            is_current,
        }))
    }

    /// Prints or writes what compares two methods.
    fn compare(&self, args: &Args, only: &str, baseline: &str) -> anyhow::Result<()> {
        let Self { study, dir, kept, .. } = self;
        let from_records;
        let frames = match kept {
            Some((_, frames)) => frames,
            None => {
                from_records = Frames::read(dir, study, args.all)?;
                &from_records
            }
        };
        let markdown = report::one_method(&About::new(study), frames.of_report(), only, baseline)?;
        let Some(output) = &args.output else {
            return Ok(print(&markdown)?);
        };
        refuse_overwriting(output, study, dir, &template_of(study))?;
        refuse_own_report(output, study, dir)?;
        let page = Rendered {
            markdown,
            files: BTreeMap::new(),
            claims: Vec::new(),
            answer: Vec::new(),
        };
        report::write(&page, output, false)?;
        Ok(print(&format!("wrote {}\n", output.display()))?)
    }

    /// Writes or checks the report. Returns false if a check fails.
    fn run(self, args: &Args) -> anyhow::Result<bool> {
        let Self { study, dir, kept, .. } = &self;
        let place = match self.is_of_published {
            true => Place::Published,
            false => args.place(study, Some(dir)),
        };
        let report = StudyReport::new(study, dir, args.template.as_deref(), place)?.without_ids(args.no_ids);
        check_study(study)?;
        let from_records;
        let (frames, source) = match kept {
            Some((path, frames)) => (frames, path.as_path()),
            None => {
                from_records = Frames::read(dir, study, args.all)?;
                (&from_records, dir.path())
            }
        };
        if args.replan {
            return replan(study, &report, frames);
        }
        if let Some(check) = args.check {
            let mut is_current = self.is_current;
            if check == Check::All && !self.is_as_today(frames, source)? {
                is_current = false;
            }
            for path in kept
                .is_none()
                .then(|| report.stale_frames(frames))
                .into_iter()
                .flatten()
            {
                eprintln!(
                    "`{}` does not hold the records of `{}`",
                    path.display(),
                    source.display()
                );
                is_current = false;
            }
            return study_report::check(&report.render(frames)?, &report.output, source, is_current);
        }
        if args.publish && kept.is_none() {
            self.check_publishable(frames)?;
        }
        let mut written = match kept {
            // An older version's has no hash.
            Some(_) if args.publish => report.write_beside(frames)?,
            Some(_) => Vec::new(),
            None => report.write_frames(frames)?,
        };
        written.extend(report.write(frames)?.1);
        if written.is_empty() {
            print(&up_to_date(&report.output, source))?;
        }
        for path in written {
            print(&format!("wrote {}\n", path.display()))?;
        }
        Ok(true)
    }
}

impl Reported {
    /// True if today's plans say what the cells of a frame say, and its sources can be found. Names what is not so.
    fn is_as_today(&self, frames: &Frames, source: &Path) -> anyhow::Result<bool> {
        let shown = source.display();
        let plans = replan::plans(&self.study, &frames.cells)?;
        let stale = frame::stale(&frames.cells, &plans)?;
        for stale in &stale {
            eprintln!("`{shown}` is stale: {}", replan::line(stale));
        }
        if !stale.is_empty() {
            let spec = self.study.invocation.source();
            let by_plan = self
                .is_of_published
                .then(|| format!(", and `expctl report --replan {spec}` writes today's plans"));
            eprintln!(
                "`expctl run --fresh {spec}` measures them again{}",
                by_plan.unwrap_or_default()
            );
        }
        let unknown = sources::unknown(&frames.cells);
        for hash in &unknown {
            eprintln!("`{shown}` was made from sources {hash}, which no commit of this repository has");
        }
        Ok(stale.is_empty() && unknown.is_empty())
    }

    /// Makes sure that a run is all of the spec, as it is written.
    fn check_publishable(&self, frames: &Frames) -> anyhow::Result<()> {
        let source = self.study.invocation.source();
        let overrides = self.study.invocation.laid_over();
        ensure!(
            overrides.is_empty(),
            "the last run of `{source}` is not of the spec as it is written, but with {}; run it again without",
            overrides.join(", ")
        );
        ensure!(
            self.is_current,
            "`{source}` has other cells now; `expctl run {source}` trains the new ones"
        );
        let not_run = frames.cells.column("status")?.null_count();
        ensure!(
            not_run == 0,
            "{} not run; `expctl run {source}` goes on",
            match not_run {
                1 => "1 cell is".to_owned(),
                several => format!("{several} cells are"),
            }
        );
        Ok(())
    }
}

/// Writes today's plans into the frame of a published report, and the report. Returns false if some cells need a run.
fn replan(study: &Study, report: &StudyReport<'_>, frames: &Frames) -> anyhow::Result<bool> {
    let plans = replan::plans(study, &frames.cells)?;
    let Replanned { cells, refused } = frame::replan(&frames.cells, &plans, &replan::this_program())?;
    let frames = Frames {
        cells,
        timeline: frames.timeline.clone(),
    };
    let mut written = report.write_beside(&frames)?;
    written.extend(report.write(&frames)?.1);
    if written.is_empty() {
        let source = study.invocation.source();
        print(&up_to_date(&report.output, Path::new(&source)))?;
    }
    for path in written {
        print(&format!("wrote {}\n", path.display()))?;
    }
    for id in &refused {
        eprintln!(
            "cell {id} stays as it is, because no plan has all of its figures; `expctl run --fresh {}` measures it again",
            study.invocation.source()
        );
    }
    Ok(refused.is_empty())
}

/// The spec's own cells.
fn ids(study: &Study) -> BTreeSet<String> {
    let own = study.cells.iter().filter(|study_cell| !study_cell.is_fallback());
    own.map(|study_cell| study_cell.id.clone()).collect()
}

/// The spec with its open values found. `dir` is the study's folder, if it is not `results/NAME`.
fn load(path: &Path, overrides: &Overrides, dir: Option<&StudyDir>) -> anyhow::Result<Study> {
    let mut study = spec::load(path, overrides)?;
    if study.cells.iter().any(|study_cell| study_cell.cell.is_open()) {
        fetch(&mut study, Purpose::Plan, |_| true)?;
    }
    let named = StudyDir::new(Path::new("results").join(&study.name));
    Ok(resolved(study, plan::Options::default(), dir.unwrap_or(&named))?)
}

/// True if the spec's cells are those that are reported; warns if not.
fn is_same(spec: &Path, after: &str, reported: &BTreeSet<String>, now: &BTreeSet<String>) -> bool {
    if reported != now {
        eprintln!(
            "warning: `{}` was changed after {after}: {} new, {} gone; the report has the cells of that run, and `expctl \
             run` trains the new ones",
            spec.display(),
            counted(now.difference(reported).count(), "cell"),
            counted(reported.difference(now).count(), "cell"),
        );
    }
    reported == now
}
