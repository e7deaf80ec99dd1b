//! `expctl report SPEC|RESULTS`.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use polars_core::prelude::DataFrame;

use crate::report::{self, About, ClaimResult, Rendered, Template};
use crate::results::collect::Collected;
use crate::results::record::Status;
use crate::results::store::StudyDir;
use crate::results::{frame, timeline};
use crate::spec::{self, Study};
use crate::text::counted;

use super::{NOT_AS_ASKED, claims, print, studies};

/// Make a study's frame and report from its records
///
/// Writes `cells.parquet` and `cells.csv` into the study's folder, and the report with its charts. Files that would not
/// change are left alone. The cells are those of the last `expctl run`; a
/// spec that is given says how they are shown.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The spec, or the study's folder
    #[arg(value_name = "SPEC|RESULTS")]
    study: PathBuf,
    /// The study's folder [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// comparison, method_comparison, or a file of your own [default: the spec's]
    #[arg(long, value_name = "NAME|FILE")]
    template: Option<String>,
    /// The Markdown file [default: the spec's, else report.md in the study's folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; exit code 1 where a file is not what the report would be now, and where a claim has not the
    /// verdict that the spec expects: supported, unless it says refuted
    #[arg(long)]
    check: bool,
    /// Rows for records of cells that are no longer in the spec, too
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (dir, mut study) = studies::open(&args.study, args.results.as_deref())?;
    let current = !studies::is_spec(&args.study) || show_as(&args.study, &mut study, &dir)?;
    let template = match args.template {
        Some(name) => Template::named(&name),
        None => template(&study),
    };
    let output = args.output.unwrap_or_else(|| output(&study, &dir));
    refuse_overwriting(&study, &dir, &template, &output)?;
    report::check_study(&study)?;
    let Frames { cells, timeline } = frames(&dir, &study, args.all)?;
    let rendered = render(&study, &cells, &timeline, &template, &output)?;
    if args.check {
        return check(&rendered, &output, current);
    }
    let mut written = frame::write(&cells, &dir)?;
    written.extend(timeline::write(&timeline, &dir)?);
    written.extend(report::write(&rendered, &output)?);
    tell(&written, &output)?;
    Ok(ExitCode::SUCCESS)
}

/// Takes from the spec, as it is now, what does not change the cells. Says whether its cells are still the study's, and
/// warns where they are not.
fn show_as(spec: &Path, study: &mut Study, dir: &StudyDir) -> anyhow::Result<bool> {
    let now = spec::load(spec, &study.invocation.overrides())?;
    let ids = |study: &Study| study.cells.iter().map(|cell| cell.id.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (ids(study), ids(&now));
    if before != after {
        eprintln!(
            "warning: `{}` was changed after the last run into `{}`: {} new, {} gone; the report has the cells of that \
             run, and `expctl run` trains the new ones",
            spec.display(),
            dir.path().display(),
            counted(after.difference(&before).count(), "cell"),
            counted(before.difference(&after).count(), "cell"),
        );
    }
    (study.description, study.report) = (now.description, now.report);
    (study.directory, study.file) = (now.directory, now.file);
    (study.published, study.claims) = (now.published, now.claims);
    Ok(before == after)
}

/// Makes sure before the training that the report can be written after it.
pub fn make_ready(study: &Study, dir: &StudyDir) -> anyhow::Result<()> {
    let template = template(study);
    template.verify()?;
    let output = output(study, dir);
    refuse_overwriting(study, dir, &template, &output)?;
    // What is wrong with the study's own folder says the run itself.
    if study.report.output.is_some() {
        report::prepare_output(&output)?;
    }
    Ok(())
}

/// A report takes the place of a report, and of nothing else.
fn refuse_overwriting(study: &Study, dir: &StudyDir, template: &Template, output: &Path) -> anyhow::Result<()> {
    let spec = study.directory.join(&study.file);
    let mut others = vec![
        spec,
        dir.study_yaml(),
        dir.cells_parquet(),
        dir.cells_csv(),
        dir.timeline_parquet(),
        dir.lock(),
    ];
    if let Template::File(path) = template {
        others.push(path.clone());
    }
    let place = real(output);
    let in_cells = place.starts_with(real(&dir.path().join("cells")));
    ensure!(
        !in_cells && others.iter().all(|other| real(other) != place),
        "the report cannot be `{}`: that is a part of the study; name another file",
        output.display()
    );
    ensure!(
        !place.is_dir(),
        "the report cannot be `{}`: that is a folder",
        output.display()
    );
    Ok(())
}

/// Where a path leads, links followed; the end of it may not be there yet.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let there = path
        .ancestors()
        .find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    let Some((folder, mut real)) = there else {
        return path;
    };
    for component in path.strip_prefix(folder).unwrap_or(Path::new("")).components() {
        match component {
            Component::ParentDir => drop(real.pop()),
            component => real.push(component),
        }
    }
    real
}

