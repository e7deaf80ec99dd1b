//! The groups that a claim or a study's text is about, and a log of what expressions read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::text::quoted;
use cell::is_size;
use expression::mistake;
use indexmap::IndexSet;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use options::{ByteSize, Stack};
use results::datum::Datum;
use results::setting;

use super::basis::{Basis, Evidence, Purpose};
use super::bound::BoundClaim;
use crate::axes::key_columns;
use crate::columns;
use crate::group::{Group, Stat};
use crate::speeds;

/// The message of the error that ends an expression if a figure is missing.
pub(crate) const MISSING: &str = "a figure is missing";

/// The groups that the functions of expressions share.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    groups: Arc<Vec<Group>>,
    keys: Arc<Vec<String>>,
    /// The one of a claim's verdict; `None` for a text, whose figures are those of each group's stack.
    basis: Option<Basis>,
    purpose: Purpose,
    /// A figure to change, for looking at what hangs on it.
    shift: Option<Arc<Shift>>,
    log: Arc<Mutex<ReadLog>>,
}

/// A figure and the factor to change it by.
#[derive(Debug)]
struct Shift {
    figure: Figure,
    factor: f64,
}

/// A figure that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Figure {
    group_id: String,
    /// The group's name in messages.
    pub label: String,
    /// The column.
    pub column: String,
}

/// The reads of the expressions.
#[derive(Debug, Default)]
struct ReadLog {
    cells: IndexSet<String>,
    columns: IndexSet<String>,
    /// The figures that rest on one run.
    single: IndexSet<Figure>,
    /// True if rows were read directly, and their number with them.
    rows: bool,
    /// The first missing figure.
    missing: Option<String>,
}

impl Scope {
    /// The groups of `all` that a claim is about, of the basis that it is judged on.
    pub(crate) fn new(all: &[Group], claim: &BoundClaim, (basis, purpose): (Basis, Purpose)) -> Self {
        let is_plan = purpose == Purpose::Plan;
        let wanted = |group: &&Group| claim.is_about(group) && group.basis(is_plan) == basis;
        let groups = all.iter().filter(wanted).cloned().collect();
        Self::of(groups, all, Some(basis), purpose)
    }

    /// All groups of a study.
    pub(crate) fn of_study(all: &[Group], purpose: Purpose) -> Self {
        Self::of(all.to_vec(), all, None, purpose)
    }

    fn of(groups: Vec<Group>, all: &[Group], basis: Option<Basis>, purpose: Purpose) -> Self {
        let first = all.first().and_then(|group| group.cells.first());
        let keys = first.map(|cell| key_columns(std::slice::from_ref(cell)));
        Self {
            groups: Arc::new(groups),
            keys: Arc::new(keys.unwrap_or_default()),
            basis,
            purpose,
            shift: None,
            log: Arc::default(),
        }
    }

    /// This scope with one figure multiplied by `factor`, and an empty log.
    pub(crate) fn with_shift(&self, figure: Figure, factor: f64) -> Self {
        Self {
            shift: Some(Arc::new(Shift { figure, factor })),
            log: Arc::default(),
            ..self.clone()
        }
    }

    /// True if an expression that cannot be computed is a mistake of the spec. Later it is a matter of figures, such as
    /// a division by a category that held nothing.
    pub(crate) fn is_strict(&self) -> bool {
        self.purpose == Purpose::DryRun
    }

    /// The basis of a group's figures.
    fn basis_of(&self, group: &Group) -> Basis {
        let own = || group.basis(self.purpose == Purpose::Plan);
        self.basis.unwrap_or_else(own)
    }

