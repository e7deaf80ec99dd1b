//! The outcome of an attempt: the worker's own record, or a record by the run if the worker left none.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::path::Path;

use base::text::{format, visible, with_causes};
use memory::OOM_EXIT_CODE;
use memory::control_group::limit_bytes;
use memory::probes::system_total_bytes;
use records::store::{CellDir, StoreError, read_record, write_record};
use records::{Oom, Provenance, Record, Status};
use signal_hook::consts::SIGKILL;
use signal_hook::low_level::signal_name;
use trace::Category;

use super::job::{End, Exit, Shortage, Stopped};
use super::protocol::oom_file;

/// An attempt at a cell.
pub(super) struct Attempt {
    pub(super) dir: CellDir,
    pub(super) number: u32,
    /// RFC 3339, UTC.
    pub(super) started_at: String,
    pub(super) provenance: Provenance,
}

/// Concludes an attempt with a record on disk. Returns `None` if a signal stopped the worker before it wrote one: the
/// next run tries the cell again.
pub(super) fn conclude(attempt: Attempt, exit: &Exit) -> Result<Option<Record>, StoreError> {
    let unreadable = match read_record(&attempt.dir) {
        Ok(Some(record)) if record.attempt == attempt.number => {
            // Another program may be the worker, which writes no hashes.
            if record.files.is_none() {
                write_record(&attempt.dir, &record)?;
            }
            return Ok(Some(record));
        }
        Ok(_) => None,
        Err(error) => Some(with_causes(&error)),
    };
    let verdict = match exit.stopped {
        Some(Stopped::Interrupted(_)) => return Ok(None),
        Some(Stopped::Timeout(limit)) => Verdict {
            timeout_seconds: Some(limit.as_secs_f64()),
            ..Verdict::new(
                Status::Timeout,
                format!("stopped at the limit of {}", humantime::format_duration(limit)),
            )
        },
        None => verdict(exit.end, exit.shortage, &attempt.dir),
    };
    let mut provenance = attempt.provenance;
    if let Some(found) = exit.found.clone() {
        provenance.found(found);
    }
    let reason = match unreadable {
        Some(error) => format!("{}; its record cannot be read: {error}", verdict.reason),
        None => verdict.reason,
    };
    let record = Record {
        cell_id: attempt.dir.id(),
        status: verdict.status,
        reason: Some(reason),
        attempt: attempt.number,
        retried: Vec::new(),
        concurrent_cells: 1,
        started_at: attempt.started_at,
        wall_seconds: exit.seconds,
        measured: None,
        oom: verdict.oom,
        timeout_seconds: verdict.timeout_seconds,
        provenance,
        files: None,
    };
    write_record(&attempt.dir, &record)?;
    Ok(Some(record))
}

struct Verdict {
    status: Status,
    reason: String,
    oom: Option<Oom>,
    timeout_seconds: Option<f64>,
}

impl Verdict {
    fn new(status: Status, reason: String) -> Self {
        Self {
            status,
            reason,
            oom: None,
            timeout_seconds: None,
        }
    }
}

/// The meaning of an exit without a record that the run did not cause.
fn verdict(end: End, shortage: Shortage, dir: &CellDir) -> Verdict {
    let code = match end {
        End::Signal(SIGKILL) if shortage == Shortage::OfChild => return Verdict::new(Status::Oom, ended_by_kernel()),
        End::Signal(signal) => return killed(signal, shortage),
        End::Code(code) => code,
    };
    if code == 0 {
        return Verdict::new(Status::Lost, "the process ended well but left no record".into());
    }
    if code == OOM_EXIT_CODE
        && let Some(oom) = read_oom(&oom_file(dir))
    {
        return Verdict {
            reason: oom_reason(&oom),
            oom: Some(oom),
            ..Verdict::new(Status::Oom, String::new())
        };
    }
    let words = last_line(&dir.log()).map_or_else(String::new, |line| format!(": {line}"));
    Verdict::new(
        Status::Failed,
        format!("the process ended with exit code {code} and no record{words}"),
    )
}

/// How a process ended, in words.
pub(super) fn ended_by(end: End) -> String {
    match end {
        End::Code(code) => format!("ended with exit code {code}"),
        End::Signal(signal) => format!("was ended by {}", name(signal)),
    }
}

fn name(signal: c_int) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), Into::into)
}

/// A signal that the run did not send.
fn killed(signal: c_int, shortage: Shortage) -> Verdict {
    let name = name(signal);
    let why = match (signal, shortage) {
        (SIGKILL, Shortage::None) => ", nor by the kernel for want of memory",
        (SIGKILL, Shortage::OfOthers) => ", but by the kernel for want of memory that others took",
        (SIGKILL, _) => ", maybe by the kernel for want of memory",
        _ => "",
    };
    Verdict::new(Status::Killed, format!("ended by {name}; not by expctl{why}"))
}

