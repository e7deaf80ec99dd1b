//! The meaning of a status for a run.

use records::Status;

/// True if this status is a result. Cells without a result run again.
pub(super) fn is_result(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Oom)
}

/// True if this status counts as a failure.
pub(super) fn is_failure(status: Status) -> bool {
    !is_result(status) && status != Status::Oversize
}

/// True if the process ended in a way that says nothing of the cell, so that another attempt may end well.
pub(super) fn is_lost(status: Status) -> bool {
    matches!(status, Status::Killed | Status::Lost)
}