/// The frame and the report that a study's spec asks for; what a run ends with. Gives the claims with their verdicts.
pub fn after_run(study: &Study, dir: &StudyDir) -> anyhow::Result<Vec<ClaimResult>> {
    let Frames { cells, timeline } = frames(dir, study, false)?;
    frame::write(&cells, dir)?;
    timeline::write(&timeline, dir)?;
    let output = output(study, dir);
    let rendered = render(study, &cells, &timeline, &template(study), &output)?;
    report::write(&rendered, &output)?;
    Ok(rendered.claims)
}

/// What a report is made of, read from the records and the timelines of the cells that ended well.
struct Frames {
    cells: DataFrame,
    timeline: DataFrame,
}

fn frames(dir: &StudyDir, study: &Study, all: bool) -> anyhow::Result<Frames> {
    let collection = studies::read(dir, study, all)?;
    let ok = |cell: &&Collected| cell.record.as_ref().is_some_and(|record| record.status == Status::Ok);
    let ids = collection.cells.iter().filter(ok).map(|cell| cell.cell_id.as_str());
    Ok(Frames {
        timeline: timeline::build(dir, ids)?,
        cells: collection.frame()?,
    })
}

fn render(
    study: &Study,
    cells: &DataFrame,
    timeline: &DataFrame,
    template: &Template,
    output: &Path,
) -> anyhow::Result<Rendered> {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let frames = report::Frames {
        cells,
        timeline: Some(timeline),
    };
    Ok(report::render(&About::new(study), frames, template, &stem)?)
}

/// The spec's template; a path is relative to the spec.
pub fn template(study: &Study) -> Template {
    match Template::named(&study.report.template) {
        Template::File(path) => Template::File(study.directory.join(path)),
        built_in => built_in,
    }
}

/// Where the report of a study goes.
pub fn output(study: &Study, dir: &StudyDir) -> PathBuf {
    study
        .report
        .output
        .clone()
        .unwrap_or_else(|| dir.path().join("report.md"))
}

/// Two questions: whether the files are what the report would be now, and whether the claims fare as the spec expects.
fn check(rendered: &Rendered, output: &Path, current: bool) -> anyhow::Result<ExitCode> {
    let stale = report::stale_files(rendered, output);
    for file in &stale {
        eprintln!("{file}");
    }
    let fresh = stale.is_empty() && current;
    if fresh {
        print(&format!("{} is up to date\n", output.display()))?;
    }
    if let Some(summary) = claims::summary(&rendered.claims) {
        print(&format!("{summary}\n"))?;
    }
    let expected = claims::are_as_expected(&rendered.claims);
    Ok(if fresh && expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_AS_ASKED)
    })
}

fn tell(written: &[PathBuf], output: &Path) -> anyhow::Result<()> {
    if written.is_empty() {
        print(&format!("{} is up to date\n", output.display()))?;
    }
    for path in written {
        print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(())
}
