//! `expctl verdicts SPEC...`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use report::About;
use report::verdicts::{ClaimingStudy, page};
use spec::Overrides;

use super::accuracy::planned;
use super::output::PageFile;
use super::report_frames::FramesBeside;

const EXAMPLES: &str = "Examples:
  expctl verdicts experiments/claims/speed.yaml
  expctl verdicts experiments/*.yaml experiments/*/*.yaml --output docs/verdicts.md";

/// Write the claims of some specs with their verdicts, the refuted ones first
///
/// Nothing is trained: claims are judged by the frames of published reports. Cells of PyTorch's stack without a frame are planned.
/// Specs without claims are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Specs, with `claims` or without
    #[arg(required = true)]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    file: PageFile,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // The page does not depend on the order of the files.
    let mut specs = args.specs;
    specs.sort();
    specs.dedup();
    let mut studies = Vec::new();
    for path in &specs {
        studies.extend(claiming(path)?);
    }
    args.file.write(&page(&studies)?)
}

/// A spec's study with its frame; `None` if it claims nothing.
fn claiming(path: &Path) -> anyhow::Result<Option<ClaimingStudy>> {
    let study = spec::load(path, &Overrides::default())?;
    if study.claims.is_empty() {
        return Ok(None);
    }
    let place = study.report.publish.clone();
    let is_planned = study.is_planned();
    let (study, cells) = if is_planned {
        planned(study)?
    } else {
        report::check_study(&study)?;
        let place = place.as_deref().with_context(|| {
            let shown = path.display();
            format!("the claims of `{shown}` are judged by a run, and its `report` names no place to publish")
        })?;
        let beside = FramesBeside::of(place);
        let missing = || {
            format!(
                "the report of `{0}` is not published; after a run, `expctl report --publish {0}` does so",
                path.display()
            )
        };
        let (frames, _) = beside.read().with_context(missing)?;
        (study, frames.cells)
    };
    Ok(Some(ClaimingStudy {
        spec: path.display().to_string(),
        report: place,
        about: About {
            is_plan: is_planned,
            ..About::new(&study)
        },
        cells,
    }))
}
