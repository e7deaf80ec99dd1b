//! What training will take, before anything runs.
//!
//! A stack (`candle/`, our trainer) writes a [`trace`] of what it will allocate and release; an [`account`] replays it
//! for the live bytes. [`predict`] puts together what is said of a cell.

pub mod account;
pub mod batches;
pub mod candle;
pub mod trace;

use std::path::Path;

use crate::{
    data::DataError,
    memory::{Category, Phase},
    model::{self, ModelError},
    results::prediction::Prediction,
    spec::cell::Cell,
};
use account::Account;

/// Why a cell could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Data(#[from] DataError),
}

/// What `cell`, whose relative paths start at `base_dir`, will take.
///
/// # Errors
/// Where its model or its data cannot be read.
pub fn predict(cell: &Cell, base_dir: &Path) -> Result<Prediction, PlanError> {
    let config = model::config(cell, base_dir)?;
    let steps = batches::steps(cell, &config, base_dir)?;
    let planned = candle::plan(cell, &config, &steps);
    let account = Account::of(&planned.trace, 1, planned.measured_from);
    let peak = &account.peak;
    let tensors = Category::ALL.into_iter().filter(|category| category.is_tensor());
    Ok(Prediction {
        verdict: None,
        budget_bytes: None,
        binding_phase: peak.phase.unwrap_or(Phase::Idle).name().to_owned(),
        binding_module: peak.module.map(|module| module.to_string()),
        allocated_peak_bytes: peak.bytes,
        reserved_peak_bytes: None,
        process_peak_bytes: None,
        allocated_peak_by_category: tensors
            .map(|category| (category.name().to_owned(), peak.by_category[category]))
            .collect(),
        allocated_peak_in_phase: account
            .in_phase
            .iter()
            .map(|(phase, bytes)| (phase.name().to_owned(), bytes))
            .collect(),
        allocated_mean_bytes: account.after_step,
        parameter_count: config.parameter_count(),
        trainable_count: planned.trainable_count,
        adapter_file_bytes: None,
    })
}
