//! The norms that LayerNorm tuning trains by a file of PEFT.

use arch::ModelConfig;
use cell::Cell;
use hub::Roots;
use peft::AdapterError;

/// Checks that the norms that a cell's `adapter_config` names for LayerNorm tuning are those that are tuned of the model.
///
/// # Errors
/// The file names others, or cannot be read.
pub fn check_norms(cell: &Cell, model: &ModelConfig, roots: &Roots) -> Result<(), AdapterError> {
    let Some(path) = cell.adapter_config.as_ref().filter(|_| cell.adapter.is_of_norms()) else {
        return Ok(());
    };
    // What cannot be fetched was said when the spec was read.
    let file = hub::path_or_file(roots.base_dir(), path, peft::CONFIG_FILE);
    let file = file.unwrap_or_else(|_| roots.path(path));
    peft::check_norms(&file, model.tuned_norms().unwrap_or_default())
}
