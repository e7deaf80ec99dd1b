//! The protocol between a run and the worker that trains a cell: command line, environment, files and events.

use std::ffi::OsString;
use std::path::PathBuf;

use cell::{Cell, Engine};
use memory::BACKEND_VARIABLE;
use options::AllocatorBackend;
use records::Event;
use records::store::CellDir;
use serde_json::Value;
use spec::DEFAULT_SAVE_TOTAL_LIMIT;

/// The hidden command that says what a worker's machine offers.
pub const MACHINE_COMMAND: &str = "machine";

/// The hidden command of a worker.
pub const COMMAND: &str = "cell";

/// Train the cell of a folder's cell.yaml; steps.jsonl and record.json are written next to it
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder of the cell
    pub dir: PathBuf,
    /// Where the cell's relative input paths start
    #[arg(long, default_value = ".")]
    pub base_dir: PathBuf,
    #[arg(long, default_value_t = 1)]
    /// The number of this attempt
    pub attempt: u32,
    /// Die with this process, which is the parent
    #[arg(long)]
    pub parent: Option<i32>,
    /// Record a timeline of the first steps
    #[arg(long, value_name = "STEPS")]
    pub timeline: Option<usize>,
    /// Write the trained model into this folder
    #[arg(long, value_name = "FOLDER")]
    pub save_model: Option<PathBuf>,
    /// Write a checkpoint after every so many steps, or after this share of all
    #[arg(long, value_name = "STEPS")]
    pub save_steps: Option<f64>,
    /// The latest checkpoints that stay
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SAVE_TOTAL_LIMIT)]
    pub save_total_limit: usize,
    /// Other cells may train beside this one, so that its times say nothing
    #[arg(long)]
    pub shares_machine: bool,
    /// SHA-256 of the file that the adapter's keys came from, for the record
    #[arg(long, value_name = "HASH")]
    pub adapter_config_sha256: Option<String>,
    /// Take the largest step alone, to see if the cell fits
    #[arg(long)]
    pub trial: bool,
}

/// The hidden command that writes what a worker of another engine trains on.
pub const INPUTS_COMMAND: &str = "inputs";

/// Write the inputs of the cell of a folder, and print where they are
#[derive(Debug, clap::Args)]
pub struct InputsArguments {
    /// The folder of the cell
    pub dir: PathBuf,
    /// Where the cell's relative input paths start
    #[arg(long, default_value = ".")]
    pub base_dir: PathBuf,
    /// The folder for what this cell alone needs
    #[arg(long)]
    pub own: PathBuf,
    /// The folder for weights that cells share
    #[arg(long)]
    pub shared: PathBuf,
    /// Die with this process, which is the parent
    #[arg(long)]
    pub parent: i32,
    /// SHA-256 of the file that the adapter's keys came from, for the record
    #[arg(long, value_name = "HASH")]
    pub adapter_config_sha256: Option<String>,
    /// Write the largest steps alone
    #[arg(long)]
    pub trial: bool,
}

impl Arguments {
    /// The worker's command line, after the program.
    pub(super) fn to_command_line(&self) -> Vec<OsString> {
        let Self {
            dir,
            base_dir,
            attempt,
            parent,
            timeline,
            save_model,
            save_steps,
            save_total_limit,
            shares_machine,
            adapter_config_sha256,
            trial,
        } = self;
        let mut line = vec![
            COMMAND.into(),
            dir.into(),
            "--base-dir".into(),
            base_dir.into(),
            "--attempt".into(),
            attempt.to_string().into(),
        ];
        if let Some(parent) = parent {
            line.extend(["--parent".into(), parent.to_string().into()]);
        }
        if let Some(steps) = timeline {
            line.extend(["--timeline".into(), steps.to_string().into()]);
        }
        if let Some(folder) = save_model {
            line.extend(["--save-model".into(), folder.into()]);
        }
        if let Some(steps) = save_steps {
            line.extend(["--save-steps".into(), steps.to_string().into()]);
            line.extend(["--save-total-limit".into(), save_total_limit.to_string().into()]);
        }
        if *shares_machine {
            line.push("--shares-machine".into());
        }
        if let Some(hash) = adapter_config_sha256 {
            line.extend(["--adapter-config-sha256".into(), hash.into()]);
        }
        if *trial {
            line.push("--trial".into());
        }
        line
    }
}

