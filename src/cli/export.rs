//! `expctl export CELL`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use export::{chrome, csv, pytorch};
use records::store::{check_file, read_record};
use results::timeline;

use super::{print, studies};

const EXAMPLES: &str = "Examples:
  expctl export CELL --format pytorch
  expctl export CELL --format chrome";

/// Write a cell's timeline in another program's format
///
/// The run must have recorded the timeline: `record: {timeline: true}` in the spec, or `--set record.timeline=true`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The beginning of the cell's id, or its folder
    cell: String,
    /// The folder of the studies
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// The other program's format
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write, or - for the standard output [default: timeline.pickle, timeline.json or timeline.csv in the
    /// cell's folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// PyTorch's memory snapshot, for pytorch.org/memory_viz
    Pytorch,
    /// A trace for ui.perfetto.dev and chrome://tracing
    Chrome,
    /// A line for each event
    Csv,
}

impl Format {
    fn file_name(self) -> &'static str {
        match self {
            Self::Pytorch => "timeline.pickle",
            Self::Chrome => "timeline.json",
            Self::Csv => "timeline.csv",
        }
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let dir = studies::cell(&args.cell, &args.results)?;
    let path = dir.timeline();
    ensure!(
        path.exists(),
        "cell {} has no timeline; `expctl run SPEC --fresh --set record.timeline=true` records those of a study",
        dir.id()
    );
    if let Some(record) = read_record(&dir)? {
        check_file(&record, &path)?;
    }
    let recording = timeline::read(&path)?;
    if recording.lost > 0 {
        eprintln!(
            "warning: the recording ends where the first of {} events found no room",
            recording.lost
        );
    } else if !recording.complete {
        eprintln!("warning: the recording was cut short by the end of its process");
    }
    let write = |out: &mut dyn Write| match args.format {
        Format::Pytorch => pytorch::write(&recording, out),
        Format::Chrome => chrome::write(&recording, &format!("expctl cell {}", dir.id()), out),
        Format::Csv => csv::write(&recording, out),
    };
    let output = args.output.unwrap_or_else(|| dir.path().join(args.format.file_name()));
    if output.as_os_str() == "-" {
        // A reader that has gone, as with `| head`, is not an error.
        match write(&mut BufWriter::new(io::stdout().lock())) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
    ensure!(
        output != path,
        "the export cannot replace the recording itself, `{}`",
        path.display()
    );
    let failed = || format!("cannot write `{}`", output.display());
    let file = File::create(&output).with_context(failed)?;
    write(&mut BufWriter::new(file)).with_context(failed)?;
    print(&format!("wrote {}\n", output.display()))?;
    Ok(ExitCode::SUCCESS)
}
