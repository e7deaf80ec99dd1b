//! The groups that a claim is about, and a log of what its expressions read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexSet;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::expression::mistake;
use crate::options::ByteSize;
use crate::report::axes::key_columns;
use crate::report::group::{Group, Stat};
use crate::results::datum::Datum;
use crate::results::setting;
use crate::spec;
use crate::text::quoted;

/// The message of the error that ends an expression if a measurement is missing.
pub(crate) const NOT_MEASURED: &str = "it was not measured";

/// The groups that the functions of one claim's expressions share.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    groups: Arc<Vec<Group>>,
    keys: Arc<Vec<String>>,
    log: Arc<Mutex<ReadLog>>,
}

/// The reads of the expressions.
#[derive(Debug, Default)]
struct ReadLog {
    cells: IndexSet<String>,
    /// Measured columns.
    columns: IndexSet<String>,
    /// True if rows were read directly, and their number with them.
    rows: bool,
    /// The first missing measurement.
    missing: Option<String>,
}

impl Scope {
    /// The groups of `all` that have one of these ids.
    pub(crate) fn new(all: &[Group], ids: &IndexSet<String>) -> Self {
        let wanted = |group: &&Group| group.cells[0].text("group_id").is_some_and(|id| ids.contains(id));
        let groups: Vec<Group> = all.iter().filter(wanted).cloned().collect();
        let first = all.first().and_then(|group| group.cells.first());
        Self {
            groups: Arc::new(groups),
            keys: Arc::new(
                first
                    .map(|cell| key_columns(std::slice::from_ref(cell)))
                    .unwrap_or_default(),
            ),
            log: Arc::default(),
        }
    }

    /// The groups, in the study's order.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    fn log(&self) -> MutexGuard<'_, ReadLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the cells that were read.
    pub(crate) fn read_cells(&self) -> Vec<String> {
        self.log().cells.iter().cloned().collect()
    }

    /// The measured columns that were read.
    pub(crate) fn read_columns(&self) -> Vec<String> {
        self.log().columns.iter().cloned().collect()
    }

    /// True if the expressions read means and statuses alone, and no rows.
    pub(crate) fn read_means_only(&self) -> bool {
        !self.log().rows
    }

    /// The first missing measurement, in words.
    pub(crate) fn missing(&self) -> Option<String> {
        self.log().missing.clone()
    }

    /// Notes a missing measurement.
    pub(crate) fn miss(&self, why: String) {
        self.log().missing.get_or_insert(why);
    }

    /// Notes that all rows are read. True if each of them has a result.
    pub(crate) fn read_all(&self) -> bool {
        self.log().rows = true;
        let mut all = true;
        for group in self.groups.iter() {
            self.read(group);
            let known = group
                .cells
                .iter()
                .all(|cell| matches!(cell.text("status"), Some("ok" | "oom")));
            if !known {
                self.miss(format!("{} is {}", group.label, group.status));
                all = false;
            }
        }
        all
    }

    fn read(&self, group: &Group) {
        let ids = group.cells.iter().filter_map(|cell| cell.text("cell_id"));
        self.log().cells.extend(ids.map(str::to_owned));
    }

    /// The statistic of a column in a group whose cells all ended well.
    ///
    /// # Errors
    /// [`NOT_MEASURED`], with the reason in the log.
    pub(crate) fn measured(&self, group: &Group, column: &str) -> Result<Stat, Error> {
        self.read(group);
        self.log().columns.insert(column.to_owned());
        let stat = group.stats.get(column).copied().flatten();
        let why = match stat {
            Some(_) if group.ok < group.cells.len() => format!("{} is {}", group.label, group.status),
            Some(stat) if stat.mean.is_nan() => format!("{column} of {} is not a number", group.label),
            Some(stat) => return Ok(stat),
            None if group.ok == 0 => format!("{} is {}", group.label, group.status),
            None => format!("{} has no {column}", group.label),
        };
        self.miss(why);
        Err(Error::new(ErrorKind::InvalidOperation, NOT_MEASURED))
    }

