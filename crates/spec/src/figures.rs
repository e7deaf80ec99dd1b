//! Published figures of many cells, which stand in a CSV file next to the spec.

use std::collections::HashSet;
use std::path::Path;

use base::text::{Mistake, quoted};
use yaml::diagnostic::Mistakes;

use super::cell_selector::CellSelector;
use super::published::{Published, check_number};
use super::read::read_text;

/// The largest file of figures, in bytes.
const LARGEST: u64 = 4 << 20;

/// A line of a file of figures.
struct Row {
    /// From 1, the header included.
    line: usize,
    cell_id: String,
    value: String,
}

/// The figures of the spec: an entry with `values` becomes one for each row of its file. `folder` is the spec's. A file
/// without a number for these cells is noted.
pub(crate) fn read_values(
    published: Vec<Published>,
    folder: &Path,
    selector: &CellSelector<'_>,
    mistakes: &mut Mistakes,
    notes: &mut Vec<String>,
) -> Vec<Published> {
    let mut figures = Vec::new();
    for entry in published {
        let Some(file) = &entry.values else {
            figures.push(entry);
            continue;
        };
        let path = folder.join(file);
        match rows(&path, &entry.column).and_then(|rows| bind(&entry, &path, rows, selector)) {
            Ok(bound) => {
                if bound.is_empty() && selector.expansion.is_some() {
                    let (name, column) = (entry.origin.name(), quoted(&entry.column));
                    let file = path.display();
                    notes.push(format!(
                        "{name}: {file} has no number of {column} for these cells, so there is no figure"
                    ));
                }
                figures.extend(bound);
            }
            Err(mistake) => mistakes.add(entry.origin.diagnostic("values", &mistake)),
        }
    }
    figures
}

/// A figure for each row. After an override the cells may be others, and rows without a cell are left out. A cell with
/// open values gets its id later.
fn bind(
    entry: &Published,
    path: &Path,
    rows: Vec<Row>,
    selector: &CellSelector<'_>,
) -> Result<Vec<Published>, Mistake> {
    let mut figures = Vec::new();
    let mut ids = HashSet::new();
    for Row { line, cell_id, value } in rows {
        let wrong = |message: &str| Mistake::new(format!("line {line} of {}: {message}", path.display()));
        if let Some(mistake) = check_number(&value) {
            return Err(wrong(&mistake.message));
        }
        if !ids.insert(cell_id.clone()) {
            return Err(wrong(&format!("the cell {} has a figure already", quoted(&cell_id))));
        }
        let Some(expansion) = selector.expansion else { continue };
        match expansion.cells.iter().find(|cell| cell.id == cell_id) {
            Some(cell) => figures.push(Published {
                value,
                values: None,
                cell: cell.selection(),
                ..entry.clone()
            }),
            None if expansion.cells.iter().any(|study_cell| study_cell.cell.is_open()) => figures.push(Published {
                value,
                values: None,
                cell_id: Some(cell_id),
                ..entry.clone()
            }),
            None if selector.layers.is_empty() => {
                return Err(wrong(&format!("the study has no cell {}", quoted(&cell_id))));
            }
            None => {}
        }
    }
    Ok(figures)
}

/// The ids of cells and their values of `column`; an empty field is no figure.
fn rows(path: &Path, column: &str) -> Result<Vec<Row>, Mistake> {
    let text = read_text(path, LARGEST).map_err(|error| Mistake::new(error.message()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.is_empty());
    let header: Vec<&str> = lines.next().map_or("", |(line, _)| line).split(',').collect();
    let find = |name: &str| {
        let missing = || Mistake::new(format!("{} has no column {}", path.display(), quoted(name)));
        header.iter().position(|there| *there == name).ok_or_else(missing)
    };
    let (id, value) = (find("cell_id")?, find(column)?);
    let row = |(text, line): (&str, usize)| {
        let fields: Vec<&str> = text.split(',').collect();
        match fields.len() == header.len() && !text.contains('"') {
            true => Ok(Row {
                line,
                cell_id: fields[id].to_owned(),
                value: fields[value].to_owned(),
            }),
            false => Err(Mistake::new(format!(
                "line {line} of {} is not one of plain fields",
                path.display()
            ))),
        }
    };
    let mut rows: Vec<Row> = lines.map(row).collect::<Result<_, _>>()?;
    rows.retain(|row| !row.value.is_empty());
    Ok(rows)
}
