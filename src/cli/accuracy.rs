//! `expctl accuracy SPEC...`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use rayon::prelude::*;

use super::plan::frame_of;
use super::{NOT_AS_ASKED, print};
use crate::plan::{Options, Planner};
use crate::report::{self, About, accuracy};
use crate::results::store::write_if_changed;
use crate::spec::{self, Overrides};

/// Set what is predicted beside what was published, for all figures of some specs, the worst first
///
/// The cells are planned, none is run. Prints the page, or writes it to a file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Specs with `published` figures
    #[arg(required = true)]
    specs: Vec<PathBuf>,
    /// The Markdown file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; exit code 1 where the file is not what it would be now
    #[arg(long, requires = "output")]
    check: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut studies = Vec::new();
    for path in &args.specs {
        let study = spec::load(path, &Overrides::default())?;
        report::check_study(&study)?;
        let planner = Planner::new(&study.directory, Options::default());
        let predictions = study.cells.par_iter().map(|planned| planner.predict(&planned.cell));
        let predictions = predictions
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| path.display().to_string())?;
        studies.push(accuracy::Planned {
            spec: path.display().to_string(),
            cells: frame_of(&study, predictions.iter())?,
            about: About::new(&study),
        });
    }
    let page = accuracy::accuracy(studies)?;
    let Some(output) = args.output else {
        print(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.check {
        let is = std::fs::read_to_string(&output).unwrap_or_default();
        if is == page {
            print(&format!("{} is up to date\n", output.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("`{}` is stale", output.display());
        return Ok(ExitCode::from(NOT_AS_ASKED));
    }
    let word = if write_if_changed(&output, page.as_bytes())? {
        "wrote"
    } else {
        "unchanged:"
    };
    print(&format!("{word} {}\n", output.display()))?;
    Ok(ExitCode::SUCCESS)
}
