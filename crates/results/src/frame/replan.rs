//! Kept frames whose memory is planned again.

use std::collections::BTreeMap;

use polars_core::prelude::*;
use records::prediction::Prediction;

use super::column::column;
use crate::columns::{Kind, Predicted, REPLANNED, exact, predictions};
use crate::datum::Datum;

/// The plans of a frame's cells, by their ids.
pub type Plans = BTreeMap<String, Replan>;

/// The plan of a cell as the program makes it now.
#[derive(Debug, Clone)]
pub struct Replan {
    /// The plan.
    pub prediction: Prediction,
    /// True if it says to the byte what a run measures.
    pub is_exact: bool,
}

/// A figure of a frame that is planned otherwise now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The cell.
    pub cell_id: String,
    /// The column.
    pub column: String,
    /// The frame's bytes.
    pub kept: u64,
    /// The plan's.
    pub now: u64,
}

/// A frame with the plans of now.
#[derive(Debug, Clone)]
pub struct Replanned {
    /// The frame.
    pub cells: DataFrame,
    /// Stale cells that only a run can mend: they have figures beside their memory that no plan has.
    pub refused: Vec<String>,
}

/// Figures of a plan that are compared, by their columns; changes of all others come with them.
const PLANNED: [&str; 2] = ["predicted_allocated_peak_bytes", "predicted_reserved_peak_bytes"];

/// Columns of measured memory that no plan has: a row that is planned again loses their values.
const LOST: [(&str, Kind); 2] = [("allocated_min_bytes", Kind::Int), ("memory_efficiency", Kind::Float)];

/// Columns that a row needs a run for.
const OF_RUNS: [&str; 2] = ["profile_total_bytes", "allocated_peak_by_epoch"];

/// The figures that are compared.
struct Compared {
    /// Those that a plan has exactly.
    measured: Vec<Predicted>,
    planned: Vec<Predicted>,
}

impl Compared {
    fn new() -> Self {
        let is_bytes = |column: &Predicted| column.name.ends_with("_bytes");
        let is_compared = |column: &Predicted| PLANNED.contains(&column.name.as_str());
        Self {
            measured: exact().into_iter().filter(is_bytes).collect(),
            planned: predictions().into_iter().filter(is_compared).collect(),
        }
    }
}

/// The first figure of each cell that the frame has otherwise than the plan, the measured ones first.
pub fn stale(cells: &DataFrame, plans: &Plans) -> PolarsResult<Vec<Stale>> {
    let (rows, compared) = (rows(cells, plans)?, Compared::new());
    Ok(rows
        .into_iter()
        .filter_map(|(row, plan)| difference(cells, row, plan, &compared))
        .collect())
}

/// The frame with the plans of stale rows in place of their memory. `by` names the program.
pub fn replan(cells: &DataFrame, plans: &Plans, by: &str) -> PolarsResult<Replanned> {
    let (mut measured, mut planned, mut refused) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let compared = Compared::new();
    for (row, plan) in rows(cells, plans)? {
        let Some(stale) = difference(cells, row, plan, &compared) else {
            continue;
        };
        if is_measured(cells, row, plan) {
            if OF_RUNS.iter().any(|name| !value(cells, name, row).is_null()) {
                refused.push(stale.cell_id);
                continue;
            }
            measured.insert(row, plan);
        }
        planned.insert(row, plan);
    }
    let mut changed = cells.clone();
    for (columns, rows) in [(exact(), &measured), (predictions(), &planned)] {
        for Predicted { name, kind, value: of } in columns {
            set(&mut changed, &name, kind, |row| Some(of(&rows.get(&row)?.prediction)))?;
        }
    }
    for (name, kind) in LOST {
        set(&mut changed, name, kind, |row| {
            measured.contains_key(&row).then_some(Datum::Null)
        })?;
    }
    set(&mut changed, REPLANNED, Kind::Text, |row| {
        measured.contains_key(&row).then(|| by.into())
    })?;
    Ok(Replanned {
        cells: changed,
        refused,
    })
}

/// The rows of a frame that have a plan.
fn rows<'p>(cells: &DataFrame, plans: &'p Plans) -> PolarsResult<Vec<(usize, &'p Replan)>> {
    let ids = cells.column("cell_id")?.str()?;
    let planned = ids.iter().enumerate();
    Ok(planned.filter_map(|(row, id)| Some((row, plans.get(id?)?))).collect())
}

/// True if the row has measured figures that the plan has exactly.
fn is_measured(cells: &DataFrame, row: usize, plan: &Replan) -> bool {
    plan.is_exact && value(cells, "status", row).as_text() == Some("ok")
}

