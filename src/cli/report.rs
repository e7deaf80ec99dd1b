//! `expctl report SPEC|RESULTS`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::study_report::{Frames, StudyReport};
use super::{FAILED, claims, print, studies};
use crate::report::{Rendered, check_study, stale_files};
use crate::results::store::StudyDir;
use crate::spec::{self, Study, TEMPLATES};
use crate::text::counted;

/// Make a study's frame and report from its records
///
/// Writes `cells.parquet` and `cells.csv` into the study's folder, and the report with its charts. Files that would not
/// change are left alone. The cells are those of the last `expctl run`. With a spec, its present description, report,
/// published figures and claims are used.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The spec, or the study's folder
    #[arg(value_name = "SPEC|RESULTS")]
    study: PathBuf,
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
    /// The Markdown file [default: the spec's, else report.md in the study's folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; exit code 1 if a file is stale or a claim's verdict is unexpected. A spec expects `supported`,
    /// unless it says otherwise
    #[arg(long)]
    check: bool,
    /// Include records of cells that are no longer in the spec
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (dir, mut study) = studies::open(&args.study, args.results.as_deref())?;
    let is_current = !studies::is_spec(&args.study) || update_from_spec(&args.study, &mut study, &dir)?;
    let report = StudyReport::new(&study, &dir, args.template.as_deref(), args.output)?;
    check_study(&study)?;
    let frames = Frames::read(&dir, &study, args.all)?;
    if args.check {
        return check(&report.render(&frames)?, &report.output, is_current);
    }
    let (_, written) = report.write(&frames)?;
    if written.is_empty() {
        print(&format!("{} is up to date\n", report.output.display()))?;
    }
    for path in written {
        print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes from the present spec everything that does not change the cells. Returns true if its cells are still the
/// study's, and warns if not.
fn update_from_spec(spec: &Path, study: &mut Study, dir: &StudyDir) -> anyhow::Result<bool> {
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

/// Checks that the files are up to date, and that the verdicts on the claims are the expected ones.
fn check(rendered: &Rendered, output: &Path, is_current: bool) -> anyhow::Result<ExitCode> {
    let stale = stale_files(rendered, output)?;
    for file in &stale {
        eprintln!("{file}");
    }
    let is_fresh = stale.is_empty() && is_current;
    if is_fresh {
        print(&format!("{} is up to date\n", output.display()))?;
    }
    if let Some(summary) = claims::summary(&rendered.claims) {
        print(&format!("{summary}\n"))?;
    }
    let expected = claims::are_as_expected(&rendered.claims);
    Ok(if is_fresh && expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}
