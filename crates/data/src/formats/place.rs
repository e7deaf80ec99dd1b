//! The place of a row, for messages.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A row's place in its file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    path: Arc<Path>,
    unit: Unit,
    /// From 1.
    number: u64,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Line,
    Row,
    Object,
}

impl Place {
    pub(crate) fn line(path: &Arc<Path>, number: u64) -> Self {
        Self::new(path, Unit::Line, number)
    }

    pub(super) fn row(path: &Arc<Path>, number: u64) -> Self {
        Self::new(path, Unit::Row, number)
    }

    /// The object with this number in an array.
    pub(super) fn object(path: &Arc<Path>, number: u64) -> Self {
        Self::new(path, Unit::Object, number)
    }

    fn new(path: &Arc<Path>, unit: Unit, number: u64) -> Self {
        Self {
            path: Arc::clone(path),
            unit,
            number,
        }
    }
}

/// `texts.jsonl:7`, `texts.parquet: row 7` or `texts.json: object 7`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, number) = (self.path.display(), self.number);
        match self.unit {
            Unit::Line => write!(f, "{path}:{number}"),
            Unit::Row => write!(f, "{path}: row {number}"),
            Unit::Object => write!(f, "{path}: object {number}"),
        }
    }
}