fn difference(cells: &DataFrame, row: usize, plan: &Replan, compared: &Compared) -> Option<Stale> {
    let measured = is_measured(cells, row, plan).then_some(&compared.measured);
    let columns = measured.into_iter().chain([&compared.planned]).flatten();
    columns.into_iter().find_map(|column| {
        let kept = value(cells, &column.name, row).as_int()?;
        let now = (column.value)(&plan.prediction).as_int()?;
        (kept != now).then(|| Stale {
            cell_id: value(cells, "cell_id", row).as_text().unwrap_or_default().to_owned(),
            column: column.name.clone(),
            kept,
            now,
        })
    })
}

/// The value of a column; null if the frame lacks it.
fn value(cells: &DataFrame, name: &str, row: usize) -> Datum {
    let found = cells.column(name).and_then(|column| Ok(column.get(row)?.into()));
    found.unwrap_or(Datum::Null)
}

/// Gives the rows of a column other values; those without a new one keep theirs.
fn set(cells: &mut DataFrame, name: &str, kind: Kind, new: impl Fn(usize) -> Option<Datum>) -> PolarsResult<()> {
    let values: Vec<Datum> = (0..cells.height())
        .map(|row| new(row).unwrap_or_else(|| value(cells, name, row)))
        .collect();
    cells.with_column(column(name, kind, values.into_iter())?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use cell::Cell;
    use records::{Record, sample};
    use spec::Lineage;

    use super::*;
    use crate::frame::{Row, build};

    /// A cell's frame and the plan that its record agrees with.
    fn frame_of(record: &Record, cell: &Cell) -> DataFrame {
        let row = Row {
            hides_speeds: false,
            cell_id: &record.cell_id,
            cell,
            lineage: &Lineage::Written,
            record: Some(record),
            prediction: None,
        };
        build(&[row]).unwrap()
    }

    fn plans_of(record: &Record) -> Plans {
        let measured = record.measured.as_ref().unwrap();
        let prediction = Prediction {
            allocated_peak_bytes: measured.allocated_peak_bytes.unwrap(),
            allocated_mean_bytes: measured.allocated_mean_bytes.unwrap(),
            binding_phase: "backward".into(),
            parameter_count: measured.parameter_count,
            trainable_count: measured.trainable_count,
            ..Prediction::default()
        };
        let plan = Replan {
            prediction,
            is_exact: true,
        };
        Plans::from([(record.cell_id.clone(), plan)])
    }

    #[test]
    fn a_row_takes_todays_plan_and_says_so() {
        let cell = Cell::default();
        let record = sample::ok(&cell.id());
        let (frame, mut plans) = (frame_of(&record, &cell), plans_of(&record));
        assert_eq!(stale(&frame, &plans).unwrap(), []);
        let same = replan(&frame, &plans, "today").unwrap();
        assert!(same.cells.equals_missing(&frame) && same.refused.is_empty());

        let peak = record.measured.as_ref().unwrap().allocated_peak_bytes.unwrap();
        plans.get_mut(&record.cell_id).unwrap().prediction.allocated_peak_bytes = peak + 8;
        let expected = Stale {
            cell_id: record.cell_id.clone(),
            column: "allocated_peak_bytes".into(),
            kept: peak,
            now: peak + 8,
        };
        assert_eq!(stale(&frame, &plans).unwrap(), [expected]);
        let again = replan(&frame, &plans, "today").unwrap().cells;
        assert_eq!(value(&again, "allocated_peak_bytes", 0), Datum::Int(peak + 8));
        assert_eq!(value(&again, REPLANNED, 0), "today".into());
        assert_eq!(value(&again, "memory_efficiency", 0), Datum::Null);
        assert_eq!(value(&again, "loss_last", 0), value(&frame, "loss_last", 0));
        assert_eq!(again.schema(), frame.schema());
        assert_eq!(stale(&again, &plans).unwrap(), []);
    }

    #[test]
    fn what_no_plan_has_is_left_to_a_run() {
        let cell = Cell::default();
        let mut record = sample::ok(&cell.id());
        record.measured.as_mut().unwrap().allocated_peak_by_epoch = Some(vec![1, 2]);
        let mut plans = plans_of(&record);
        plans.get_mut(&record.cell_id).unwrap().prediction.allocated_peak_bytes += 8;
        let frame = frame_of(&record, &cell);
        let refused = replan(&frame, &plans, "today").unwrap();
        assert_eq!(refused.refused, [record.cell_id.clone()]);
        assert!(refused.cells.equals_missing(&frame));
        // A plan of another program is an estimate: it takes the place of nothing that was measured.
        plans.get_mut(&record.cell_id).unwrap().is_exact = false;
        assert_eq!(stale(&frame, &plans).unwrap(), []);
    }
}