    /// The status of a group.
    ///
    /// # Errors
    /// [`NOT_MEASURED`] if it is not run.
    pub(crate) fn status(&self, group: &Group) -> Result<String, Error> {
        self.read(group);
        if group.status == "not run" {
            self.miss(format!("{} is not run", group.label));
            return Err(Error::new(ErrorKind::InvalidOperation, NOT_MEASURED));
        }
        Ok(group.status.clone())
    }

    /// The groups that have these values.
    ///
    /// # Errors
    /// An unknown key, or values that no group has.
    pub(crate) fn choose(&self, wanted: &[(String, Value)]) -> Result<Vec<&Group>, Error> {
        for (key, _) in wanted {
            self.check_key(key)?;
        }
        let fits = |group: &&Group| {
            wanted
                .iter()
                .all(|(key, value)| is(group.cells[0].get(key), key, value))
        };
        let chosen: Vec<&Group> = self.groups.iter().filter(fits).collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let text: Vec<String> = wanted.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
        let values = |(key, value): &(String, Value)| {
            let there = |group: &Group| setting(key, group.cells[0].get(key));
            let some = self.groups.iter().any(|group| is(group.cells[0].get(key), key, value));
            let all: IndexSet<String> = self.groups.iter().map(there).collect();
            let all: Vec<String> = all.into_iter().take(8).collect();
            (!some).then(|| format!("{} is {} in this claim's cells", quoted(key), all.join(" or ")))
        };
        Err(mistake(
            format!("no cell has {}", text.join(", ")),
            wanted.iter().find_map(values),
        ))
    }

    /// The one group that has these values.
    ///
    /// # Errors
    /// Those of [`choose`](Self::choose), and values that several groups have.
    pub(crate) fn one(&self, wanted: &[(String, Value)]) -> Result<&Group, Error> {
        let chosen = self.choose(wanted)?;
        if let [one] = chosen.as_slice() {
            return Ok(one);
        }
        let open = |axis: &&String| {
            let values: IndexSet<&String> = chosen.iter().map(|group| &group.axes[*axis]).collect();
            values.len() > 1
        };
        let open: Vec<&str> = chosen[0].axes.keys().filter(open).map(String::as_str).collect();
        let message = match wanted {
            [] => format!("the claim is about {} cells, and one is needed", chosen.len()),
            _ => format!("{} cells have these values, and one is needed", chosen.len()),
        };
        Err(mistake(message, Some(format!("say which {}", open.join(" and ")))))
    }

    fn check_key(&self, key: &str) -> Result<(), Error> {
        if self.keys.iter().any(|known| known == key) {
            return Ok(());
        }
        let known: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let help =
            spec::suggestion(key, &known).unwrap_or_else(|| "cells are picked by their keys, such as `rank=16`".into());
        Err(mistake(format!("{} is not a key of a cell", quoted(key)), Some(help)))
    }
}

/// True if a key of the frame has the value that an expression names.
fn is(datum: &Datum, key: &str, wanted: &Value) -> bool {
    if wanted.is_none() {
        return datum.is_null();
    }
    let number = || f64::try_from(wanted.clone()).ok().filter(|_| wanted.is_number());
    match datum {
        Datum::Null => false,
        Datum::Bool(value) => wanted.kind() == ValueKind::Bool && wanted.is_true() == *value,
        Datum::Int(bytes) if key == "device_memory" && wanted.as_str().is_some() => {
            wanted.as_str().and_then(|text| text.parse().ok()) == Some(ByteSize(*bytes))
        }
        Datum::Int(value) => number() == Some(*value as f64),
        Datum::Float(value) => number() == Some(*value),
        Datum::Text(text) => match wanted.as_str() {
            Some(wanted) => wanted == text,
            // A list or a map, as the frame writes it.
            None => serde_json::to_value(wanted).is_ok_and(|json| Datum::flow(&json) == *datum),
        },
    }
}