/// glibc's own settings.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Huge pages for the heap, if the system gives them to programs that ask (the GNU C Library's manual, "Memory
/// Allocation Tunables"). It works from glibc 2.35 on; earlier releases ignore it.
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// The variables in the environment of the cell's worker, which libraries read before its main function; `None` for one
/// that is taken out. How many threads one for each core makes is for the worker to say.
pub fn variables(cell: &Cell) -> Vec<(&'static str, Option<String>)> {
    let threads = cell.threads.map(|threads| threads.to_string());
    let mut variables = vec![("RAYON_NUM_THREADS", threads.clone()), ("CANDLE_NUM_THREADS", threads)];
    if cell.engine() == Some(Engine::Python) {
        // Its allocators are Python's and PyTorch's.
        return variables;
    }
    variables.push((BACKEND_VARIABLE, Some(cell.backend().name().to_owned())));
    // A cell that sets or unsets the tunables decides for itself.
    if cell.backend() == AllocatorBackend::Retain && !cell.environment().contains_key(TUNABLES) {
        variables.push((TUNABLES, Some(HUGE_PAGES.to_owned())));
    }
    variables
}

/// The file of the request that exceeded the budget. The worker's allocator writes it before the process ends.
pub fn oom_file(dir: &CellDir) -> PathBuf {
    dir.path().join("oom.json")
}

/// What a cell uses of the hub, for its worker; absent if it uses nothing.
pub fn snapshots_file(dir: &CellDir) -> PathBuf {
    dir.path().join("hub.json")
}

/// An event as a line of the worker's stdout.
pub fn event_line(event: &Event) -> Option<String> {
    serde_json::to_string(event).ok()
}

/// The event of a line. One that cannot be read becomes a remark; lines that are none come from libraries.
pub(super) fn read_event(line: &[u8]) -> Option<Event> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let name = value.get("event")?.as_str()?.to_owned();
    Some(serde_json::from_value(value).unwrap_or_else(|error| Event::Remark {
        text: format!("the worker's event `{name}` cannot be read: {error}"),
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_worker_reads_the_runs_command_line() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }

        let arguments = Arguments {
            dir: "results/x".into(),
            base_dir: "specs".into(),
            attempt: 3,
            parent: Some(17),
            timeline: Some(2),
            save_model: Some("models/x".into()),
            save_steps: Some(0.125),
            save_total_limit: 3,
            shares_machine: true,
            adapter_config_sha256: Some("0f".into()),
            trial: true,
        };
        let line = arguments.to_command_line();
        let read = Line::try_parse_from(&line).unwrap().arguments;
        assert_eq!(format!("{read:?}"), format!("{arguments:?}"));
    }

    #[test]
    fn an_event_that_cannot_be_read_is_said() {
        assert_eq!(read_event(br#"{"event": "done"}"#), Some(Event::Done));
        assert_eq!(read_event(b"a library's line"), None);
        assert_eq!(read_event(br#"{"level": "info"}"#), None);
        let Some(Event::Remark { text }) = read_event(br#"{"event": "training", "stesp": 3}"#) else {
            panic!("it is a remark");
        };
        assert!(text.contains("`training`") && text.contains("missing field"), "{text}");
    }

    #[test]
    fn a_cell_cannot_set_what_the_run_sets() {
        for (name, value) in variables(&Cell::default()) {
            let mut cell = Cell::default();
            cell.env.insert(name.into(), value.or_else(|| Some("1".into())));
            assert_eq!(*cell.validate().unwrap_err().0[0].key, *format!("env.{name}"));
        }
    }

    #[test]
    fn huge_pages_are_for_the_heap_that_keeps_them() {
        let tunables = |backend| {
            let mut cell = Cell::default();
            cell.allocator.backend = Some(backend);
            variables(&cell).iter().any(|(name, _)| *name == TUNABLES)
        };
        assert_eq!(AllocatorBackend::ALL.map(tunables), [false, true, false]);
    }

    #[test]
    fn what_the_cell_unsets_stays_unset() {
        let mut cell = Cell::default();
        cell.env.insert(TUNABLES.into(), None);
        assert!(variables(&cell).iter().all(|(name, _)| *name != TUNABLES));
    }
}
