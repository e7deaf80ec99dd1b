//! `cell.yaml`: the file with every key of one cell.

use std::sync::Arc;

use cell::Cell;
use yaml::Budget;
use yaml::diagnostic::Diagnostic;
use yaml::place::Sources;

use super::error::SpecError;
use super::study_file::WRITE_AGAIN;
use super::typed;

/// Reads what [`Cell::to_yaml`] wrote; `name` is the file's name, for errors.
///
/// # Errors
/// The text is damaged, or a value is not valid.
pub fn read_cell(name: &str, text: &str) -> Result<Cell, SpecError> {
    let mut sources = Sources::default();
    let source = sources.add(name, text);
    let cell = yaml::parse(text, source, 0, Budget::SPEC).and_then(|node| {
        // A file of the format 1 has every key, but not this one.
        let is_older = node.get(&["torch"]).is_none();
        let cell: Cell = typed::read(&node).map_err(|error| match is_older {
            true => Diagnostic::new(format!(
                "{}: the cell is of another version of expctl",
                error.dotted("")
            ))
            .at(error.place.unwrap_or(node.place))
            .help(WRITE_AGAIN),
            false => error.diagnostic(""),
        })?;
        cell.validate()
            .map_err(|invalid| Diagnostic::new(invalid.to_string()).at(node.place))?;
        Ok(cell)
    });
    cell.map_err(|error| SpecError::new(error, &Arc::new(sources)))
}
