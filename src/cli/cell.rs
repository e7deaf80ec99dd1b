//! `expctl cell DIR`, hidden: trains one cell, in the process that `expctl run` starts for it.

use std::any::Any;
use std::fs::File;
use std::io::{Write, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context, anyhow, ensure};
use rustix::process::{Pid, getppid};

use crate::kernels::InstructionSet;
use crate::memory::{self, Category, timeline};
use crate::options::AllocatorBackend;
use crate::results::record::{Event, Record, Status};
use crate::results::store::{CellDir, write_record};
use crate::runner;
use crate::spec::cell::Cell;
use crate::train::{self, TrainError, Trained};

use super::{FAILED, with_causes};

/// Dropping a long chain of tensors recurses.
const STACK: usize = 64 << 20;

/// Train the cell of a folder's cell.yaml; steps.jsonl and record.json are written beside it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    dir: PathBuf,
    /// Where the cell's relative input paths start
    #[arg(long, default_value = ".")]
    base_dir: PathBuf,
    #[arg(long, default_value_t = 1)]
    attempt: u32,
    /// Die with this process, which is the parent
    #[arg(long)]
    parent: Option<i32>,
    /// Record a timeline of the first steps
    #[arg(long, value_name = "STEPS")]
    timeline: Option<usize>,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let started = (SystemTime::now(), Instant::now());
    if let Some(parent) = args.parent {
        die_with(parent)?;
    }
    let dir = CellDir::new(&args.dir);
    let path = dir.cell_yaml();
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let cell = Cell::from_yaml(&path.display().to_string(), &text)?;
    for (name, value) in runner::variables(&cell) {
        let seen = std::env::var(name).ok();
        ensure!(
            seen.as_deref() == Some(&value),
            "{name} must be {value} in the environment, as `expctl run` sets it; it is {seen:?}"
        );
    }
    let (asked, backend) = (cell.backend().name(), AllocatorBackend::current().name());
    ensure!(
        backend == asked,
        "this build has no allocator `{asked}`; it runs on `{backend}`"
    );
    let level = runner::instruction_set(&cell);
    ensure!(
        level.choose(),
        "this CPU has no `{}`; it has `{}`",
        level.name(),
        InstructionSet::best().name()
    );
    let oom = runner::oom_file(&dir);
    let oom = File::create(&oom).with_context(|| format!("cannot create `{}`", oom.display()))?;
    memory::arm(cell.device_memory.map(|size| size.0), oom.into());
    rayon::ThreadPoolBuilder::new()
        .num_threads(runner::threads(&cell))
        .stack_size(STACK)
        .build_global()?;

    if let Some(steps) = args.timeline {
        let path = dir.timeline();
        let file = File::create(&path).with_context(|| format!("cannot create `{}`", path.display()))?;
        timeline::start(file, steps).context("cannot record a timeline")?;
    }
    let outcome = in_pool(&cell, &args.base_dir, &dir);
    if let Err(error) = timeline::finish() {
        // What was measured stands without it.
        eprintln!("warning: the timeline ends early: {error}");
    }
    let mut provenance = runner::provenance(&cell, |name| std::env::var(name).ok());
    let (status, reason, measured) = match outcome {
        Ok(Trained { measured, data_sha256 }) => {
            provenance.data_sha256 = Some(data_sha256);
            (Status::Ok, None, Some(measured))
        }
        Err(error) => (Status::Failed, Some(with_causes(&error)), None),
    };
    if let Some(reason) = &reason {
        let _ = writeln!(std::io::stderr(), "error: {reason}");
    }
    let record = Record {
        cell_id: cell.id(),
        status,
        reason,
        attempt: args.attempt,
        started_at: humantime::format_rfc3339_millis(started.0).to_string(),
        wall_seconds: started.1.elapsed().as_secs_f64(),
        measured,
        oom: None,
        timeout_seconds: None,
        provenance,
    };
    write_record(&dir, &record)?;
    Ok(if status == Status::Ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// Has the kernel kill this process when its parent ends, and makes sure that it did not end before.
fn die_with(parent: i32) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    ensure!(
        getppid() == Pid::from_raw(parent),
        "the run that started this cell has ended"
    );
    Ok(())
}

/// Trains on one of the pool's threads, so that it computes with the others instead of waiting for them; a panic is an
/// error like any other.
fn in_pool(cell: &Cell, base_dir: &Path, dir: &CellDir) -> anyhow::Result<Trained> {
    let train = || rayon::scope(|_| train::run(&cell.train_options(), base_dir, dir.path(), &mut print_event));
    match catch_unwind(AssertUnwindSafe(train)) {
        Ok(trained) => trained.map_err(|error: TrainError| error.into()),
        Err(panic) => Err(anyhow!("panicked: {}", panic_message(panic.as_ref()))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// Tells the run how far the cell is. Nobody listening is no reason to stop.
fn print_event(event: &Event) {
    let _scope = memory::scope(Category::Host);
    if let Ok(line) = serde_json::to_string(event) {
        let mut out = stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
