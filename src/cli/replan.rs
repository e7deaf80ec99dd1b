//! The cells of a frame, planned as the program plans them now.

use std::collections::{BTreeMap, BTreeSet};

use base::text::{counted, format, with_causes};
use cell::Data;
use options::{Engine, InstructionSet};
use plan::{Options, PlanError, Planner, advice};
use polars_core::prelude::{DataFrame, PolarsResult};
use rayon::prelude::*;
use results::frame::{self, Plans, Replan, Stale};
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

/// Plans the cells of a study that are in its frame, on the instruction sets that they ran on. Notes count those that cannot be
/// planned here, because their model or their data are another study's, and are not there or are not those of the run. What
/// Python runs is left out, since a plan of it depends on what is installed.
pub(super) fn plans(study: &Study, frame: &DataFrame) -> PolarsResult<Plans> {
    let levels = levels(frame)?;
    let study = with_ladders(study, frame)?;
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
    let others = with_other_inputs(&study, frame, &plans)?;
    if !others.is_empty() {
        note(&format!(
            "{} of `{}` cannot be planned again here: model or data are not those of the run",
            counted(others.len(), "cell"),
            study.invocation.source(),
        ));
    }
    plans.retain(|id, _| !others.contains(id));
    Ok(plans)
}

/// The stale cells whose model or data here are not those of the run. Others are not looked at, since reading data takes
/// longer than planning.
fn with_other_inputs(study: &Study, frame: &DataFrame, plans: &Plans) -> PolarsResult<BTreeSet<String>> {
    let ids = frame.column("cell_id")?.str()?;
    let parameters = frame.column("parameter_count")?.i64()?;
    let data = frame.column("data_sha256")?.str()?;
    let is_other = |id: &String| {
        let row = ids.iter().position(|other| other == Some(id))?;
        let study_cell = study.cells.iter().find(|study_cell| study_cell.id == *id)?;
        let measured = parameters.get(row)?;
        let planned = plans.get(id)?.prediction.parameter_count;
        let has_other_data = || {
            let is_file = matches!(study_cell.cell.data, Data::File(_));
            is_file && hash_of_data(study, study_cell).as_deref() != data.get(row)
        };
        Some(u64::try_from(measured) != Ok(planned) || has_other_data())
    };
    let stale = frame::stale(frame, plans)?.into_iter().map(|stale| stale.cell_id);
    Ok(stale.filter(|id| is_other(id) == Some(true)).collect())
}

/// The SHA-256 of the token ids that a cell trains on here; `None` if they cannot be read.
fn hash_of_data(study: &Study, study_cell: &StudyCell) -> Option<String> {
    let (options, roots) = (study_cell.cell.train_options(), study.roots());
    let config = arch::open(&options.model, study_cell.cell.stack, &roots).ok()?;
    let dataset = data::load(&options.data, &config, &roots, &std::env::temp_dir()).ok()?;
    Some(dataset.sha256().to_owned())
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
