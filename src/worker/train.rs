//! The worker's main program: read the cell, prepare the process, train, write the record.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use base::guarded::panic_message;
use base::text::with_causes;
use cell::Cell;
use hub::{Roots, Snapshot};
use memory::timeline;
use options::StepsOrRatio;
use records::store::{CellDir, read_cell_yaml, write_record};
use records::{Event, Record, Status};
use runner::protocol::{Arguments, event_line, oom_file, snapshots_file};
use runner::provenance;
use trace::Category;
use train::checkpoint::{self, Checkpoints, Saving};
use train::{Outputs, TrainError, Trained};

use super::{WorkerError, environment, machine};

/// Trains the cell of a folder and writes its record. Returns the record's status.
///
/// # Errors
/// If the cell cannot be read, the process does not match it, or the record cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, WorkerError> {
    let (started_at, started) = (SystemTime::now(), Instant::now());
    if let Some(parent) = arguments.parent {
        environment::die_with(parent)?;
    }
    let dir = CellDir::new(&arguments.dir);
    let cell = read_cell(&dir)?;
    if cell.is_open() {
        return Err(WorkerError::Open);
    }
    environment::prepare(&cell)?;
    let budgets = memory::Tiers {
        device: cell.device_memory.map(|size| size.0),
        host: cell.host_memory.map(|size| size.0),
    };
    memory::arm(budgets, create(oom_file(&dir))?.into());
    environment::start_threads(&cell)?;
    let found = machine::found(&cell);
    print_event(&Event::Started(Box::new(found.clone())));
    let roots = Roots::new(&arguments.base_dir).with_snapshots(read_snapshots(&dir)?);
    let adapter_config = arguments.adapter_config_sha256.clone();
    let mut provenance = provenance(&cell, &roots, adapter_config, |name| std::env::var(name).ok());
    provenance.found(found);
    let from = match arguments.trial {
        true => None,
        false => {
            let mut on_remark = |text| print_event(&Event::Remark { text });
            checkpoint::latest(dir.path(), &provenance, arguments.shares_machine, &mut on_remark)?
        }
    };
    // A cell that goes on has the timeline of its first steps already.
    if let (Some(steps), None) = (arguments.timeline, &from) {
        timeline::start(create(dir.timeline())?, steps).map_err(WorkerError::Timeline)?;
    }
    let checkpoints = Checkpoints {
        provenance: provenance.clone(),
        from,
        saving: arguments.save_steps.map(|every| Saving {
            every: StepsOrRatio(every),
            limit: arguments.save_total_limit,
        }),
        shares_machine: arguments.shares_machine,
    };
    let outcome = in_pool(&cell, arguments, &roots, &dir, checkpoints);

    if let Err(error) = timeline::finish() {
        // The figures stand without a timeline.
        let _ = writeln!(stderr(), "warning: the timeline ends early: {error}");
    }
    let (status, reason, measured) = match outcome {
        Ok(Some(Trained {
            measured,
            data_sha256,
            init_adapter_sha256,
        })) => {
            provenance.data_sha256 = Some(data_sha256);
            provenance.init_adapter_sha256 = init_adapter_sha256;
            (Status::Ok, None, Some(measured))
        }
        Ok(None) => (Status::Ok, None, None),
        Err(error) => (Status::Failed, Some(with_causes(&error)), None),
    };
    if let Some(reason) = &reason {
        let _ = writeln!(stderr(), "error: {reason}");
    }
    let record = Record {
        cell_id: cell.id(),
        status,
        reason,
        attempt: arguments.attempt,
        retried: Vec::new(),
        concurrent_cells: 1,
        started_at: humantime::format_rfc3339_millis(started_at).to_string(),
        wall_seconds: started.elapsed().as_secs_f64(),
        measured,
        oom: None,
        timeout_seconds: None,
        provenance,
        files: None,
    };
    write_record(&dir, &record)?;
    Ok(status)
}

pub(super) fn read_cell(dir: &CellDir) -> Result<Cell, WorkerError> {
    let text = read_cell_yaml(dir)?;
    let path = dir.cell_yaml();
    Ok(spec::read_cell(&path.display().to_string(), &text)?)
}

/// What the run fetched for the cell.
pub(super) fn read_snapshots(dir: &CellDir) -> Result<BTreeMap<String, Snapshot>, WorkerError> {
    let path = snapshots_file(dir);
    let read = fs::read(&path).and_then(|text| Ok(serde_json::from_slice(&text)?));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        read => read.map_err(|source| WorkerError::File {
            action: "read",
            path,
            source,
        }),
    }
}

fn create(path: PathBuf) -> Result<File, WorkerError> {
    File::create(&path).map_err(|source| WorkerError::File {
        action: "create",
        path,
        source,
    })
}

/// The reason why training did not finish.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error("panicked: {0}")]
    Panic(String),
}

/// Trains on one of the pool's threads, which then computes with the others instead of waiting for them. A panic is an
/// error like any other. A trial has no figures.
fn in_pool(
    cell: &Cell,
    arguments: &Arguments,
    roots: &Roots,
    dir: &CellDir,
    checkpoints: Checkpoints,
) -> Result<Option<Trained>, Failure> {
    let options = cell.train_options();
    let model = arguments.save_model.as_ref().map(|dir| arguments.base_dir.join(dir));
    let out = Outputs {
        dir: dir.path(),
        model: model.as_deref(),
    };
    let train = || {
        rayon::scope(|_| match arguments.trial {
            true => train::trial(&options, roots, dir.path()).map(|()| None),
            false => train::run(&options, roots, out, Some(checkpoints), &mut print_event).map(Some),
        })
    };
    match catch_unwind(AssertUnwindSafe(train)) {
        Ok(trained) => Ok(trained?),
        Err(panic) => Err(Failure::Panic(panic_message(panic.as_ref()).to_owned())),
    }
}

/// Reports an event to the run. A run that has stopped reading is no reason to stop.
fn print_event(event: &Event) {
    let _scope = memory::scope(Category::Host);
    if let Some(line) = event_line(event) {
        let mut out = stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