    /// What the groups belong to, in messages.
    fn subject(&self) -> &'static str {
        if self.basis.is_some() { "claim" } else { "study" }
    }

    /// The rows of this name, `groups` or `cells`, in the study's order; `None` if one has no result.
    pub(crate) fn rows(&self, name: &str) -> Option<Value> {
        if !self.read_all() {
            return None;
        }
        let groups = self.groups.as_slice();
        Some(match name {
            "cells" => Value::from(Serde(groups.iter().flat_map(|group| &group.cells).collect::<Vec<_>>())),
            _ => Value::from(Serde(groups)),
        })
    }

    fn log(&self) -> MutexGuard<'_, ReadLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the cells that were read.
    pub(crate) fn read_cells(&self) -> Vec<String> {
        self.log().cells.iter().cloned().collect()
    }

    /// The columns that were read.
    pub(crate) fn read_columns(&self) -> Vec<String> {
        self.log().columns.iter().cloned().collect()
    }

    /// The figures of a single run that were read, so that nothing shows how far runs differ.
    pub(crate) fn read_once(&self) -> Vec<Figure> {
        self.log().single.iter().cloned().collect()
    }

    /// The relative standard error of a figure of a single run, by the spread of its steps; `None` if it is not known.
    pub(crate) fn error_of(&self, figure: &Figure) -> Option<f64> {
        let is_its = |group: &&Group| group.cells[0].text("group_id") == Some(&figure.group_id);
        let group = self.groups.iter().find(is_its)?;
        speeds::error_of_median(group, &figure.column)
    }

    /// True if the expressions read means and statuses alone, and no rows.
    pub(crate) fn read_means_only(&self) -> bool {
        !self.log().rows
    }

    /// The first missing figure, in words.
    pub(crate) fn missing(&self) -> Option<String> {
        self.log().missing.clone()
    }

    /// Notes a missing figure.
    pub(crate) fn miss(&self, why: String) {
        self.log().missing.get_or_insert(why);
    }

    /// Notes that all rows are read. True if each of them has a result.
    fn read_all(&self) -> bool {
        self.log().rows = true;
        let mut all = true;
        for group in self.groups.iter() {
            self.read(group);
            let known = group
                .cells
                .iter()
                .all(|cell| matches!(cell.text("status"), Some("ok" | "oom" | "oversize" | "planned")));
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

    /// The statistic of a column in a group: measured in cells that all ended well, or predicted.
    ///
    /// # Errors
    /// A column that the group's basis does not have; [`MISSING`], with the reason in the log.
    pub(crate) fn figure(&self, group: &Group, column: &str) -> Result<Stat, Error> {
        let basis = self.basis_of(group);
        check_column(basis, column)?;
        self.read(group);
        self.log().columns.insert(column.to_owned());
        let found = match basis.evidence {
            Evidence::Predicted => predicted(group, column),
            _ => measured(group, column),
        };
        let stat = found.map_err(|why| {
            self.miss(why);
            Error::new(ErrorKind::InvalidOperation, MISSING)
        })?;
        let figure = Figure {
            group_id: group.cells[0].text("group_id").unwrap_or_default().to_owned(),
            label: group.label.clone(),
            column: column.to_owned(),
        };
        let factor = match &self.shift {
            Some(shift) if shift.figure == figure => shift.factor,
            _ => 1.0,
        };
        if stat.n == 1 && basis.evidence == Evidence::Measured {
            self.log().single.insert(figure);
        }
        Ok(Stat {
            mean: stat.mean * factor,
            ..stat
        })
    }

    /// The status of a group: how it ended or, of a plan, how its budget lets it end.
    ///
    /// # Errors
    /// [`MISSING`] if it is not run, or its plan has no budget.
    pub(crate) fn status(&self, group: &Group) -> Result<String, Error> {
        self.read(group);
        let found = match self.basis_of(group).evidence {
            Evidence::Predicted => predicted_status(group),
            _ if group.status == "not run" => Err(format!("{} is not run", group.label)),
            _ => Ok(group.status.clone()),
        };
        found.map_err(|why| {
            self.miss(why);
            Error::new(ErrorKind::InvalidOperation, MISSING)
        })
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
            (!some).then(|| {
                format!(
                    "{} is {} in this {}'s cells",
                    quoted(key),
                    all.join(" or "),
                    self.subject()
                )
            })
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
            [] => format!(
                "the {} is about {} cells, and one is needed",
                self.subject(),
                chosen.len()
            ),
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

/// Makes sure that the basis has this column.
fn check_column(basis: Basis, column: &str) -> Result<(), Error> {
    let checked = match (basis.evidence, basis.stack) {
        (Evidence::Predicted, Some(Stack::Torch)) => columns::check_predicted(column),
        _ => columns::check_measured(column),
    };
    checked.map_err(|wrong| mistake(wrong.message, wrong.help))
}

/// The statistic of a measured column; or the reason why there is none.
fn measured(group: &Group, column: &str) -> Result<Stat, String> {
    let stat = group.stats.get(column).copied().flatten();
    Err(match stat {
        Some(_) if group.ok < group.cells.len() => format!("{} is {}", group.label, group.status),
        Some(stat) if stat.mean.is_nan() => format!("{column} of {} is not a number", group.label),
        Some(stat) => return Ok(stat),
        None if group.ok == 0 => format!("{} is {}", group.label, group.status),
        None => format!("{} has no {column}", group.label),
    })
}

/// The statistic of a predicted column; or the reason why there is none.
fn predicted(group: &Group, column: &str) -> Result<Stat, String> {
    let stat = group.predicted.get(column).copied().flatten();
    let is_planned = group.predicted.values().any(Option::is_some);
    stat.ok_or_else(|| match is_planned {
        false => format!("{} is not planned", group.label),
        true => format!("the plan of {} has no {column}", group.label),
    })
}

/// The status that a plan's verdict predicts; or the reason why there is none.
fn predicted_status(group: &Group) -> Result<String, String> {
    let verdicts: IndexSet<Option<&str>> = group.cells.iter().map(|cell| cell.text("predicted_verdict")).collect();
    match verdicts.into_iter().collect::<Vec<_>>().as_slice() {
        [Some("fits")] => Ok("ok".into()),
        [Some("oversize")] => Ok("oom".into()),
        [None] => Err(format!("the plan of {} has no budget", group.label)),
        _ => Err(format!("the repeats of {} differ in what they fit into", group.label)),
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
        Datum::Int(bytes) if is_size(key) && wanted.as_str().is_some() => {
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
