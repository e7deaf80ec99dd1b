//! The cells of a frame, planned as the program plans them now.

use std::collections::{BTreeMap, BTreeSet};

use base::text::{counted, format, with_causes};
use options::{Engine, InstructionSet};
use plan::{Options, PlanError, Planner, advice};
use polars_core::prelude::{DataFrame, PolarsResult};
use rayon::prelude::*;
use results::frame::{Plans, Replan, Stale};
use spec::{Study, StudyCell};

use super::output::note;

/// The program as a frame names it, for the rows that it planned again.
pub(super) fn this_program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match runner::sources() {
        Some(sources) => format!("expctl {version} (sources {sources})"),
        None => format!("expctl {version}"),
    }
}

/// Plans the cells of a study that are in its frame, on the instruction sets that they ran on. Those that cannot be planned
/// here are counted in a note: their model or their data may be another study's. What Python runs is left out, since a plan
/// of it depends on what is installed.
pub(super) fn plans(study: &Study, cells: &DataFrame) -> PolarsResult<Plans> {
    let levels = levels(cells)?;
    let study = with_ladders(study, cells)?;
    let planner = |level: &Option<InstructionSet>| {
        let options = Options {
            instruction_set: *level,
            ..Options::default()
        };
        (*level, Planner::new(study.roots(), options))
    };
    let planners: BTreeMap<Option<InstructionSet>, Planner> = levels
        .values()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(planner)
        .collect();
    let is_planned = |study_cell: &&StudyCell| study_cell.cell.engine() != Some(Engine::Python);
    let cells: Vec<&StudyCell> = study.cells.iter().filter(is_planned).collect();
    let planned = cells.into_par_iter().filter_map(|study_cell| {
        let planner = planners.get(levels.get(&study_cell.id)?)?;
        Some((study_cell, advice::predict(planner, &study_cell.cell, &study.fit)))
    });
    let planned: Vec<(&StudyCell, Result<_, PlanError>)> = planned.collect();
    let (mut plans, mut errors) = (Plans::new(), Vec::new());
    for (study_cell, prediction) in planned {
        match prediction {
            Ok(prediction) => {
                let replan = Replan {
                    prediction,
                    is_exact: study_cell.cell.engine() == Some(Engine::Candle),
                };
                plans.insert(study_cell.id.clone(), replan);
            }
            Err(error) => errors.push(error),
        }
    }
    if let [first, ..] = errors.as_slice() {
        note(&format!(
            "{} of `{}` cannot be planned again here: {}",
            counted(errors.len(), "cell"),
            study.invocation.source(),
            with_causes(first),
        ));
    }
    Ok(plans)
}

/// The instruction set that each cell of a frame ran on; `None` for one that did not run.
fn levels(cells: &DataFrame) -> PolarsResult<BTreeMap<String, Option<InstructionSet>>> {
    let ids = cells.column("cell_id")?.str()?.iter();
    let names = cells.column("instruction_set")?.str()?.iter();
    let level = |(id, name): (Option<&str>, Option<&str>)| Some((id?.to_owned(), name.and_then(InstructionSet::named)));
    Ok(ids.zip(names).filter_map(level).collect())
}

/// The study with the cells that follow others on its ladder, as far as the frame has them.
fn with_ladders(study: &Study, cells: &DataFrame) -> PolarsResult<Study> {
    let mut study = study.clone();
    let followed: BTreeSet<&str> = cells.column("fallback_of")?.str()?.iter().flatten().collect();
    let planner = Planner::new(study.roots(), Options::default());
    let mut index = 0;
    while let Some(study_cell) = study.cells.get(index) {
        if followed.contains(study_cell.id.as_str()) {
            runner::follow(&mut study, &planner, index);
        }
        index += 1;
    }
    Ok(study)
}

/// A line about a stale cell: what is committed, and what it is today.
pub(super) fn line(stale: &Stale) -> String {
    let Stale {
        cell_id,
        column,
        kept,
        now,
    } = stale;
    let share = (*now as f64 - *kept as f64) / *kept as f64;
    let whole = |bytes: &u64| format::number((*bytes as f64).into(), 0);
    format!(
        "cell {cell_id}: {column} is {} and today {} ({:+.3} %)",
        whole(kept),
        whole(now),
        share * 100.0
    )
}