/// The end of a process for which the system had no more memory, in words.
fn ended_by_kernel() -> String {
    let total = system_total_bytes().unwrap_or(u64::MAX);
    match limit_bytes().filter(|limit| *limit < total) {
        Some(limit) => {
            let limit = format::bytes((limit as f64).into());
            format!("the kernel ended the process: the memory of its control group, {limit}, was used up")
        }
        None => "the kernel ended the process: the machine's memory was used up".into(),
    }
}

fn read_oom(path: &Path) -> Option<Oom> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// An out-of-memory in words.
fn oom_reason(oom: &Oom) -> String {
    let size = |bytes: u64| format::bytes((bytes as f64).into());
    let Oom { phase, category, .. } = oom;
    let (requested, allocated) = (size(oom.requested_bytes), size(oom.allocated_bytes));
    let limit = match oom.budget_bytes {
        Some(budget) => {
            let key = if category == Category::Offloaded.name() {
                "host_memory"
            } else {
                "device_memory"
            };
            format!("past the budget of {} ({key})", size(budget))
        }
        None => "and the system had no more".into(),
    };
    format!("{phase}: {requested} of {category} asked for with {allocated} allocated, {limit}")
}

fn last_line(log: &Path) -> Option<String> {
    log_tail(log, 1).ok()?.pop()
}

/// The last `lines` lines of a log that are not empty. Reads only its last few kilobytes.
///
/// # Errors
/// If the log cannot be read.
pub fn log_tail(log: &Path, lines: usize) -> io::Result<Vec<String>> {
    use std::io::{Read, Seek, SeekFrom};
    const TAIL_BYTES: u64 = 16 * 1024;
    let mut file = fs::File::open(log)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut tail: Vec<_> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(lines)
        .map(|line| visible(line).into_owned())
        .collect();
    tail.reverse();
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(root: &Path) -> CellDir {
        CellDir::new(root.join("0123456789ab"))
    }

    #[test]
    fn exits_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let dir = dir(root.path());
        fs::create_dir_all(dir.path()).unwrap();
        fs::write(dir.log(), "first\nno such device\n\n").unwrap();
        let outcome = |end| {
            let verdict = verdict(end, Shortage::None, &dir);
            (verdict.status, verdict.reason)
        };
        assert_eq!(outcome(End::Code(0)).0, Status::Lost);
        let failed = "the process ended with exit code 1 and no record: no such device";
        assert_eq!(outcome(End::Code(1)), (Status::Failed, failed.into()));
        let killed = "ended by SIGKILL; not by expctl, nor by the kernel for want of memory";
        assert_eq!(outcome(End::Signal(9)), (Status::Killed, killed.into()));
        let unknown = verdict(End::Signal(9), Shortage::Unknown, &dir).reason;
        assert_eq!(
            unknown,
            "ended by SIGKILL; not by expctl, maybe by the kernel for want of memory"
        );
        let by_kernel = |signal| verdict(End::Signal(signal), Shortage::OfChild, &dir);
        assert_eq!(
            (by_kernel(9).status, by_kernel(15).status),
            (Status::Oom, Status::Killed)
        );
        let of_others = verdict(End::Signal(9), Shortage::OfOthers, &dir);
        assert_eq!(of_others.status, Status::Killed);
        assert!(of_others.reason.ends_with("memory that others took"));
        assert!(by_kernel(9).reason.starts_with("the kernel ended the process: the m"));
        assert_eq!(
            outcome(End::Signal(11)),
            (Status::Killed, "ended by SIGSEGV; not by expctl".into())
        );
        assert_eq!(outcome(End::Code(42)).0, Status::Failed, "no request is in the file");
        let line = r#"{"phase":"backward","category":"gradient","requested_bytes":4194304,"#.to_owned()
            + r#""allocated_bytes":2147483640,"budget_bytes":2147483648}"#;
        fs::write(oom_file(&dir), line).unwrap();
        let oom = "backward: 4.0 MiB of gradient asked for with 2.00 GiB allocated, past the budget of 2.00 GiB (device_memory)";
        assert_eq!(outcome(End::Code(42)), (Status::Oom, oom.into()));
    }

    #[test]
    fn a_long_log_is_read_from_its_end() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("log.txt");
        let lines: Vec<_> = (0..10_000).map(|n| format!("line {n}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        assert_eq!(log_tail(&log, 2).unwrap(), ["line 9998", "line 9999"]);
        fs::write(&log, "").unwrap();
        assert_eq!(log_tail(&log, 2).unwrap(), [""; 0]);
    }
}
