//! The samples of a cell's files for its prediction, read in a process of their own. Files that crash a library, or that
//! are read for ever, end or hold up that process alone.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use base::text::with_causes;
use cell::Cell;
use data::{DataError, TextLengths, TrainingSamples};
use hub::{Roots, Snapshot};
use plan::ReadApart;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::job::end_first;
use super::outcome::ended_by;
use super::provenance::snapshots;
use super::worker::Worker;

/// The hidden command of the process.
pub const COMMAND: &str = "samples";

/// Read the samples of the cell that stdin has, and write what its prediction needs of them to stdout
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where the cell's relative input paths start
    #[arg(long, default_value = ".")]
    pub base_dir: PathBuf,
    /// Die with this process, which is the parent
    #[arg(long)]
    pub parent: Option<i32>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Read the lengths alone, before samples are cut
    #[arg(long)]
    pub lengths: bool,
}

/// What stdin has, as JSON.
#[derive(Serialize, Deserialize)]
struct Request {
    /// The cell, which need not be valid: a search may ask for one that it changes afterwards.
    cell: Cell,
    /// What it uses of the hub.
    snapshots: BTreeMap<String, Snapshot>,
}

/// Reads samples in another process of this program.
#[derive(Debug)]
pub(super) struct Apart {
    program: Worker,
    roots: Roots,
    timeout: Option<Duration>,
}

impl Apart {
    pub(super) fn new(roots: Roots, timeout: Option<Duration>) -> io::Result<Self> {
        Ok(Self {
            program: Worker::this_program()?,
            roots,
            timeout,
        })
    }

    fn read<T: DeserializeOwned>(&self, cell: &Cell, lengths: bool) -> Result<T, DataError> {
        let output = self.ask(cell, lengths);
        answer_of(&output.map_err(|error| DataError::Apart(error.to_string()))?)
    }

    fn ask(&self, cell: &Cell, lengths: bool) -> io::Result<Output> {
        let mut command = self.program.command();
        command.arg(COMMAND).arg("--base-dir").arg(self.roots.base_dir());
        command.args(["--parent", &rustix::process::getpid().as_raw_pid().to_string()]);
        if let Some(timeout) = self.timeout {
            command.args(["--timeout", &timeout.as_secs_f64().to_string()]);
        }
        if lengths {
            command.arg("--lengths");
        }
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn()?;
        end_first(&child);
        let request = serde_json::to_vec(&Request {
            cell: cell.clone(),
            snapshots: snapshots(cell, &self.roots),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A process that has ended says why.
            let _ = stdin.write_all(&request);
        }
        child.wait_with_output()
    }
}

/// The exit code of a process that says what is wrong with the samples.
pub const SAID: i32 = 1;

fn answer_of<T: DeserializeOwned>(output: &Output) -> Result<T, DataError> {
    if output.status.success() {
        let read = postcard::from_bytes(&output.stdout);
        return read
            .map_err(|error| DataError::Apart(format!("what was read of the samples cannot be understood: {error}")));
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let said = words
        .split_once("error: ")
        .map(|(_, reason)| reason.trim_end().to_owned());
    let reason =
        said.unwrap_or_else(|| format!("the process that read the samples {}", ended_by(output.status.into())));
    Err(match output.status.code() {
        Some(SAID) => DataError::Apart(reason),
        _ => DataError::Ended(reason),
    })
}

impl ReadApart for Apart {
    fn training(&self, cell: &Cell) -> Result<TrainingSamples, DataError> {
        self.read(cell, false)
    }

    fn lengths(&self, cell: &Cell) -> Result<TextLengths, DataError> {
        self.read(cell, true)
    }
}

/// Answers what stdin asks, on stdout: the process's main program.
///
/// # Errors
/// The samples cannot be read; the reason, for stderr.
pub fn answer(arguments: &Arguments) -> Result<(), String> {
    let mut request = Vec::new();
    io::stdin()
        .read_to_end(&mut request)
        .map_err(|error| error.to_string())?;
    let request: Request = serde_json::from_slice(&request).map_err(|error| error.to_string())?;
    let roots = Roots::new(&arguments.base_dir).with_snapshots(request.snapshots);
    let answer = read(&request.cell, &roots, arguments.lengths).map_err(|error| with_causes(&error))?;
    let written = io::stdout().write_all(&answer);
    written.map_err(|error| error.to_string())
}

fn read(cell: &Cell, roots: &Roots, lengths: bool) -> Result<Vec<u8>, DataError> {
    let options = cell.data_options();
    let config = arch::open(&cell.model_options(), cell.stack, roots)?;
    let encoded = match lengths {
        true => postcard::to_stdvec(&data::lengths(&options, &config, roots)?),
        false => postcard::to_stdvec(&TrainingSamples::read(&options, &config, roots)?),
    };
    encoded.map_err(|error| DataError::Apart(error.to_string()))
}
