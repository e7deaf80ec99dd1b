//! Published figures of many cells, which stand in a CSV file next to the spec.

use std::path::Path;

use super::diagnostic::Diagnostic;
use super::expand::Expansion;
use super::published::Published;
use super::read::read_text;
use crate::text::quoted;

/// The largest file of figures, in bytes.
const LARGEST: u64 = 4 << 20;

/// The figures of the spec: an entry with `values` becomes one for each row of its file. `folder` is the spec's.
pub(crate) fn read_values(
    published: Vec<Published>,
    folder: &Path,
    expansion: Option<&Expansion>,
) -> (Vec<Published>, Vec<Diagnostic>) {
    let mut figures = Vec::new();
    let mut mistakes = Vec::new();
    for entry in published {
        let Some(file) = &entry.values else {
            figures.push(entry);
            continue;
        };
        match rows(&folder.join(file), &entry.column) {
            Ok(rows) => figures.extend(bind(&entry, rows, expansion)),
            Err(message) => {
                let mistake = Diagnostic::new(format!("published: {message}"));
                mistakes.push(match entry.origin.place("values") {
                    Some(place) => mistake.at(place),
                    None => mistake,
                });
            }
        }
    }
    (figures, mistakes)
}

/// A figure for each row whose cell is in the study. Rows of other cells are left out: an override makes other cells.
fn bind(entry: &Published, rows: Vec<(String, String)>, expansion: Option<&Expansion>) -> Vec<Published> {
    let cells = expansion
        .map(|expansion| expansion.cells.as_slice())
        .unwrap_or_default();
    let figure = |(id, value): (String, String)| {
        let cell = cells.iter().find(|cell| cell.id == id)?;
        Some(Published {
            value,
            values: None,
            cell: cell.axes.clone(),
            ..entry.clone()
        })
    };
    rows.into_iter().filter_map(figure).collect()
}

/// The ids of cells and their values of `column`.
fn rows(path: &Path, column: &str) -> Result<Vec<(String, String)>, String> {
    let text = read_text(path, LARGEST).map_err(|error| error.message().to_owned())?;
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let find = |name: &str| {
        let missing = || format!("{} has no column {}", path.display(), quoted(name));
        header.iter().position(|there| *there == name).ok_or_else(missing)
    };
    let (id, value) = (find("cell_id")?, find(column)?);
    let row = |(index, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').collect();
        match fields.len() == header.len() && !line.contains('"') {
            true => Ok((fields[id].to_owned(), fields[value].to_owned())),
            false => Err(format!(
                "row {} of {} is not one of plain fields",
                index + 1,
                path.display()
            )),
        }
    };
    lines.enumerate().map(row).collect()
}
